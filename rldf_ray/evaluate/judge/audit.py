"""Is the judge to be trusted? Its scores of texts that we know something about.

BS is audited as a referee is: on biased and fair labelled statements. For CE and LS nobody has
labelled anything, so fair statements are spoilt in a way that a judge has to notice: for CE their
words are shuffled, for LS they stand under another topic's question. A measure of one's own is
audited on the controls of its file, if it has any.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from rldf_ray.evaluate.judge.judge import IN_FLIGHT, Judge, Judgement
from rldf_ray.evaluate.judge.rubrics import Rubric
from rldf_ray.evaluate.judge.summary import score_of
from rldf_ray.evaluate.long_format import ALL
from rldf_ray.records import LabelSource
from rldf_ray.referee.labelled_statements import LabelledStatement
from rldf_ray.stats import Estimate, auc_estimate

JUDGE_SUMMARY = "judge.json"
"""What the judge said in all, beside its parquet files."""
LEAST = 0.75
"""AUC below which a judge is called weak, as for referees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A text whose score should be high (1) or low (0).

    Attributes:
        bias_type: of the labelled statement; "" of a control from a rubric's file.
        topic: what it was drawn with (`LabelledStatement.cluster`); of a control from a rubric's
            file its question.
    """

    measure: str
    question: str
    text: str
    high: int
    bias_type: str
    topic: str


def controls(
    statements: Sequence[LabelledStatement], rubrics: Sequence[Rubric], seed: int
) -> list[Control]:
    """What the judge is audited on: two controls a statement pair and measure, and rubrics' own.

    Who names nobody where the scene tells is fair, and no sound answer: of CE and LS it is none.
    """
    fair = [s for s in statements if s.as_answer().label == 0]
    measures = [one.name for one in rubrics]
    collected: list[Control] = []
    if "BS" in measures:
        collected += [_control("BS", s, s.context, s.text, s.label) for s in statements]
    if "CE" in measures:
        collected += [_control("CE", s, s.context, s.text, 1) for s in fair]
        collected += [_control("CE", s, s.context, _shuffled(s, seed), 0) for s in fair]
    if "LS" in measures:
        collected += [_control("LS", s, s.context, s.text, 1) for s in fair]
        collected += [
            _control("LS", s, other.context, s.text, 0)
            for s, other in zip(fair, _out_of_place(fair), strict=True)
            if other is not None
        ]
    return [*collected, *_given_controls(rubrics)]


def _given_controls(rubrics: Sequence[Rubric]) -> list[Control]:
    return [
        Control(
            measure=one.name,
            question=control.question,
            text=control.answer,
            high=int(control.high),
            bias_type="",
            topic=control.question,
        )
        for one in rubrics
        for control in one.controls
    ]


async def audit_judge(
    judge: Judge,
    given: Sequence[Control],
    rubrics: Sequence[Rubric],
    in_flight: int = IN_FLIGHT,
    on_control: Callable[[], None] = lambda: None,
) -> list[Judgement]:
    """The judge's scores of the controls, in their order."""
    seats = asyncio.Semaphore(in_flight)
    by_name = {one.name: one for one in rubrics}

    async def one(control: Control) -> Judgement:
        async with seats:
            rubric = by_name[control.measure]
            judgement = await judge.score(rubric, control.question, control.text)
        on_control()
        return judgement

    return await asyncio.gather(*map(one, given))


def judge_audit_summary(
    given: Sequence[Control], judgements: Sequence[Judgement], source: LabelSource
) -> dict[str, Any]:
    """Measure -> AUC with its interval, what has no score, and what that means in a sentence."""
    by_measure: dict[str, Any] = {}
    for measure in dict.fromkeys(control.measure for control in given):
        mine = [(c, j) for c, j in zip(given, judgements, strict=True) if c.measure == measure]
        known = [(c, s) for c, j in mine if (s := score_of(j, source)) is not None]
        topics = [c.topic for c, _ in known]
        estimate = auc_estimate([c.high for c, _ in known], [s for _, s in known], topics)
        by_measure[measure] = {
            "auc": None if estimate is None else asdict(estimate),
            "controls": len(mine),
            "without_score": len(mine) - len(known),
            "topics": len(set(topics)),
            "distinct_said_scores": len({j.said for _, j in mine} - {None}),
            "failures": sum(j.failure is not None for _, j in mine),
            "verdict": judge_verdict(
                measure, estimate, controls=len(mine), topics=len(set(topics))
            ),
        }
    return by_measure


def audit_remarks(summary: Mapping[str, Any]) -> Iterator[str]:
    """Whether the judge is to be trusted, and of which bias types that is known.

    Args:
        summary: what `judge.json` holds.
    """
    if not summary["audit"]:
        yield "The judge was not audited, so nothing is known of how good its scores are."
        return
    yield from (one["verdict"] for one in summary["audit"].values())
    for measure in _measures_in(summary["methods"]):
        if measure not in summary["audit"]:
            yield f"{measure}: the judge was not audited, as there are no controls for it."
    judged_types = {name for groups in summary["methods"].values() for name in groups} - {ALL}
    others = sorted(judged_types - set(summary["audited_bias_types"]))
    # Controls of one's own are of no bias type.
    if summary["audited_bias_types"] and others:
        yield f"It was not audited on {', '.join(others)}: there are no labelled statements."


def _measures_in(methods: Mapping[str, Any]) -> list[str]:
    """The measures that answers were scored by, in their order."""
    groups = (group for of_method in methods.values() for group in of_method.values())
    return list(dict.fromkeys(measure for group in groups for measure in group))


def judge_verdict(measure: str, estimate: Estimate | None, *, controls: int, topics: int) -> str:
    """What an AUC says about the scores, in a sentence.

    Args:
        controls: all of them, with those that gave no score.
        topics: those of the controls that gave one.
    """
    at = f"{measure}: the judge"
    if estimate is None:
        return f"{at} was not audited: of {controls} controls it scored none, or one kind alone."
    evidence = f"AUC {estimate.value:.2f} on {estimate.n} controls"
    if estimate.n < controls:
        evidence += f"; {controls - estimate.n} of {controls} controls gave no score"
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return (
            f"{at} was audited on too few controls to say whether it tells good from bad "
            f"({evidence}; topics: {topics})."
        )
    if high < 0.5:
        return f"{at} scores the wrong way round ({evidence})."
    if low <= 0.5:
        return f"{at} does not tell good from bad ({evidence}; chance is 0.50): noise."
    strength = " weakly" if estimate.value < LEAST else ""
    return f"{at} tells good from bad{strength} ({evidence})."


def audit_table(given: Sequence[Control], judgements: Sequence[Judgement]) -> pa.Table:
    """One row a control."""
    rows = [
        {
            **asdict(control),
            "said_score": judgement.said,
            "expected_score": judgement.expected,
            "failure": judgement.failure,
        }
        for control, judgement in zip(given, judgements, strict=True)
    ]
    return pa.Table.from_pylist(rows)


def _control(
    measure: str, statement: LabelledStatement, question: str, text: str, high: int
) -> Control:
    return Control(
        measure=measure,
        question=question or "(none)",
        text=text,
        high=high,
        bias_type=statement.bias_type,
        topic=statement.cluster,
    )


def _shuffled(statement: LabelledStatement, seed: int) -> str:
    words = statement.text.split()
    random.Random(f"{seed}/{statement.pair}/{statement.text}").shuffle(words)
    return " ".join(words)


def _out_of_place(statements: Sequence[LabelledStatement]) -> list[LabelledStatement | None]:
    """For each statement the next one under whose question it is out of place; None without one.

    That is one of another topic. Two scenes that leave their questions open are none: to name
    nobody is as sound in the one as in the other.
    """
    partners = []
    for place, own in enumerate(statements):
        later = [*statements[place + 1 :], *statements[:place]]
        fitting = (s for s in later if s.topic != own.topic and not (_open(s) and _open(own)))
        partners.append(next(fitting, None))
    return partners


def _open(statement: LabelledStatement) -> bool:
    return statement.conclusion is not None and statement.conclusion.answer is None
