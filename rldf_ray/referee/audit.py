"""How well the run's referee tells biased from fair statements whose label we know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rldf_ray.records import LabelSource, TopicKind
from rldf_ray.referee.bag_of_words import word_scores
from rldf_ray.referee.calibration import accuracy, brier, calibration, roc
from rldf_ray.referee.labelled_statements import LabelledStatement
from rldf_ray.referee.verdict import Referee, Verdict
from rldf_ray.stats import Estimate, auc_difference, auc_estimate

KINDS: dict[TopicKind, str] = {"opinion": "opinions", "judgement": "scenes"}
NOT_AUDITED = "The referee was not audited: it was given, or it scored, no labelled statements."


@dataclass(frozen=True)
class Audited:
    """A labelled statement and the referee's verdict on it."""

    statement: LabelledStatement
    verdict: Verdict


async def audit_referee(
    referee: Referee,
    statements: Sequence[LabelledStatement],
    in_flight: int,
    on_statement: Callable[[], None] = lambda: None,
) -> list[Audited]:
    """The labelled statements in their order, each judged alone in its context."""
    seats = asyncio.Semaphore(in_flight)

    async def one(statement: LabelledStatement) -> Audited:
        address = f"audit/{statement.pair}/{statement.side}"
        async with seats:
            (verdict,) = await referee.judge(
                statement.judged_in, [statement.text], address, affinity=address
            )
        on_statement()
        return Audited(statement, verdict)

    return await asyncio.gather(*map(one, statements))


def audit_summary(
    audited: Sequence[Audited], kind: str, label_source: LabelSource, file: str | None = None
) -> dict[str, Any]:
    """The `referee` part of report.json (docs/report.md).

    Args:
        file: whose statements they are, where they are not ours; they are of no kind.
    """

    def auc(chosen: Sequence[Audited], source: LabelSource = label_source) -> Estimate | None:
        return auc_of(*_scored(chosen, source))

    names = sorted({a.statement.bias_type for a in audited})
    statements, scores = _scored(audited, label_source)
    labels = [s.label for s in statements]
    said = auc(audited, "said")
    whole, of_kind = auc(audited), _by_kind(audited if file is None else ())
    by_kind = {kind: auc(chosen) for kind, chosen in of_kind.items()}
    parts = [(KINDS[kind], by_kind[kind], chosen) for kind, chosen in of_kind.items()]
    if file is not None:
        parts = [(f"the statements of {Path(file).name}", whole, list(audited))]
    return {
        "kind": kind,
        "model": audited[0].verdict.model if audited else None,
        "file": file,
        "label_source": label_source,
        "held_out": as_auc(whole),
        "by_kind": {kind: as_auc(estimate) for kind, estimate in by_kind.items()},
        "by_bias_type": {
            name: as_auc(auc([a for a in audited if a.statement.bias_type == name]))
            for name in names
        },
        "said_auc": said.value if said else None,
        "distinct_said_scores": len({a.verdict.score for a in audited} - {None}),
        "failures": sum(a.verdict.failure is not None for a in audited),
        "calibration": calibration(labels, scores),
        "roc": roc(labels, scores),
        "verdict": " ".join(
            verdict_on(
                estimate,
                where,
                statements=len(chosen),
                topics=len({s.cluster for s in _scored(chosen, label_source)[0]}),
            )
            for where, estimate, chosen in parts
            if chosen
        )
        or NOT_AUDITED,
    }


def audit_details(
    audited: Sequence[Audited],
    fit: Sequence[LabelledStatement],
    label_source: LabelSource,
    threshold: float,
    seed: int,
) -> dict[str, Any]:
    """What audit.json has beside the summary: accuracy, failures, the baseline.

    Args:
        fit: labelled statements of the same kinds and standard, which the bag of words is fitted
            to; the audited are not in it.
        threshold: of absolute labels, on the scale of 0 to 10.
    """

    def right(chosen: Sequence[Audited]) -> dict[str, Any] | None:
        statements, scores = _scored(chosen, label_source)
        labels, clusters = [s.label for s in statements], [s.cluster for s in statements]
        return as_share(accuracy(labels, scores, threshold, clusters, seed))

    statements, scores = _scored(audited, label_source)
    labels, clusters = [s.label for s in statements], [s.cluster for s in statements]
    words = words_scores(fit, statements)
    return {
        "accuracy": right(audited),
        "accuracy_by_bias_type": {
            name: right([a for a in audited if a.statement.bias_type == name])
            for name in sorted({s.bias_type for s in statements})
        },
        "brier": as_share(brier(labels, scores, clusters, seed)),
        "failure_rate": 1 - len(scores) / len(audited) if audited else None,
        "bag_of_words": as_auc(auc_of(statements, words)),
        "bag_of_words_by_kind": {
            kind: as_auc(auc_of(*_of_kind(kind, statements, words))) for kind in KINDS
        },
        "beyond_bag_of_words": as_share(
            None if words is None else auc_difference(labels, scores, words, clusters)
        ),
    }


def _of_kind(
    kind: TopicKind, statements: Sequence[LabelledStatement], scores: Sequence[float] | None
) -> tuple[list[LabelledStatement], list[float] | None]:
    """Statements of a kind, and their scores; given statements are of none."""
    places = [i for i, s in enumerate(statements) if s.kind == kind and s.form != "given"]
    of_these = None if scores is None else [scores[i] for i in places]
    return [statements[i] for i in places], of_these


def _scored(
    audited: Sequence[Audited], source: LabelSource
) -> tuple[list[LabelledStatement], list[float]]:
    """The statements that have a score, and their scores."""
    known = [(a.statement, score_of(a.verdict, source)) for a in audited]
    scored = [(statement, score) for statement, score in known if score is not None]
    return [statement for statement, _ in scored], [score for _, score in scored]


def _by_kind(audited: Sequence[Audited]) -> dict[TopicKind, list[Audited]]:
    """Answers to scenes, which the context alone tells apart, and all others."""
    return {
        "opinion": [a for a in audited if a.statement.kind == "opinion"],
        "judgement": [a for a in audited if a.statement.kind == "judgement"],
    }


def words_scores(
    fit: Sequence[LabelledStatement], statements: Sequence[LabelledStatement]
) -> list[float] | None:
    """Word counts' scores of statements, fitted to the texts of the other half; None without one.

    The contexts are left out: with them it does worse, as they say nothing of the label.
    """
    if {s.label for s in fit} != {0, 1}:
        return None
    return word_scores([s.text for s in fit], [s.label for s in fit], [s.text for s in statements])


def auc_of(
    statements: Sequence[LabelledStatement], scores: Sequence[float] | None
) -> Estimate | None:
    """AUC of scores on statements; the interval draws their clusters."""
    if scores is None:
        return None
    return auc_estimate([s.label for s in statements], scores, [s.cluster for s in statements])


def as_share(estimate: Estimate | None) -> dict[str, Any] | None:
    """A share or a mean with its interval, under the names audit.json uses."""
    return None if estimate is None else asdict(estimate)


def verdict_on(estimate: Estimate | None, on: str, *, statements: int, topics: int) -> str:
    """What an AUC means for the labels of one kind of topic, in a sentence.

    Args:
        on: what they are about, in words ("opinions").
        statements: how many of them the referee was given, with those it gave no score.
        topics: those of the statements it scored.
    """
    where = f"On {on} the referee"
    held_out = "held-out labelled" if on in KINDS.values() else "labelled"
    if estimate is None:
        return (
            f"{where} was not audited: of {statements} {held_out} statements it scored "
            "none, or only biased or only fair ones."
        )
    auc = f"AUC {estimate.value:.2f} on {estimate.n} {held_out} statements"
    if estimate.n < statements:
        auc += f"; {statements - estimate.n} of {statements} statements gave no score"
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return (
            f"{where} was audited on too few topics to say whether it separates biased from fair "
            f"statements ({auc}; topics: {topics})."
        )
    if high < 0.5:
        return (
            f"{where} calls fair statements biased and biased ones fair ({auc}): its labels "
            "there are the wrong way round."
        )
    if low <= 0.5:
        return (
            f"{where} does not separate biased from fair statements ({auc}; chance is 0.50, "
            "inside the interval). Its labels there are mostly noise, and so is what is trained on "
            "them."
        )
    if estimate.value < 0.75:
        return f"{where} separates biased from fair statements weakly ({auc})."
    return f"{where} separates biased from fair statements ({auc})."


def score_of(verdict: Verdict, source: LabelSource) -> float | None:
    return verdict.expected_score if source == "expected" else verdict.score


def as_auc(estimate: Estimate | None) -> dict[str, Any] | None:
    """An estimate under the names report.json uses."""
    if estimate is None:
        return None
    as_dict = asdict(estimate)
    return {
        "n": as_dict["n"],
        "auc": as_dict["value"],
        "auc_low": as_dict["low"],
        "auc_high": as_dict["high"],
    }
