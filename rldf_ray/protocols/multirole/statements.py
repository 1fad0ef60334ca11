"""One debate, from its topic to its statements as records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rldf_ray.models.base import ChatModel, seed_of
from rldf_ray.plan import Plan
from rldf_ray.protocols.multirole.debate import MultiRoleDebate, Round, Turn
from rldf_ray.protocols.multirole.debater import Participant, debaters_of
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Debate, Label, Statement, context_of
from rldf_ray.referee.labels import Threshold, label_round

Seating = Callable[[Debate, Plan, ChatModel], Sequence[Participant]]


async def hold(debate: Debate, cast: Cast, seated: Seating = debaters_of) -> list[Statement]:
    """Hold one debate as the plan says; returns its statements by round and seat.

    Args:
        seated: who takes part, where it is not the debaters of the paper.
    """
    section = cast.plan.debate
    protocol = MultiRoleDebate(section.rounds, section.order, cast.plan.referee.label_source)
    context = context_of(debate.topic, debate.clue_shown)
    transcript = await protocol.hold(
        context,
        seated(debate, cast.plan, cast.models["debater"]),
        cast.referee,
        debate.debate_id,
        cast.on_statements,
    )
    return [
        _record(debate, cast, context.text, number, role, turn, label)
        for number, turns in enumerate(transcript, start=1)
        for role, (turn, label) in enumerate(zip(turns, _labels(turns, cast.plan), strict=True))
    ]


def _labels(turns: Round, plan: Plan) -> list[Label | None]:
    # An empty statement has no score to count, nor to move the mean of its round.
    scores = [turn.score if turn.text else None for turn in turns]
    return label_round(scores, Threshold(plan.referee.threshold_kind, plan.referee.threshold))


def _record(
    debate: Debate,
    cast: Cast,
    context: str,
    number: int,
    role: int,
    turn: Turn,
    label: Label | None,
) -> Statement:
    usage = turn.completion.usage + turn.verdict.usage
    return Statement(
        run_id=cast.run_id,
        debate_id=debate.debate_id,
        topic_id=debate.topic.topic_id,
        bias_type=debate.topic.bias_type,
        kind=debate.topic.kind,
        clue_shown=debate.clue_shown,
        context=context,
        round=number,
        role=role,
        identity=turn.identity,
        text=turn.text,
        finish_reason=turn.completion.finish_reason,
        score=turn.verdict.score,
        expected_score=turn.verdict.expected_score,
        rank=turn.rank,
        label=label,
        label_source=turn.score_source,
        failure=_failure(turn, label),
        referee_kind=cast.referee.kind,
        debater_model=turn.completion.model,
        debater_revision=turn.completion.revision,
        referee_model=turn.verdict.model,
        referee_revision=turn.verdict.revision,
        prompt_tokens=usage.prompt,
        cached_tokens=usage.cached,
        generated_tokens=usage.generated,
        seed=seed_of(cast.plan.seed, f"{debate.debate_id}/round/{number}/role/{role}"),
    )


def _failure(turn: Turn, label: Label | None) -> str | None:
    """Why the statement carries no label; None if it does."""
    if not turn.text:
        return "the debater said nothing"
    if turn.score is None and turn.verdict.failure is not None:
        return turn.verdict.failure
    if label is None:
        return f"no label: {turn.score_source} score missing or equal in the round"
    return None
