"""Which debates a run holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rldf_ray.plan import Part, Plan
from rldf_ray.plan.saved import another_run
from rldf_ray.records import Debate, Topic
from rldf_ray.topics.bias_type import bias_type

ROLES: Mapping[str, Part] = {"debater": "debate"}
"""One model plays all debaters of a run, unless each seat has its own."""
SEATED = True


def statements_per_item(plan: Plan) -> int:
    """Every debater makes one statement a round."""
    return plan.debate.debaters * plan.debate.rounds


def items(topics: Sequence[Topic], plan: Plan) -> list[Debate]:
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
    for name, listed in by_type.items():
        if not listed:
            raise ValueError(
                f"bias type {name!r} has no topic to debate: "
                + another_run("a higher topics.per_bias_type or topics.debate_share")
            )
    ordered = [_kinds_in_turn(listed) for listed in by_type.values()]
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
