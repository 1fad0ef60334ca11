"""Many debates at once: which debates a run holds, and their transcripts as records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rldf_ray.models.base import ChatModel, Usage, seed_of
from rldf_ray.plan import Plan
from rldf_ray.protocols.multirole.debate import MultiRoleDebate, Round
from rldf_ray.protocols.multirole.debater import Debater, Participant
from rldf_ray.records import Debate, Statement, Topic, context_of
from rldf_ray.referee.labels import Threshold, label_round
from rldf_ray.referee.verdict import Referee
from rldf_ray.topics.bias_type import bias_type


def plan_debates(topics: Iterable[Topic], plan: Plan) -> list[Debate]:
    """The debates of a run: bias types in turn, each type's topics in turn.

    A longer list begins with the shorter one, and both kinds of topics are spread over it. Of a
    bias type's judgement debates every second one shows its clue, and so does every second debate
    of one topic.

    Raises:
        ValueError: a bias type has no topic in the `debate` split.
    """
    by_type: dict[str, list[Topic]] = {name: [] for name in plan.bias_types}
    for topic in topics:
        if topic.split == "debate":
            by_type[topic.bias_type].append(topic)
    for name, found in by_type.items():
        if not found:
            raise ValueError(
                f"bias type {name!r} has no topic to debate: raise topics.per_bias_type or "
                "topics.debate_share"
            )
    ordered = [_kinds_in_turn(found) for found in by_type.values()]
    return [
        _instance(ordered[i % len(ordered)], i // len(ordered), plan)
        for i in range(plan.debate.debates)
    ]


def _kinds_in_turn(topics: Sequence[Topic]) -> list[Topic]:
    """Opinion and judgement topics mixed evenly, so that a short list has its share of both."""
    kinds = [[t for t in topics if t.kind == kind] for kind in ("opinion", "judgement")]
    placed = [
        ((place + 0.5) / len(same), topic) for same in kinds for place, topic in enumerate(same)
    ]
    return [topic for _, topic in sorted(placed, key=lambda item: item[0])]


def _instance(topics: Sequence[Topic], i: int, plan: Plan) -> Debate:
    repeat, place = divmod(i, len(topics))
    topic = topics[place]
    judgements_before = sum(t.kind == "judgement" for t in topics[:place])
    return Debate(
        debate_id=f"{topic.topic_id}-{repeat}",
        topic=topic,
        clue_shown=topic.kind == "judgement" and (judgements_before + repeat) % 2 == 0,
        identities=bias_type(topic.bias_type).identities[: plan.debate.debaters],
    )


def debaters_of(debate: Debate, plan: Plan, speaker: ChatModel) -> list[Debater]:
    """The debaters of one instance, in their seating order; `speaker` plays all of them."""
    section = plan.debate
    return [
        Debater(
            identity=identity,
            model=speaker,
            max_tokens=section.max_tokens,
            temperature=section.temperature,
            top_p=section.top_p,
            seed=plan.seed,
            layout=section.layout,
            table=bias_type(debate.topic.bias_type).identities,
            examples=section.examples,
            kind=debate.topic.kind,
            wording=seed_of(plan.seed, f"{debate.debate_id}/wording"),
        )
        for identity in debate.identities
    ]


Seating = Callable[[Debate, Plan, ChatModel], Sequence[Participant]]


@dataclass(frozen=True, kw_only=True)
class Collector:
    """Holds debates and turns them into statements.

    Attributes:
        speaker: the model that plays everyone who takes part.
        seated: who takes part in a debate.
    """

    plan: Plan
    run_id: str
    speaker: ChatModel
    referee: Referee
    seated: Seating = debaters_of

    async def collect(
        self,
        debates: Sequence[Debate],
        keep: Callable[[int, list[Statement]], None],
        on_statements: Callable[[int], None] = lambda n: None,
    ) -> None:
        """Hold all debates, `debate.in_flight` at once.

        The first failure ends the others: what was finished is in the journal.

        Args:
            keep: called with a debate's place and its statements when it has ended, in any order;
                nothing of a debate stays in memory after that.
            on_statements: told of every refereed round how many statements it had.
        """
        waiting = iter(enumerate(debates))

        async def one_after_another() -> None:
            for place, debate in waiting:
                keep(place, await self._hold(debate, on_statements))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.plan.debate.in_flight, len(debates))):
                    group.create_task(one_after_another())
        except ExceptionGroup as failures:
            # One cause usually fails many debates at once; the first tells the story.
            raise failures.exceptions[0] from None

    async def _hold(self, debate: Debate, on_statements: Callable[[int], None]) -> list[Statement]:
        section = self.plan.debate
        protocol = MultiRoleDebate(section.rounds, section.order, self.plan.referee.label_source)
        debaters = self.seated(debate, self.plan, self.speaker)
        context = context_of(debate.topic, debate.clue_shown)
        transcript = await protocol.hold(
            context, debaters, self.referee, debate.debate_id, on_statements
        )
        return [
            statement
            for number, turns in enumerate(transcript, start=1)
            for statement in self._records(debate, context.text, number, turns)
        ]

    def _records(self, debate: Debate, context: str, number: int, turns: Round) -> list[Statement]:
        section = self.plan.referee
        marks = [turn.mark if turn.text else None for turn in turns]
        labels = label_round(marks, Threshold(section.threshold_kind, section.threshold))
        records = []
        for role, (turn, label) in enumerate(zip(turns, labels, strict=True)):
            usage: Usage = turn.completion.usage + turn.verdict.usage
            address = f"{debate.debate_id}/round/{number}/role/{role}"
            failure = None if turn.text else "the debater said nothing"
            if failure is None and turn.mark is None:
                failure = turn.verdict.failure
            if failure is None and label is None:
                failure = f"no label: {turn.mark_source} score missing or equal in the round"
            records.append(
                Statement(
                    run_id=self.run_id,
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
                    label_source=turn.mark_source,
                    failure=failure,
                    referee_kind=self.referee.kind,
                    debater_model=turn.completion.model,
                    debater_revision=turn.completion.revision,
                    referee_model=turn.verdict.model,
                    referee_revision=turn.verdict.revision,
                    prompt_tokens=usage.prompt,
                    cached_tokens=usage.cached,
                    generated_tokens=usage.generated,
                    seed=seed_of(self.plan.seed, address),
                )
            )
        return records
