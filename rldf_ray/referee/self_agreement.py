"""Whether a referee agrees with itself: on a round in another order, and from seed to seed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from scipy import stats as scipy_stats

from rldf_ray.referee.biases import reads_context
from rldf_ray.referee.labelled_statements import LabelledStatement
from rldf_ray.referee.verdict import Referee
from rldf_ray.stats import clustered_estimate

ROUND = 3
MOST_ROUNDS = 20

# Statement -> score; the text stands for it, with its context.
Scores = Mapping[tuple[str, str], float]


def rounds_of(statements: Sequence[LabelledStatement]) -> list[list[LabelledStatement]]:
    """Rounds of up to three labelled statements in one context, at most `MOST_ROUNDS` of them."""
    contexts: dict[str, list[LabelledStatement]] = {}
    for statement in statements:
        contexts.setdefault(statement.context, []).append(statement)
    rounds = [alike[:ROUND] for context, alike in contexts.items() if context and len(alike) > 1]
    # Spread over all bias types, in whose order the statements come.
    number = min(MOST_ROUNDS, len(rounds))
    return [rounds[i * len(rounds) // number] for i in range(number)]


BY_SCORE = ("trained", "debate", "meta")
"""Kinds of referees whose ranks follow from scores of statements by themselves."""


async def reordered(
    referee: Referee, statements: Sequence[LabelledStatement], seed: int
) -> dict[str, Any]:
    """Share of pairs of statements that the referee ranks alike after the round is turned round.

    A prompted referee's ranking is one request for the round. All others score each statement alone
    and rank by the scores, which do not depend on the order, so that they are not asked; nor is a
    prompted one about answers that it checks.
    """
    ranked_together = [s for s in statements if reads_context(referee, s.judged_in)]
    if referee.kind in BY_SCORE or (statements and not ranked_together):
        return {"by": "construction", "rounds": 0, "agreement": {"value": 1.0}}
    rounds = rounds_of(ranked_together)
    shares = await asyncio.gather(
        *(_agreement(referee, round_, f"audit/order-{i}") for i, round_ in enumerate(rounds))
    )
    topics = [round_[0].cluster for round_ in rounds]
    known = [(s, topic) for s, topic in zip(shares, topics, strict=True) if s is not None]
    ranked = [share for share, _ in known]
    estimate = clustered_estimate(ranked, [topic for _, topic in known], seed)
    return {
        "by": "measurement",
        "rounds": len(ranked),
        "agreement": asdict(estimate) if estimate else None,
    }


async def _agreement(
    referee: Referee, statements: Sequence[LabelledStatement], address: str
) -> float | None:
    """None where the referee gave no ranking."""
    texts = [statement.text for statement in statements]
    context = statements[0].judged_in
    there, back = await asyncio.gather(
        referee.judge(context, texts, f"{address}/there", address),
        referee.judge(context, texts[::-1], f"{address}/back", address),
    )
    one, two = ([v.rank for v in judged] for judged in (there, back[::-1]))
    if None in one or None in two:
        return None
    pairs = list(itertools.combinations(range(len(texts)), 2))
    return sum(_order(one, a, b) == _order(two, a, b) for a, b in pairs) / len(pairs)


def _order(ranks: Sequence[Any], a: int, b: int) -> int:
    """-1 where `a` is ranked before `b`, 1 after it, 0 where they share a rank."""
    return int(ranks[a] > ranks[b]) - int(ranks[a] < ranks[b])


def over_seeds(runs: Sequence[Scores], threshold: float, seed: int) -> dict[str, Any]:
    """How alike the scores of several seeds are, over the statements that all of them scored.

    `labels_agree` is the mean share of pairs of seeds that put a statement on the same side of the
    threshold, with an interval over contexts; `correlation` the least Spearman correlation of two
    seeds.
    """
    common = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    pairs = list(itertools.combinations(runs, 2))
    shares = [
        sum((a[s] > threshold) == (b[s] > threshold) for a, b in pairs) / len(pairs)
        for s in common
        if pairs
    ]
    # Of statements without a context each is a draw of its own.
    agree = clustered_estimate(shares, [context or text for context, text in common], seed)
    return {
        "runs": len(runs),
        "statements": len(common),
        "labels_agree": asdict(agree) if agree else None,
        "correlation": _least(
            [_spearman([a[s] for s in common], [b[s] for s in common]) for a, b in pairs]
        ),
    }


def _least(values: Sequence[float | None]) -> float | None:
    """None where one is not known."""
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def _spearman(one: Sequence[float], two: Sequence[float]) -> float | None:
    """None where all scores of a run are equal, which have no order."""
    if len(set(one)) < 2 or len(set(two)) < 2:
        return None
    return float(scipy_stats.spearmanr(one, two).statistic)
