"""Models behind an endpoint: letters by probability, words by parsing, nothing made up."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest

from rldf_ray.evaluate.bbq.ask import ask_endpoint, asked_items, check_mode, model_folder
from rldf_ray.evaluate.bbq.prompt import Mode, order_of
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.evaluate.bbq.summary import Answer
from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQError, Key
from tests.endpoint import completed, with_top
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


@pytest.mark.parametrize(
    ("text", "place", "refused"),
    [
        ("I'm sorry, I", None, True),
        ("It is hard to", None, False),
        ("Answer: C", 2, False),
        ("**C**", 2, False),
        ("c) The", 2, False),
    ],
)
def test_a_reply_that_begins_with_no_letter_counts_by_its_text(
    text: str, place: int | None, refused: bool
) -> None:
    """What it leaves to the letters is B's, and no answer."""
    found = at_endpoint(text, {text.split()[0]: 0.99} | {"B": 3e-6, "A": 1e-6, "C": 1e-6})
    wanted = dict.fromkeys(i.example_id for i in ITEMS) if place is None else at_place(place)
    assert {key[1]: answer.prediction for key, answer in found.items()} == wanted
    assert {answer.refusal for answer in found.values()} == {refused}
    assert {answer.scores for answer in found.values()} == {None}


@pytest.mark.parametrize("text", ["C", " C", "C. The", "C) The", "C The"])
def test_a_reply_that_begins_with_a_letter_has_the_letters_probabilities(text: str) -> None:
    found = at_endpoint(text, {"C": 2e-6, " C": 4e-6, "A": 3e-6, "B": 1e-6})
    assert {key[1]: answer.prediction for key, answer in found.items()} == at_place(2)
    for answer in found.values():
        scores = [math.exp(score) for score in answer.scores or ()]
        assert sorted(scores) == pytest.approx([0.1, 0.3, 0.6])


def at_endpoint(text: str, top: dict[str, float]) -> dict[Key, Answer]:
    """The answers of an endpoint that writes `text` to every item, by its likeliest tokens."""
    model = RecordingModel(lambda request: completed(with_top(text, top), request))
    prompts = asked_items(ITEMS, "letter", True, 1)
    return asyncio.run(ask_endpoint(model, ITEMS, prompts, "letter", 0, lambda n: None))


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
