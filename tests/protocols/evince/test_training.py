"""Which arguments of a dialogue become pairs: each wording once, and none against itself."""

from __future__ import annotations

from typing import Any

from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.training import accepted_and_flagged, sft_rows
from tests.protocols.evince.script import FIVE, ITEM, Script, held, outcome, settings, turn
from tests.protocols.evince.tables import tables_of


def argument(name: str, claim: str, *flags: str, rated: bool = True) -> dict[str, Any]:
    return {
        "argument_id": name,
        "label": "neutral",
        "claim": claim,
        "reason": "It says so.",
        "quote": "",
        "flags": list(flags),
        "own": 0.8 if rated else None,
    }


def said(claim: str) -> str:
    return f"neutral: {claim}\nIt says so."


def test_what_is_repeated_counts_once() -> None:
    arguments = [
        argument("A1.1", "Fair."),
        argument("B1.1", "Harsh.", "weak"),
        argument("A2.1", "Fair."),
        argument("B2.1", "Harsh.", "weak"),
    ]
    assert accepted_and_flagged(arguments, ()) == ([said("Fair.")], [said("Harsh.")])


def test_words_accepted_once_and_flagged_once_are_neither() -> None:
    arguments = [
        argument("A1.1", "Fair."),
        argument("A2.1", "Fair.", "weak"),
        argument("A3.1", "Kind."),
        argument("B1.1", "Unrated.", rated=False),
    ]
    assert accepted_and_flagged(arguments, ()) == ([said("Kind.")], [])
    assert accepted_and_flagged(arguments, ("A3.1",)) == ([], [said("Kind.")])


async def test_arguments_that_are_rejected_settle_no_label() -> None:
    said = turn(0, 10, 80, 10, 0)
    found = await held(Script({"A1": said, "B1": said}))
    assert outcome(found)["review"]
    results = Results(
        items={ITEM.item_id: ITEM},
        tables=tables_of(found),
        settings=settings(),
        scale=FIVE,
        seed=7,
    )
    decided = {"item_id": ITEM.item_id, "reject": ["A1.1"], "final": ["neutral"]}
    assert list(sft_rows(results, [{**decided, "decision": ""}])) == []
    assert len(list(sft_rows(results, [{**decided, "decision": "change"}]))) == 1
