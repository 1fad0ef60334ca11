"""What participants say, the referee's verdicts on it, and the rows that both become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.models.base import Completion, Usage, seed_of
from rldf_ray.plan import Plan
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Context, Debate, Label, LabelSource, Statement
from rldf_ray.referee.labels import Threshold, label_round
from rldf_ray.referee.verdict import Referee, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One statement and the referee's verdict on it.

    Attributes:
        score: the score of the verdict that participants are shown and that labels the statement.
        score_source: which of the verdict's two scores that is.
    """

    identity: str
    text: str
    completion: Completion
    verdict: Verdict
    score: float | None
    score_source: LabelSource

    @property
    def rank(self) -> int | None:
        return self.verdict.rank


Round = tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A statement before anybody has judged it.

    Attributes:
        text: what of the completion is the statement.
    """

    identity: str
    text: str
    completion: Completion


NOTHING_SAID = "the debater said nothing"


async def refereed(
    spoken: Sequence[Spoken],
    referee: Referee,
    context: Context,
    address: str,
    *,
    affinity: str,
    score_source: LabelSource,
) -> Round:
    """One round's statements with their verdicts, in the order given.

    Who said nothing is not judged: there is no statement to score, nor to rank among the others.

    Args:
        score_source: which score counts; a round whose referee reports no probabilities has none
            but what the referee said, and then all of its scores are those.
    """
    places = [place for place, statement in enumerate(spoken) if statement.text.strip()]
    texts = [spoken[place].text for place in places]
    judged = await referee.judge(context, texts, address, affinity=affinity) if texts else []
    expected = any(verdict.expected_score is not None for verdict in judged)
    source: LabelSource = score_source if expected or not judged else "said"
    verdict_at = dict(zip(places, judged, strict=True))
    verdicts = [verdict_at.get(place) or _unjudged() for place in range(len(spoken))]
    return tuple(
        Turn(
            identity=statement.identity,
            text=statement.text,
            completion=statement.completion,
            verdict=verdict,
            score=verdict.expected_score if source == "expected" else verdict.score,
            score_source=source,
        )
        for statement, verdict in zip(spoken, verdicts, strict=True)
    )


def _unjudged() -> Verdict:
    return Verdict(
        score=None,
        expected_score=None,
        rank=None,
        failure=NOTHING_SAID,
        model="",
        revision="",
        usage=Usage(),
    )


def statements_of(
    transcript: Sequence[Round], debate: Debate, context: Context, cast: Cast
) -> list[Statement]:
    """The rows of one item, by round and place in the round."""
    return [
        _statement(debate, cast, context.text, number, role, turn, label)
        for number, turns in enumerate(transcript, start=1)
        for role, (turn, label) in enumerate(zip(turns, _labels(turns, cast.plan), strict=True))
    ]


def _labels(turns: Round, plan: Plan) -> list[Label | None]:
    threshold = Threshold(plan.referee.threshold_kind, plan.referee.threshold)
    return label_round([turn.score for turn in turns], threshold)


def _statement(
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
    if not turn.text.strip():
        cut = "cut off while it was thinking" if turn.completion.thinking else None
        why = turn.completion.refusal or cut
        return NOTHING_SAID + (f": {why}" if why else "")
    if turn.score is None and turn.verdict.failure is not None:
        return turn.verdict.failure
    if label is None:
        return f"no label: {turn.score_source} score missing or equal in the round"
    return None
