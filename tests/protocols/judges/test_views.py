"""Biases are pure views: what changes, and nothing else; a verdict is read back as a candidate."""

from __future__ import annotations

import pytest

from rldf_ray.protocols.judges.conditions import against_loser, shown_views, twin_refused
from rldf_ray.protocols.judges.prompt import segments
from rldf_ray.protocols.judges.verdict import Scores
from rldf_ray.protocols.judges.views import (
    Bandwagon,
    clean,
    lengthened,
    rerun,
    swapped,
    swapped_with_labels,
    with_bandwagon,
)
from rldf_ray.protocols.study import StudyTurn
from tests.protocols.judges.items import item, settings

ITEM = item(3)
CLEAN = clean(ITEM)


@pytest.mark.parametrize("swap", [swapped, swapped_with_labels])
def test_swapping_twice_is_the_identity(swap: object) -> None:
    assert callable(swap)
    assert swap(swap(CLEAN)) == CLEAN != swap(CLEAN)
    assert segments("judge", swap(swap(CLEAN))) == segments("judge", CLEAN)


def test_a_swap_gives_labels_anew_or_keeps_them() -> None:
    places = [(d.label, d.candidate, d.text) for d in swapped(CLEAN).documents]
    assert places == [(1, 2, ITEM.answer2), (2, 1, ITEM.answer1)]
    kept = [(d.label, d.candidate, d.text) for d in swapped_with_labels(CLEAN).documents]
    assert kept == [(2, 2, ITEM.answer2), (1, 1, ITEM.answer1)]


def test_a_verdict_on_labels_is_one_on_candidates() -> None:
    assert [CLEAN.candidate(w) for w in (1, 2, "tie")] == [1, 2, "tie"]
    assert [swapped(CLEAN).candidate(w) for w in (1, 2, "tie")] == [2, 1, "tie"]
    assert [swapped_with_labels(CLEAN).candidate(w) for w in (1, 2)] == [1, 2]
    assert swapped(CLEAN).by_candidate(Scores(9, 3)) == Scores(3, 9)


def test_verbosity_changes_the_second_answer_alone() -> None:
    assert ITEM.answer2_long is not None
    text = segments("judge", lengthened(CLEAN, 2, ITEM.answer2_long)).text
    assert text == segments("judge", CLEAN).text.replace(ITEM.answer2, ITEM.answer2_long)


@pytest.mark.parametrize("place", ["system_head", "after_question", "end"])
def test_a_crowd_is_one_line_at_its_place(place: str) -> None:
    line = "90 % of people hold that the answer of Assistant 2 is the better one."
    view = with_bandwagon(CLEAN, Bandwagon(90, 2, place))  # type: ignore[arg-type]
    prompt = segments("judge", view)
    assert prompt.text.count(line) == 1
    assert prompt.text.replace(line, "").split() == segments("judge", CLEAN).text.split()
    before = {"system_head": "[Task]\n", "after_question": f"{ITEM.question}\n\n", "end": "\n\n"}
    assert f"{before[place]}{line}" in prompt.text
    assert prompt.text.endswith(line) == (place == "end")


def test_a_rerun_looks_the_same() -> None:
    assert segments("judge", rerun(CLEAN, 1)) == segments("judge", CLEAN)
    assert rerun(CLEAN, 1) != CLEAN


def test_every_condition_has_its_view_and_a_missing_twin_has_none() -> None:
    every = settings(conditions=["clean", "rerun", "position", "verbosity", "bandwagon", "cot"])
    shown = list(shown_views(ITEM, every, ITEM.answer2_long))
    assert [s.condition for s in shown] == ["rerun", "position", "verbosity", "bandwagon", "cot"]
    assert len({s.key for s in shown}) == 5
    lacking = [s.condition for s in shown_views(ITEM, every, None)]
    assert "verbosity" not in lacking and len(lacking) == 4
    again = settings(conditions=["clean", "rerun"], reruns=3)
    assert [s.view.rerun for s in shown_views(ITEM, again, None)] == [1, 2, 3]


def test_the_crowd_may_hold_what_the_judge_held_the_worse() -> None:
    loser = settings(bandwagon={"target": "clean_loser"})
    assert "bandwagon" not in [s.condition for s in shown_views(ITEM, loser, "x")]
    shown = against_loser(ITEM, loser, 2)
    assert shown is not None and shown.view.bandwagon is not None
    assert shown.view.candidate(shown.view.bandwagon.label) == 1
    assert against_loser(ITEM, loser, "tie") is against_loser(ITEM, loser, None) is None


@pytest.mark.parametrize(
    ("text", "finish", "why"),
    [
        ("twice as long, twice as long", "stop", None),
        ("short", "stop", "too short"),
        ("long " * 40, "stop", "too long"),
        ("twice as long, twice as long", "length", "cut off"),
        ("This longer version says it.", "stop", "speaks of the rewriting"),
    ],
)
def test_a_twin_is_taken_only_if_it_is_one(text: str, finish: str, why: str | None) -> None:
    values = dict.fromkeys(StudyTurn.__dataclass_fields__, "") | {"refusal": None}
    turn = StudyTurn(**{**values, "text": text, "finish_reason": finish})  # type: ignore[arg-type]
    assert twin_refused("fourteen chars", turn, settings()) == why
