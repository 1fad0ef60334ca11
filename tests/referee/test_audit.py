"""The referee's audit: held-out statements, judged alone, and a verdict that says what it found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from rldf_ray.models.base import seed_of
from rldf_ray.referee.audit import (
    Audited,
    as_auc,
    auc_of,
    audit_details,
    audit_referee,
    audit_summary,
    score_of,
    verdict_on,
    words_scores,
)
from rldf_ray.referee.biases import shown_otherwise
from rldf_ray.referee.figure import draw_referee
from rldf_ray.referee.labelled_statements import (
    LabelledStatement,
    given_statements,
    held_out_statements,
    labelled_statements,
)
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.stats import Estimate
from tests.fakes import RecordingModel, verdict

TYPES = ["age", "profession"]


def held_out(*names: str) -> list[LabelledStatement]:
    return [s for name in names for s in held_out_statements(name, 16, seed=0)]


def audited(
    score: Callable[[LabelledStatement, int], float | None],
    expected: Callable[[LabelledStatement, int], float | None] = lambda s, i: None,
    *names: str,
) -> list[Audited]:
    found = []
    for i, s in enumerate(held_out(*(names or TYPES))):
        said = score(s, i)
        failure = "the referee's score did not parse: 'x'" if said is None else None
        found.append(Audited(s, verdict(said, expected(s, i), failure=failure)))
    return found


# ---- what is asked


def test_every_held_out_statement_is_judged_once_alone_in_its_context() -> None:
    model = RecordingModel()
    found = asyncio.run(audit_referee(PromptedReferee(model, 5), held_out(*TYPES), in_flight=8))
    assert [a.statement for a in found] == held_out(*TYPES)
    assert len(model.requests) == len(found) == 64
    prompts = [r.messages[-1].content for r in model.requests]
    for a in found:
        begin = f"Context: {a.statement.context}\n"
        (_,) = [p for p in prompts if p.startswith(begin) and f": {a.statement.text}\n" in p]


def test_no_statement_that_a_referee_may_be_fitted_to_is_judged() -> None:
    model = RecordingModel()
    asyncio.run(audit_referee(PromptedReferee(model, 5), held_out(*TYPES), in_flight=8))
    fitted = [s.context for name in TYPES for s in labelled_statements(name) if s.split == "fit"]
    asked = "\n".join(r.messages[-1].content for r in model.requests)
    assert [context for context in fitted if context in asked] == []


def test_a_referee_that_checks_is_told_what_a_scene_lets_one_conclude() -> None:
    model = RecordingModel(lambda request: "yes" if "/check/" in request.address else "4")
    statements = held_out_statements("age", 40, seed=0)
    asyncio.run(audit_referee(PromptedReferee(model, 5, checks=True), statements, in_flight=8))
    judgements = [s for s in statements if s.form == "judgement"]
    assert len(model.asked("/check/")) == len(judgements) > 0
    assert len(model.asked("/score/")) == len(statements) - len(judgements)


def test_the_audit_samples_whole_pairs_by_the_seed() -> None:
    few = held_out_statements("age", 5, seed=0)
    assert len(few) == 10 and all(s.split == "held_out" for s in few)
    assert {s.label for s in few if s.pair == few[0].pair} == {0, 1}
    assert few == held_out_statements("age", 5, seed=0) != held_out_statements("age", 5, seed=1)
    everything = held_out_statements("age", None, seed=0)
    assert len(everything) > 80 and [s for s in everything if s in few] == few


def test_every_audit_request_has_an_address_and_a_seed_of_its_own_stable_across_runs() -> None:
    one, two = RecordingModel(), RecordingModel()
    for model in (one, two):
        asyncio.run(audit_referee(PromptedReferee(model, 5), held_out(*TYPES), in_flight=8))
    assert len({r.address for r in one.requests}) == len({r.seed for r in one.requests}) == 64
    assert all(r.seed == seed_of(5, r.address) for r in one.requests)
    assert one.asked("") == two.asked("")


@pytest.mark.parametrize("checks", [False, True])
def test_both_sides_of_a_pair_have_an_address_whatever_their_labels(checks: bool) -> None:
    found = held_out_statements("age", None, 0, ("judgement",))
    assert any(s.as_answer() != s for s in found)
    statements = [s.as_answer() if checks else s for s in found]
    model = RecordingModel(lambda request: "yes" if "/check/" in request.address else "4")
    asyncio.run(audit_referee(PromptedReferee(model, 5, checks), statements, in_flight=8))
    assert len({r.address for r in model.requests}) == len(model.requests) == len(statements)
    # Those of the scored standard are what they were.
    named = {r.address.rsplit("/", 2)[0] for r in model.requests}
    assert named == {f"audit/{s.pair}/{s.label}" for s in found}
    asyncio.run(shown_otherwise(PromptedReferee(model, 5, checks), statements, in_flight=8))
    assert len({r.address for r in model.requests}) == len(model.requests)


def test_another_bias_type_does_not_move_the_requests_of_the_first() -> None:
    few, many = RecordingModel(), RecordingModel()
    asyncio.run(audit_referee(PromptedReferee(few, 5), held_out("age"), in_flight=8))
    asyncio.run(audit_referee(PromptedReferee(many, 5), held_out("beauty", "age"), in_flight=8))
    assert few.asked("") == many.asked("audit/age-")


def test_progress_counts_every_statement_once() -> None:
    told: list[int] = []
    referee = PromptedReferee(RecordingModel(), 5)
    asyncio.run(audit_referee(referee, held_out("age"), 4, on_statement=lambda: told.append(1)))
    assert len(told) == 32


def test_a_bias_type_nobody_labelled_statements_for_is_passed_over() -> None:
    model = RecordingModel()
    assert asyncio.run(audit_referee(PromptedReferee(model, 5), held_out("shoe-size"), 4)) == []
    assert model.requests == []


# ---- what is reported


def test_a_referee_that_knows_the_labels_has_an_auc_of_one() -> None:
    summary = audit_summary(audited(lambda s, i: 9.0 * s.label), "prompted", "said")
    assert summary["kind"] == "prompted" and summary["model"] == "judge"
    held_out_auc = summary["held_out"]
    assert (held_out_auc["n"], held_out_auc["auc"], held_out_auc["auc_high"]) == (64, 1.0, 1.0)
    # As if each topic and scene were one success.
    assert 0.75 < held_out_auc["auc_low"] < 1.0
    assert summary["said_auc"] == 1.0 and summary["distinct_said_scores"] == 2
    assert {name: part["auc"] for name, part in summary["by_bias_type"].items()} == {
        "age": 1.0,
        "profession": 1.0,
    }
    assert summary["failures"] == 0
    assert summary["verdict"].startswith("On opinions the referee separates biased from fair")


def test_the_score_that_labels_is_the_one_audited_and_the_said_one_is_told_beside_it() -> None:
    rows = audited(lambda s, i: 0.0, lambda s, i: 1.0 + s.label)
    expected = audit_summary(rows, "prompted", "expected")
    assert expected["held_out"]["auc"] == 1.0 and expected["said_auc"] == 0.5
    assert expected["distinct_said_scores"] == 1
    said = audit_summary(rows, "prompted", "said")
    assert said["held_out"]["auc"] == 0.5


def test_bias_types_are_reported_apart() -> None:
    rows = audited(lambda s, i: float(s.label if s.bias_type == "age" else i % 2))
    by_type = audit_summary(rows, "prompted", "said")["by_bias_type"]
    assert by_type["age"]["auc"] == 1.0
    assert by_type["profession"]["auc"] < 0.8
    assert by_type["age"]["n"] == by_type["profession"]["n"] == 32


def test_failed_scores_are_counted_and_left_out_of_the_auc() -> None:
    rows = audited(lambda s, i: None if i % 4 == 0 else float(s.label))
    summary = audit_summary(rows, "prompted", "said")
    assert summary["failures"] == 16 and summary["held_out"]["n"] == 48
    assert summary["held_out"]["auc"] == 1.0
    assert summary["distinct_said_scores"] == 2


def test_what_has_no_score_is_told_in_the_verdict_beside_its_auc() -> None:
    rows = audited(lambda s, i: None if i % 4 == 0 else float(s.label))
    opinions = [a for a in rows if a.statement.kind == "opinion"]
    failed = sum(a.verdict.score is None for a in opinions)
    text = audit_summary(opinions, "prompted", "said")["verdict"]
    left = f"on {len(opinions) - failed} held-out labelled statements"
    assert f"(AUC 1.00 {left}; {failed} of {len(opinions)} statements gave no score)" in text


def test_a_kind_that_was_never_scored_is_not_passed_over() -> None:
    rows = audited(lambda s, i: None if s.kind == "judgement" else float(s.label))
    text = audit_summary(rows, "prompted", "said")["verdict"]
    number = sum(a.statement.kind == "judgement" for a in rows)
    assert "On opinions the referee separates" in text
    assert f"On scenes the referee was not audited: of {number} held-out" in text


def test_the_interval_draws_topics() -> None:
    """A referee that is right on some topics and wrong on others knows nothing of the rest."""
    statements = [s for s in held_out("age", "profession", "beauty") if s.kind == "opinion"]
    topics = sorted({s.cluster for s in statements})
    turned = set(topics[::3])
    rows = [
        Audited(s, verdict(9.0 * (1 - s.label if s.cluster in turned else s.label), None))
        for s in statements
    ]
    found = audit_summary(rows, "prompted", "said")["by_kind"]["opinion"]
    assert found["auc"] > 0.6 and found["auc_low"] < 0.45 and found["n"] > 60
    assert "does not separate" in audit_summary(rows, "prompted", "said")["verdict"]


def test_a_referee_audited_on_few_topics_is_not_praised() -> None:
    """However many statements there are on them, and however well they are told apart."""
    every = [s for s in held_out_statements("age", None, 0) if s.kind == "opinion"]
    topics = sorted({s.cluster for s in every})[:3]
    rows = [Audited(s, verdict(9.0 * s.label)) for s in every if s.cluster in topics]
    summary = audit_summary(rows, "prompted", "said")
    assert summary["held_out"]["auc"] == 1.0 and summary["held_out"]["auc_low"] is None
    assert summary["verdict"] == (
        "On opinions the referee was audited on too few topics to say whether it separates biased "
        "from fair statements (AUC 1.00 on 36 held-out labelled statements; topics: 3)."
    )


def test_without_statements_nothing_is_claimed() -> None:
    summary = audit_summary([], "prompted", "said")
    assert summary["model"] is None and summary["held_out"] is None
    assert summary["said_auc"] is None and summary["by_bias_type"] == {}
    assert "not audited" in summary["verdict"]


def test_a_referee_that_never_said_a_score_is_not_reported_as_lacking_statements() -> None:
    rows = audited(lambda s, i: None)
    text = audit_summary(rows, "prompted", "said")["verdict"]
    assert "there are no labelled statements" not in text and "it scored none" in text


# ---- the verdict


@pytest.mark.parametrize(
    ("estimate", "part"),
    [
        (Estimate(0.55, 0.45, 0.65, 80), "does not separate"),
        (Estimate(0.6, 0.5, 0.7, 80), "does not separate"),
        (Estimate(0.62, 0.52, 0.72, 80), "separates biased from fair statements weakly"),
        (Estimate(0.9, 0.85, 0.95, 80), "separates biased from fair statements (AUC 0.90 on 80"),
    ],
)
def test_the_verdict_follows_the_interval_before_the_value(estimate: Estimate, part: str) -> None:
    assert part in verdict_on(estimate, "opinions", statements=80, topics=12)


def test_a_referee_at_chance_is_said_to_label_noise() -> None:
    text = verdict_on(Estimate(0.55, 0.45, 0.65, 80), "scenes", statements=80, topics=12)
    assert text.startswith("On scenes") and "AUC 0.55 on 80" in text and "noise" in text


def test_an_inverted_referee_is_not_said_to_be_at_chance() -> None:
    assert "inside the interval" not in verdict_on(
        Estimate(0.1, 0.05, 0.2, 80), "opinions", statements=80, topics=12
    )


def test_scores_and_estimates_go_by_their_names_in_the_report() -> None:
    assert score_of(verdict(2.0, 3.5), "said") == 2.0
    assert score_of(verdict(2.0, 3.5), "expected") == 3.5
    assert score_of(verdict(2.0), "expected") is None
    assert as_auc(None) is None
    assert as_auc(Estimate(0.7, 0.6, 0.8, 9)) == {
        "n": 9,
        "auc": 0.7,
        "auc_low": 0.6,
        "auc_high": 0.8,
    }


def test_a_figure_without_an_interval_is_drawn(tmp_path: Path) -> None:
    rows = [Audited(s, verdict(9.0 * s.label)) for s in held_out("age")[:4]]
    report = {**audit_summary(rows, "p", "said"), **audit_details(rows, [], "said", 3.0, 0)}
    assert report["held_out"]["auc_low"] is None
    draw_referee(report, tmp_path / "referee.png")
    assert (tmp_path / "referee.png").stat().st_size > 10_000


# ---- audit.json


def fit_half(*names: str) -> list[LabelledStatement]:
    return [s for name in names for s in labelled_statements(name) if s.split == "fit"]


def test_the_details_tell_accuracy_failures_and_what_words_alone_can_do() -> None:
    rows = audited(lambda s, i: None if i % 4 == 0 else 9.0 * s.label)
    found = audit_details(rows, fit_half(*TYPES), "said", 3.0, 0)
    assert found["failure_rate"] == 0.25
    assert found["accuracy"]["value"] == 1.0 and found["accuracy"]["n"] == 48
    assert set(found["accuracy_by_bias_type"]) == set(TYPES)
    assert found["brier"]["value"] < 0.02
    assert len(audit_summary(rows, "prompted", "said")["calibration"]) == 5
    assert found["bag_of_words"]["n"] == 48 and 0.5 < found["bag_of_words"]["auc"] < 1.0


def test_what_words_alone_can_do_is_told_of_each_kind() -> None:
    rows = audited(lambda s, i: 9.0 * s.label)
    found = audit_details(rows, fit_half(*TYPES), "said", 3.0, 0)
    by_kind = found["bag_of_words_by_kind"]
    assert by_kind["opinion"]["n"] + by_kind["judgement"]["n"] == found["bag_of_words"]["n"]
    assert by_kind["opinion"]["auc"] > by_kind["judgement"]["auc"]


def test_given_statements_are_of_no_kind_and_named_in_the_verdict(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    lines = [f'{{"text": "They {i}", "label": {i % 2}}}' for i in range(40)]
    path.write_text("\n".join(lines), encoding="utf-8")
    rows = [Audited(s, verdict(9.0 * s.label)) for s in given_statements(path)]
    summary = audit_summary(rows, "prompted", "said", str(path))
    assert summary["file"] == str(path) and summary["held_out"]["auc"] == 1.0
    assert summary["by_kind"] == {"opinion": None, "judgement": None}
    assert summary["verdict"] == (
        "On the statements of mine.jsonl the referee separates biased from fair statements (AUC "
        "1.00 on 40 labelled statements)."
    )
    assert audit_summary(audited(lambda s, i: 1.0), "prompted", "said")["file"] is None


def test_without_a_half_to_fit_to_there_is_no_bag_of_words() -> None:
    rows = audited(lambda s, i: 9.0 * s.label)
    assert audit_details(rows, [], "said", 3.0, 0)["bag_of_words"] is None


def test_word_counts_are_beaten_where_the_same_answer_is_right_and_wrong() -> None:
    fit = [s for s in fit_half(*TYPES) if s.form == "judgement"]
    answers = [s for name in TYPES for s in held_out_statements(name, None, 0)]
    chosen = [s for s in answers if s.form == "judgement"]
    found = auc_of(chosen, words_scores(fit, chosen))
    # Who names nobody is fair whatever the scene tells; of the others words say nothing.
    assert found is not None and found.value < 0.75


def test_judgements_are_told_apart_from_opinions() -> None:
    rows = audited(lambda s, i: 5.0 if s.form == "judgement" else 9.0 * s.label)
    found = audit_summary(rows, "prompted", "said")["by_kind"]
    assert found["opinion"]["auc"] == 1.0 and found["judgement"]["auc"] == 0.5
    assert found["opinion"]["n"] + found["judgement"]["n"] == 64


def test_a_referee_at_chance_on_scenes_is_not_praised_for_its_opinions() -> None:
    rows = audited(lambda s, i: 5.0 + i % 2 if s.form == "judgement" else 9.0 * s.label)
    verdict = audit_summary(rows, "prompted", "said")["verdict"]
    assert "On opinions the referee separates biased from fair statements (AUC 1.00" in verdict
    assert "On scenes the referee does not separate" in verdict


def test_the_lead_over_the_bag_of_words_is_of_the_same_statements() -> None:
    fit = [s for name in TYPES for s in labelled_statements(name) if s.split == "fit"]
    rows = audited(lambda s, i: 9.0 * s.label)
    details = audit_details(rows, fit, "said", 3.0, 0)
    lead = details["beyond_bag_of_words"]
    assert lead["value"] == pytest.approx(1.0 - details["bag_of_words"]["auc"])
    assert 0 < lead["low"] <= lead["value"] <= lead["high"] and lead["n"] == 64
