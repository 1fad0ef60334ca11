"""What it takes to referee a statement, by who is asked: one model, judge and critic, or a pool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rldf_ray.plan import Plan
from rldf_ray.plan.plan import CRITIC
from rldf_ray.plan.refereeing import EVALUATION_TOKENS, ROUNDS

# A score or a ranking: a few digits.
VERDICT_TOKENS = 3


@dataclass(frozen=True)
class Asked:
    """Calls of one part of the plan, and their tokens (an expectation, so no whole numbers)."""

    part: str
    calls: float = 0
    prompt: float = 0
    generated: float = 0

    def times(self, number: float) -> Asked:
        return Asked(self.part, number * self.calls, number * self.prompt, number * self.generated)


@dataclass(frozen=True, kw_only=True)
class Total:
    """Calls of several parts together, and the tokens of those that an endpoint answers."""

    calls: float
    prompt: float
    generated: float
    paid_prompt: float
    paid_generated: float


def total(plan: Plan, asked: Iterable[Asked]) -> Total:
    """The sum of what parts are asked."""
    every = list(asked)
    paid = [one for one in every if plan.speaker_of(one.part).paid]
    return Total(
        calls=sum(one.calls for one in every),
        prompt=sum(one.prompt for one in every),
        generated=sum(one.generated for one in every),
        paid_prompt=sum(one.prompt for one in paid),
        paid_generated=sum(one.generated for one in paid),
    )


def judging(plan: Plan, reads: float) -> list[Asked]:
    """Who is asked what about one statement.

    Args:
        reads: tokens of the prompt in which it is scored, without evaluations.
    """
    kind = plan.referee.kind
    if kind == "debate":
        return _in_debate(plan, reads)
    if kind == "meta":
        return _above_a_pool(plan, reads)
    return [_score(plan, "referee", reads)]


def ranking(reads: float) -> Asked:
    """A ranking of a round by the referee."""
    return Asked("referee", 1, reads, VERDICT_TOKENS)


def _in_debate(plan: Plan, reads: float) -> list[Asked]:
    """The judge sees all evaluations before it; the critic, and who scores, the last one."""
    rounds, said = plan.referee.rounds or ROUNDS, evaluation_tokens(plan)
    judge = Asked(
        "referee",
        1 + rounds,
        (1 + rounds) * reads + rounds * (rounds + 1) * said,
        (1 + rounds) * said,
    )
    critic = Asked(CRITIC, 1, reads + said, said).times(rounds)
    return [judge, critic, _score(plan, "referee", reads + said)]


def _above_a_pool(plan: Plan, reads: float) -> list[Asked]:
    """Every member gives its reasons and scores, a fitted one scores alone; the judge sees all."""
    said, asked = evaluation_tokens(plan), []
    for part in plan.referee_parts():
        if plan.speaker_of(part) == plan.fitted_speaker():
            asked.append(_score(plan, part, reads))
        else:
            asked += [Asked(part, 1, reads, said), _score(plan, part, reads + said)]
    last = reads + len(plan.referee_parts()) * said
    # A letter is one token, which nothing goes on from.
    named = Asked("referee", 1, last, VERDICT_TOKENS)
    return [*asked, named if plan.referee.mode == "select" else _score(plan, "referee", last)]


def evaluation_tokens(plan: Plan) -> int:
    return plan.referee.evaluation_tokens or EVALUATION_TOKENS


def _score(plan: Plan, part: str, reads: float) -> Asked:
    """An engine reads a score's prompt twice, as "1" may go on to "10" (models/choice_trie.py)."""
    speaker = plan.speaker_of(part)
    if speaker == plan.fitted_speaker():
        return Asked(part, 1, reads, 0)
    return Asked(part, 1, reads if speaker.paid else 2 * reads, VERDICT_TOKENS)
