"""What a dialogue came to: a mixture weighted by quality, its label, and why a person looks at it.

Pure functions of the trace, so that a decision can be made again: with arguments that a person
rejected, with other weights, or after another round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.settings import CritSection
from rldf_ray.protocols.evince.steering import Status
from rldf_ray.protocols.evince.trace import Round, Trace

ReviewReason = Literal[
    "not converged", "weak arguments", "CRIT unstable", "close vote", "label moves", "failed"
]
CLOSE = 0.05
"""The two likeliest labels of a mixture are close where they differ by no more."""
UNSTABLE = 0.3
MOVES = 1.0
"""Steps from a given label from which on a person looks at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of a dialogue.

    Attributes:
        distributions: of the mixture, one for each thing that is rated.
        label: of the first.
        mean_position: of the first, in steps; None of labels without an order.
        weight_a, weight_b: of each side in the mixture; they sum to 1.
        review: why a person has to look at it, none where nobody has.
    """

    distributions: tuple[Distribution, ...]
    label: str
    mean_position: float | None
    weight_a: float
    weight_b: float
    review: tuple[ReviewReason, ...]


def weights(trace: Trace, of: Literal["last", "mean"]) -> tuple[float, float]:
    """How much each side weighs: its reasons' quality; half each where neither has any."""
    counted: Sequence[Round] = trace[-1:] if of == "last" else trace
    a = sum(r.crit_a or 0.0 for r in counted)
    b = sum(r.crit_b or 0.0 for r in counted)
    return (a / (a + b), b / (a + b)) if a + b > 0 else (0.5, 0.5)


def decide(
    trace: Trace,
    status: Status,
    given: Mapping[str, str],
    crit: CritSection,
    scale: LabelScale,
    flagged: bool = False,
) -> Decision:
    """The decision after the last round of `trace`.

    Args:
        given: labels that the text came with, by whom.
        flagged: an argument of the last round is weak, or quotes what is not there.
    """
    w_a, w_b = weights(trace, crit.weights)
    last = trace[-1]
    mixed = tuple(
        tuple(w_a * x + w_b * y for x, y in zip(one, other, strict=True))
        for one, other in zip(last.a, last.b, strict=True)
    )
    label = scale.label_of(mixed[0])
    return Decision(
        distributions=mixed,
        label=label,
        mean_position=None if scale.nominal else scale.mean_position(mixed[0]),
        weight_a=w_a,
        weight_b=w_b,
        review=tuple(_reasons(trace, status, given, crit, scale, mixed, label, flagged)),
    )


def _reasons(
    trace: Trace,
    status: Status,
    given: Mapping[str, str],
    crit: CritSection,
    scale: LabelScale,
    mixtures: Sequence[Distribution],
    label: str,
    flagged: bool,
) -> list[ReviewReason]:
    reasons: list[ReviewReason] = []
    if status in ("no progress", "max rounds"):
        reasons.append("not converged")
    last = trace[-1]
    scores = [score for score in (last.crit_a, last.crit_b) if score is not None]
    if flagged or any(score < crit.weak for score in scores):
        reasons.append("weak arguments")
    if len(trace) > 1 and _unstable(trace[-2], last):
        reasons.append("CRIT unstable")
    if any(_close(mixture) for mixture in mixtures):
        reasons.append("close vote")
    # Given labels are of the text: nothing moves where both sides' positions are rated.
    rates_text = len(mixtures) == 1
    if rates_text and any(scale.distance(label, other) >= MOVES for other in given.values()):
        reasons.append("label moves")
    return reasons


def _close(mixture: Distribution) -> bool:
    first, second = sorted(mixture, reverse=True)[:2]
    return first - second <= CLOSE + 1e-9


def _unstable(before: Round, last: Round) -> bool:
    pairs = [(before.crit_a, last.crit_a), (before.crit_b, last.crit_b)]
    return any(
        one is not None and other is not None and abs(one - other) > UNSTABLE
        for one, other in pairs
    )
