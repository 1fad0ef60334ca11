"""One folder, command after command: what of it is another question, and what is answered."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ray.exceptions import RayTaskError

from rldf_ray.comparison import answers
from rldf_ray.comparison.answers import PromptedItem
from rldf_ray.comparison.weights import KNOWN, other_revision
from rldf_ray.evaluate.bbq.run_models import SCENES_NAME
from rldf_ray.models.embedded import EMBEDDED
from rldf_ray.plan import Plan, PlanError
from rldf_ray.sets.bbq.items import BBQError
from rldf_ray.storage.run_folder import RunFolder
from tests.comparison.conftest import Machine, compare
from tests.fakes import plan_with

INSTRUCTION = "protocols/multirole/prompts/system_judgement.txt"
OWN = "In our words, {{ unknown | join(' or ') }}."


def model_folder(folder: Path, weights: bytes, at: int = 1) -> str:
    """A folder with such weights, written at a time of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(weights)
    os.utime(folder / "model.safetensors", (at, at))
    return str(folder)


def test_rows_without_a_debate_have_the_plans_own_instruction(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[PromptedItem] = []
    rank = machine.rank

    def ranked(plan: Plan, folder: str, items: Any, put: Sequence[PromptedItem], *more: Any) -> Any:
        shown.extend(put)
        return rank(plan, folder, items, put, *more)

    monkeypatch.setattr(answers, "_ranked", ranked)
    methods = ("instructed", "cot_instructed")
    before = compare(tmp_path, methods=methods, repeats=1)
    told = {one.prompt.messages[0]["content"] for one in shown}
    assert not any(text.startswith("In our words, ") for text in told)
    shown.clear()
    own = plan_with("prompts={%s: %r}" % (INSTRUCTION, OWN))  # noqa: UP031
    after = compare(tmp_path, own, methods=methods, repeats=1)
    told = {one.prompt.messages[0]["content"] for one in shown}
    assert told and all(text.startswith("In our words, ") for text in told)
    asked = [r.messages[0].content for r in machine.said.asked("cot_instructed-0/")]
    assert sum(text.startswith("In our words, ") for text in asked) == len(asked) / 2
    keys = [[one["answers"] for one in found.summary["methods"]] for found in (before, after)]
    assert keys[0] != keys[1]


def test_other_weights_in_the_models_folder_are_asked_anew(
    machine: Machine, tmp_path: Path
) -> None:
    model = model_folder(tmp_path / "model", b"one")
    plan, out, methods = plan_with(f"model={model}"), tmp_path / "out", ("default", "cot")
    first = compare(out, plan, methods=methods, repeats=1)
    said = len(machine.said.requests)
    compare(out, plan, methods=methods, repeats=1)
    assert (len(machine.ranked), len(machine.said.requests)) == (2, said)
    assert first.summary["methods"][0]["models"] == [model]
    model_folder(tmp_path / "model", b"another")
    other = compare(out, plan, methods=methods, repeats=1)
    assert (len(machine.ranked), len(machine.said.requests)) == (4, 2 * said)
    (named,) = other.summary["methods"][0]["models"]
    assert named.startswith(f"{model} ") and len(machine.read) == 2
    # The first ones come back, and what they said with them.
    model_folder(tmp_path / "model", b"one")
    again = compare(out, plan, methods=methods, repeats=1)
    assert len(machine.ranked) == 4 and again.results == first.results


def test_answers_of_before_revisions_were_written_are_of_weights_that_are_no_newer(
    tmp_path: Path,
) -> None:
    kept = RunFolder(tmp_path / "compare")
    kept.write_json("answers/a.json", {})
    os.utime(kept.root / "answers/a.json", (100, 100))
    older = model_folder(tmp_path / "older", b"one", at=50)
    newer = model_folder(tmp_path / "newer", b"one", at=150)
    assert other_revision(older, kept) is None
    revision = other_revision(newer, kept)
    assert revision is not None and other_revision(newer, kept) == revision
    known = json.loads((kept.root / KNOWN).read_text(encoding="utf-8"))
    assert known[newer] is None and known[older]


@pytest.mark.parametrize("name", [EMBEDDED, "org/model-1B", "/nowhere/model"])
def test_a_model_that_is_no_folder_is_known_by_its_name(name: str, tmp_path: Path) -> None:
    kept = RunFolder(tmp_path)
    assert other_revision(name, kept) is None and not (tmp_path / KNOWN).exists()


def test_a_model_that_ranks_nothing_is_named(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = machine.rank

    def broken(plan: Plan, folder: str, *more: Any) -> Any:
        if "repeat1-ppo" in folder:
            cause = BBQError("log-likelihoods of answers are not finite")
            # As a worker's error arrives: its text is the worker's traceback.
            raise RayTaskError("rank_answers", "Traceback", cause).as_instanceof_cause()
        return rank(plan, folder, *more)

    monkeypatch.setattr(answers, "_ranked", broken)
    with pytest.raises(BBQError) as error:
        compare(tmp_path, methods=("default", "rldf_self"), repeats=2)
    text = str(error.value)
    assert text.startswith("RLDF self-reflection, repeat 1 (seed 1, ")
    assert text.endswith("ppo/model): log-likelihoods of answers are not finite")


def test_thoughts_without_room_for_a_question_are_refused_before_work(
    machine: Machine, tmp_path: Path
) -> None:
    plan = plan_with("evaluate.thought_tokens=513")
    with pytest.raises(PlanError, match=r"thought_tokens=513 with engines.max_model_len=1024"):
        compare(tmp_path, plan, methods=("rldf_self", "cot"))
    assert not machine.stages
    compare(tmp_path, plan, methods=("default",))


def test_methods_given_one_after_another_are_trained_on_the_same_topics(
    machine: Machine, tmp_path: Path
) -> None:
    for methods in (("rldf_self",), ("rlaif",), ("rldf_self", "rlaif")):
        found = compare(tmp_path, methods=methods, repeats=1)
    assert machine.stages["topics"] == 1
    assert len(set(found.summary["topics"].values())) == 1
    assert not any("different topics" in note for note in found.notes)


def test_rows_that_were_trained_on_different_topics_say_so(
    machine: Machine, tmp_path: Path
) -> None:
    compare(tmp_path, methods=("rldf_self",), repeats=1)
    compare(tmp_path, methods=("rlaif",), repeats=1)
    for path in (tmp_path / "runs/debates").glob("*rlaif*/data/topics.parquet"):
        pq.write_table(pq.read_table(path).slice(0, 2), path)
    found = compare(tmp_path, methods=("rldf_self", "rlaif", "sft"), repeats=1)
    (note,) = [note for note in found.notes if "different topics" in note]
    assert ": RLDF self-reflection, SFT; RLAIF." in note
    assert len(set(found.summary["topics"].values())) == 2
    assert note in (tmp_path / "compare/tables.md").read_text(encoding="utf-8")


def test_what_answers_took_is_told_for_every_way_of_asking(
    machine: Machine, tmp_path: Path
) -> None:
    found = compare(tmp_path, methods=("default", "cot"), repeats=2, modes=("rank", "letter"))
    took = found.costs["cot"].answering
    assert list(took) == ["rank", "letter"]
    assert all(one.thought_tokens > 0 and one.cut_off == 0 for one in took.values())
    assert found.costs["default"].answering["rank"].cut_off is None
    text = (tmp_path / "compare/tables.md").read_text(encoding="utf-8")
    assert "thought tokens an item (letter)" in text
    titles = {table.number: table.title for table in found.tables}
    for number, how in {1: "mean", 7: "mean", 8: "by letter", 9: "by letter"}.items():
        assert SCENES_NAME in titles[number] and how in titles[number]
        assert not titles[number].startswith("Accuracy on BBQ")
