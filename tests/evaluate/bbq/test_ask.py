"""Models behind an endpoint: letters by probability, words by parsing, nothing made up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from rldf_ray.evaluate.bbq.ask import ask_endpoint, asked_items, check_mode, model_folder
from rldf_ray.evaluate.bbq.prompt import Mode, order_of
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQError
from tests.fakes import RecordingModel, completion

ITEMS = load_bbq(SCENES, ["Age"], 8).items


def shown(request: ChatRequest) -> dict[str, str]:
    """Letter -> option, as the prompt lists them."""
    lines = request.messages[-1].content.splitlines()
    return {line[0]: line[3:] for line in lines if line[1:3] == ". "}


def asked(model: RecordingModel, mode: Mode, seed: int = 1) -> dict[int, int | None]:
    found = asyncio.run(
        ask_endpoint(model, ITEMS, asked_items(ITEMS, mode, True, seed), mode, 0, lambda n: None)
    )
    return {key[1]: answer.prediction for key, answer in found.items()}


def at_place(place: int) -> dict[int, int]:
    """The published index of what stands at one place of every item."""
    return {item.example_id: order_of(item, True, 1)[place] for item in ITEMS}


def test_a_generated_answer_is_a_published_index_whatever_the_order_shown() -> None:
    texts = {item.options[item.unknown] for item in ITEMS}

    def unknown(request: ChatRequest) -> str:
        return next(text for text in shown(request).values() if text in texts)

    model = RecordingModel(unknown)
    assert asked(model, "generate") == {item.example_id: item.unknown for item in ITEMS}
    assert {request.temperature for request in model.requests} == {0.0}


def test_letters_count_by_their_probability_where_the_endpoint_tells_it() -> None:
    def letters(request: ChatRequest) -> Completion:
        return replace(completion("A"), choice_probabilities={"A": 0.2, "B": 0.7, "C": 0.1})

    found = asked(RecordingModel(letters), "letter")
    assert found == at_place(1)


def test_letters_count_by_the_text_where_it_does_not() -> None:
    model = RecordingModel(lambda request: "C. The")
    assert asked(model, "letter") == at_place(2)
    assert {request.choices for request in model.requests} == {("A", "B", "C")}


def test_what_is_no_option_stays_unparsed() -> None:
    assert set(asked(RecordingModel(lambda request: "Hard to say"), "generate").values()) == {None}


def test_what_a_backend_cannot_do_is_refused_at_once() -> None:
    with pytest.raises(BBQError, match="--mode letter or --mode generate"):
        check_mode("openai:m", "rank")
    with pytest.raises(BBQError, match="generated at endpoints only"):
        check_mode("runs/x/model", "generate")
    check_mode("openai:m", "letter")
    check_mode("embedded", "rank")


def test_a_runs_folder_stands_for_its_policy(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "plan.yaml").write_text("", encoding="utf-8")
    assert model_folder(str(tmp_path)) == str(tmp_path / "model")
    with pytest.raises(FileNotFoundError):
        model_folder(str(tmp_path / "nothing"))
