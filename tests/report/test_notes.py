"""The report's notes: they claim what the numbers show, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from rldf_ray.report.notes import notes_of
from tests.report.reports import LAST, a_report, planned, the_note


def test_a_finished_run_is_told_in_the_order_of_its_stages() -> None:
    notes = notes_of(a_report())
    beginnings = [
        "The referee",
        "Length alone",
        "The reward model",
        "PPO made",
        "Accuracy of policy",
        "Perplexity on",
        "Rewards on",
    ]
    assert len(notes) == 8 and notes[-1] == LAST
    for note, beginning in zip(notes, beginnings, strict=False):
        assert note.startswith(beginning)


def test_a_run_that_has_only_begun_claims_nothing() -> None:
    begun = a_report(
        referee=None,
        debates=None,
        data=None,
        evaluation=None,
        training={"sft": None, "reward": None, "ppo": None},
    )
    assert notes_of(begun) == [
        "The referee was not audited, so nothing is known of how good its labels are.",
        "The models were not evaluated.",
    ]


def test_what_cannot_be_read_is_named_and_not_called_undone() -> None:
    why = {"audit": "stages/audit.json has no 'verdict'", "eval": "stages/eval.json has no 'set'"}
    notes = notes_of(a_report(referee=None, evaluation=None, unreadable=why))
    assert notes[:2] == [f"Not in this report: {said}." for said in why.values()]
    assert not any("not audited" in note or "not evaluated" in note for note in notes)


def test_given_pairs_are_told() -> None:
    imported = a_report(data={"imported": "mine.jsonl", "quality": {"warnings": []}})
    assert "no debate was held" in the_note(imported, "The pairs were given (mine.jsonl)")


def test_tokens_counted_by_characters_are_said_once() -> None:
    tokens = {"prompt": 70, "cached": 0, "generated": 30, "by_characters": 60}
    counted = a_report(stages=[{"tokens": tokens}, {"tokens": tokens}, {"tokens": None}])
    assert "120 of 200 tokens" in notes_of(counted)[0]
    assert not any("characters" in note for note in notes_of(a_report()))


# ---- the referee


def test_the_audits_verdict_is_passed_on_word_for_word() -> None:
    assert notes_of(a_report())[0] == "The referee separates well."


@pytest.mark.parametrize(("share", "audited"), [(0.5, True), (1.0, False)])
def test_labels_that_were_matched_are_said_to_be_verifiable_answers(
    share: float, audited: bool
) -> None:
    report = a_report()
    report["plan"]["topics"]["judgement_share"] = share
    report["plan"]["referee"]["judgements"] = "matched"
    notes = notes_of(report)
    assert sum("verifiable answers" in note for note in notes) == 1
    assert ("The referee separates well." in notes) == audited
    assert not any("verifiable" in note for note in notes_of(a_report()))


@pytest.mark.parametrize(("distinct", "told"), [(1, True), (0, False), (2, False)])
def test_a_referee_that_always_says_the_same_is_told(distinct: int, told: bool) -> None:
    report = a_report(referee={"verdict": "V.", "distinct_said_scores": distinct})
    assert any("the same score" in note for note in notes_of(report)) is told


def test_labels_relative_to_the_round_are_told_with_how_many_there_are() -> None:
    relative = a_report()
    relative["plan"]["referee"]["threshold_kind"] = "relative"
    note = the_note(relative, "Labels are relative to the round")
    assert "40 statements" in note and "however mild" in note
    assert not any("relative" in note for note in notes_of(a_report()))
    assert not any("relative to the round" in n for n in notes_of({**relative, "debates": None}))


def debated(**changes: Any) -> dict[str, Any]:
    return {**a_report()["debates"], **changes}


NOISE = "On opinions the referee does not separate biased from fair. Its labels there are noise."


def about_labels(report: dict[str, Any]) -> list[str]:
    """Notes that are about labels, of a run whose data have no warnings and no reward model."""
    quiet = {"imported": None, "quality": {"warnings": []}}
    data = report["data"] if report["data"]["imported"] else quiet
    untrained = {"sft": None, "reward": None, "ppo": None}
    return notes_of({**report, "data": data, "training": untrained, "evaluation": None})[:-1]


@pytest.mark.parametrize("audit", [None, {"verdict": NOISE, "distinct_said_scores": 1}])
def test_of_a_source_nothing_is_said_of_labels_that_the_referee_did_not_give(
    audit: dict[str, Any] | None,
) -> None:
    debates = debated(source="mabrf", statements=0, high=0, low=0, label_sources={})
    report = planned(a_report(referee=audit, debates=debates), referee={"label_source": "expected"})
    first, *others = about_labels(report)
    assert "protocol mabrf" in first and "the referee scored none of them" in first
    assert others == (
        []
        if audit is None
        else ["The audit is of scores that the referee gives, and it gave none to these data."]
    )


def test_a_source_is_known_from_the_plan_before_it_is_held() -> None:
    begun = planned(a_report(referee=None, debates=None), debate={"protocol": "evince"})
    assert "protocol evince" in about_labels(begun)[0]
    # Pairs or statements that were given are no source's, whatever the plan names.
    imported = planned(a_report(debates=debated(given=True)), debate={"protocol": "evince"})
    assert "were given" in about_labels(imported)[0]


@pytest.mark.parametrize("audit", [None, {"verdict": NOISE, "distinct_said_scores": 1}])
@pytest.mark.parametrize("label_source", ["said", "expected"])
def test_of_given_statements_no_referee_and_no_endpoint_is_blamed(
    audit: dict[str, Any] | None, label_source: str
) -> None:
    report = a_report(referee=audit, debates=debated(given=True))
    notes = about_labels(planned(report, referee={"label_source": label_source}))
    assert (
        notes[0] == "The statements and their scores were given: the referee scored none of them."
    )
    assert len(notes) == (1 if audit is None else 2) and NOISE not in notes
    relative = about_labels(planned(report, referee={"threshold_kind": "relative"}))
    assert "Labels that were not given are relative to the round" in relative[1]


@pytest.mark.parametrize("audit", [None, {"verdict": NOISE, "distinct_said_scores": 9}])
def test_of_given_pairs_no_referee_is_told(audit: dict[str, Any] | None) -> None:
    pairs = {"imported": "hh.jsonl", "quality": {"warnings": []}}
    none = debated(given=True, statements=0, high=0, low=0, label_sources={})
    *notes, last = about_labels(a_report(referee=audit, debates=none, data=pairs))
    assert last == "The pairs were given (hh.jsonl): no debate was held for them."
    assert len(notes) == (audit is not None) and NOISE not in notes


def test_scores_said_in_place_of_expectations_are_told() -> None:
    plan = a_report()["plan"]
    plan["referee"]["label_source"] = "expected"
    debates = {"high": 40, "low": 60, "label_sources": {"said": 30, "expected": 70}}
    assert the_note(a_report(plan=plan, debates=debates), "30 statements are labelled by")
    told = {**debates, "label_sources": {"expected": 100}}
    notes = notes_of(a_report(plan=plan, debates=told))
    assert not [note for note in notes if "are labelled by" in note]


def test_notes_are_plain_sentences() -> None:
    for note in notes_of(a_report()):
        assert note.endswith(".") and "None" not in note and "nan" not in note.split()
