"""Which arguments of a dialogue become pairs: each wording once, and none against itself."""

from __future__ import annotations

from typing import Any

from rldf_ray.protocols.evince.training import accepted_and_flagged


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
