"""Twelve items on which every figure of every judge is known by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray.models.base import ChatRequest
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.protocols.judges.analysis import Cell, Outcomes, System, accuracy, cell, mcnemar
from rldf_ray.protocols.judges.study import OUTCOMES, hold, summary
from rldf_ray.protocols.judges.tables import arrow
from rldf_ray.protocols.study import TURN_SCHEMA
from tests.protocols.judges.items import (
    Rule,
    cast,
    crowd,
    first_slot,
    item,
    judge_by,
    longest,
    right,
    settings,
)

ITEMS = [item(number) for number in range(12)]
BY_ID = {one.item_id: one for one in ITEMS}
CONDITIONS = ["clean", "rerun", "position", "position_labels", "verbosity", "bandwagon", "cot"]
ALONE = System(system="single", judge="j")


def outcomes_of(model: ScriptedModel, **changes: Any) -> Outcomes:
    of = settings(conditions=CONDITIONS, **changes)
    names = dict.fromkeys(of.models(), model)
    held = [asyncio.run(hold(one, cast(of, **names))) for one in ITEMS]
    return Outcomes([row for one in held for row in one.outcomes])


def cells_of(rule: Rule) -> Mapping[str, Cell]:
    outcomes = outcomes_of(judge_by(rule))
    return {c: cell(outcomes, BY_ID, ALONE, 0, c, 0) for c in CONDITIONS[1:]}


def rates(cells: Mapping[str, Cell]) -> dict[str, float]:
    return {c: found.consistency.value for c, found in cells.items() if found.consistency}


def shifts(cells: Mapping[str, Cell]) -> dict[str, float]:
    return {c: found.shift.value for c, found in cells.items() if found.shift}


STEADY = dict.fromkeys(CONDITIONS[1:], 1.0)
STILL = dict.fromkeys(("position", "position_labels", "verbosity", "bandwagon"), 0.0)


def test_a_judge_that_knows_is_consistent_and_goes_nowhere() -> None:
    cells = cells_of(right)
    assert rates(cells) == STEADY
    assert shifts(cells) == STILL
    assert accuracy(outcomes_of(judge_by(right)).rows(ALONE, 0, "clean"), BY_ID, 0).value == 1  # type: ignore[union-attr]


def test_a_judge_of_the_first_slot_is_never_consistent_under_a_swap_and_shifts_by_one() -> None:
    cells = cells_of(first_slot)
    assert rates(cells) == STEADY | {"position": 0.0, "position_labels": 0.0}
    assert shifts(cells) == STILL | {"position": 1.0, "position_labels": 1.0}
    excess = cells["position"].excess
    assert excess is not None and excess.value == 1.0
    # All twelve pairs changed one way: two-sided, 2 / 2 ** 12.
    assert cells["position"].excess_p == pytest.approx(2 / 2**12)
    assert cells["cot"].excess_p is None


def test_a_judge_that_follows_the_crowd_goes_where_it_is_said_to_be() -> None:
    cells = cells_of(crowd)
    assert rates(cells) == STEADY | {"bandwagon": 0.0}
    assert shifts(cells) == STILL | {"bandwagon": 1.0}


def test_a_judge_that_counts_words_prefers_the_longer_answer_before_and_after() -> None:
    # Answer 2 is the longer one already: nothing is left to shift.
    cells = cells_of(longest)
    assert rates(cells) == STEADY
    assert shifts(cells) == STILL

    def of_equal_length(answers: dict[str, str], prompt: str) -> tuple[float, float]:
        one, two = longest(answers, prompt)
        return one, two - 3

    cells = cells_of(of_equal_length)
    # Clean, 3 words are more than 5 - 3; then they are fewer than 10 - 3.
    assert cells["verbosity"].consistency is not None and cells["verbosity"].shift is not None
    assert cells["verbosity"].consistency.value == 0.0
    assert cells["verbosity"].shift.value == 1.0
    assert cells["verbosity"].score_change == pytest.approx((0 + 5) / 2)


def test_a_planted_parse_failure_is_invalid_and_counted_and_never_a_tie() -> None:
    def sometimes(answers: dict[str, str], prompt: str) -> tuple[float, float] | None:
        silent = "What is 4 and 4?" in prompt and next(iter(answers.values())) == "It is 8."
        return None if silent else right(answers, prompt)

    outcomes = outcomes_of(judge_by(sometimes))
    rows = {r["item_id"]: r for r in outcomes.rows(ALONE, 0, "clean")}
    assert rows["item-4"]["winner"] is None
    found = cell(outcomes, BY_ID, ALONE, 0, "position", 0)
    assert found.consistency is not None and found.consistency_valid is not None
    assert found.consistency.value == pytest.approx(11 / 12)
    assert (found.consistency_valid.value, found.consistency_valid.n) == (1.0, 11)
    # The paper's code takes the scores of the item before, and calls it consistent.
    assert found.consistency_reused is not None and found.consistency_reused.value == 1.0


def test_rounds_and_conditions_of_a_debate_are_held_against_the_same_round() -> None:
    calls: dict[str, int] = {}

    def reply(request: ChatRequest) -> str:
        # The judge alone is steady; in round 1 its verdict is that of the first slot.
        prompt = request.messages[-1].content
        calls[request.address] = calls.get(request.address, 0) + 1
        return _said(first_slot if "[Round 1: Agent]" in prompt else right, prompt)

    outcomes = outcomes_of(ScriptedModel(reply=reply), debates=[["j", "j"]], rounds=1)
    debate = System(system="debate", judge="j", critic="j")
    found = [cell(outcomes, BY_ID, debate, number, "position", 0) for number in (0, 1)]
    assert [f.consistency.value for f in found if f.consistency] == [1.0, 0.0]
    assert set(calls.values()) == {1}


def _said(rule: Rule, prompt: str) -> str:
    from tests.protocols.judges.items import DOCUMENT

    scores = rule(dict(DOCUMENT.findall(prompt)), prompt)
    assert scores is not None
    return f"The score of Assistant 1: {scores[0]}\nThe score of Assistant 2: {scores[1]}"


def test_intervals_resample_questions() -> None:
    def by_group(answers: dict[str, str], prompt: str) -> tuple[float, float]:
        """Right on even groups, of the first slot on odd ones."""
        number = int(prompt.split("What is ")[1].split()[0])
        return right(answers, prompt) if number // 2 % 2 == 0 else first_slot(answers, prompt)

    found = cells_of(by_group)["position"].consistency
    assert found is not None and found.low is not None and found.high is not None
    assert found.value == 0.5
    # Six groups of two: a resample's mean is k / 6, whose middle 95 % is 1/6 to 5/6.
    assert (found.low, found.high) == pytest.approx((1 / 6, 5 / 6), abs=1e-9)


def test_mcnemar_is_the_binomial_test_of_the_changes() -> None:
    assert mcnemar([True] * 5, [True] * 5) is None
    assert mcnemar([True] * 5 + [False], [False] * 5 + [True]) == pytest.approx(2 * (1 + 6) / 2**6)


def test_arrows_are_by_sign_at_three_decimals() -> None:
    assert [arrow(0.608, 0.606), arrow(0.6061, 0.6059), arrow(0.5, 0.6)] == ["↑", "→", "↓"]


def test_the_summary_says_first_how_often_verdicts_parse_and_whether_the_judge_can_judge() -> None:
    of = settings(conditions=CONDITIONS, debates=[["j", "j"]], meta={"pools": {"j": [["j", "k"]]}})
    model = judge_by(first_slot)
    held = [asyncio.run(hold(one, cast(of, j=model, k=model))) for one in ITEMS]
    turns = pa.Table.from_pylist([vars_of(t) for h in held for t in h.turns], TURN_SCHEMA)
    outcomes = pa.Table.from_pylist([dict(r) for h in held for r in h.outcomes], OUTCOMES)
    found = summary(ITEMS, {"turns": turns, "outcomes": outcomes}, of, 0)
    assert found.notes[0].startswith("j: 0.0% of its 84 verdicts alone did not parse;")
    assert "accuracy is 1.000 on 12 labelled items" in found.notes[0]
    names = [table.name for table in found.tables]
    assert names[:2] == ["verdicts", "accuracy"] and {"debate", "meta", "bias"} < set(names)
    for table in found.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert [f.name for f in found.figures] == ["consistency-by-round", "selected-referees"]


def vars_of(turn: Any) -> dict[str, Any]:
    return {name: getattr(turn, name) for name in TURN_SCHEMA.names}
