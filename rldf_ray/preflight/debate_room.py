"""Whether debaters' prompts leave room for their statements, before any debate is held.

A prompt holds all earlier rounds, whose statements have any length up to `debate.max_tokens`: what
is sure to fail is an error, what may fail is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from rldf_ray.engines.checks import PreflightError
from rldf_ray.models.chat_template import ChatTemplate, chat_template
from rldf_ray.plan import Plan
from rldf_ray.prompts import own_prompts
from rldf_ray.protocols.multirole.answering import (
    Answering,
    answering_of,
    choice_tokens,
    wordings_of,
)
from rldf_ray.protocols.multirole.layouts import render, system_prompt, turn_prompt
from rldf_ray.records import Debate, Topic, TopicKind, context_of
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics


@dataclass(frozen=True, kw_only=True)
class DebateRoom:
    """Tokens of a prompt and the statement after it, on the model of a debater.

    Attributes:
        least: of a first round, on a topic without a word.
        most: of the last one, on the longest seed, after statements as long as the plan allows.
    """

    model: str
    least: int
    most: int


def check_debate_room(plan: Plan) -> list[DebateRoom]:
    """The rooms of `debate_rooms`.

    Raises:
        PreflightError: there is none for any statement.
    """
    rooms, limit = debate_rooms(plan), plan.engines.max_model_len
    for room in rooms:
        if room.least > limit:
            raise PreflightError(
                f"engines.max_model_len={limit}: a debater's prompt and statement take at least "
                f"{room.least} tokens on {room.model}, so none can be made; raise it, or lower "
                f"debate.max_tokens={plan.debate.max_tokens}"
            )
    return rooms


def described(plan: Plan) -> str:
    """What is known of the room, in words.

    Raises:
        PreflightError: there is none for any statement.
    """
    rooms = check_debate_room(plan)
    known = "; ".join(f"{room.most} tokens at most on {room.model}" for room in rooms)
    return crowded(plan, rooms) or known or "not known: no local model holds multi-role debates"


def crowded(plan: Plan, rooms: Sequence[DebateRoom]) -> str:
    """What to say where statements of the last round may find no room; empty where all have some.

    Most statements are shorter than they may be.
    """
    limit, section = plan.engines.max_model_len, plan.debate
    return "; ".join(
        f"where statements are as long as debate.max_tokens={section.max_tokens} allows, the last "
        f"of debate.rounds={section.rounds} takes {room.most} tokens on {room.model}, and "
        f"engines.max_model_len is {limit}: a statement that finds no room counts as failed"
        for room in rooms
        if room.most > limit
    )


def debate_rooms(plan: Plan) -> list[DebateRoom]:
    """Of each local model that debates; none where another protocol is held, or others answer."""
    if plan.debate.protocol != "multirole":
        return []
    models = dict.fromkeys(speaker.model for speaker in plan.debaters() if speaker.local)
    with own_prompts(plan.prompts):
        return [_room(plan, model) for model in models]


def _room(plan: Plan, model: str) -> DebateRoom:
    template = chat_template(model, plan.chat_template_kwargs)
    debates = list(_longest(plan))
    return DebateRoom(
        model=model,
        least=min(_first(d, plan, template, "") + _asked(d, plan) for d in debates),
        most=max(_last(debate, plan, template) for debate in debates),
    )


def _longest(plan: Plan) -> Iterator[Debate]:
    """A debate on the longest seed of every bias type, of both kinds where both are debated."""
    share = plan.topics.judgement_share
    kinds: dict[TopicKind, bool] = {"opinion": share < 1, "judgement": share > 0}
    for name in plan.bias_types:
        about = bias_type(name)
        for kind in (kind for kind, debated in kinds.items() if debated):
            seeds = seed_topics(about, kind, plan)
            if seeds:
                topic = max(seeds, key=lambda topic: len(context_of(topic, True).text))
                yield _debate(topic, plan)


def _debate(topic: Topic, plan: Plan) -> Debate:
    identities = bias_type(topic.bias_type).identities[: plan.debate.debaters]
    return Debate(
        debate_id="", topic=topic, clue_shown=topic.kind == "judgement", identities=identities
    )


def _first(debate: Debate, plan: Plan, template: ChatTemplate, account: str | None = None) -> int:
    """Tokens of the longest prompt of the first round; of `account` where the topic is another."""
    context = context_of(debate.topic, debate.clue_shown)
    text = context.account if account is None else account
    opening = render("opening", topic=text, question=context.question)
    system = system_prompt(
        bias_type(debate.topic.bias_type).identities,
        plan.debate.examples,
        debate.topic.kind,
        wordings_of(debate, plan),
    )
    lengths = []
    for identity in debate.identities:
        turn = render("turn", number=1, identity=identity, kind=debate.topic.kind)
        prompt = turn_prompt(plan.debate.layout, opening, turn)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        lengths.append(len(template.prompt_ids(messages)))
    return max(lengths)


def _last(debate: Debate, plan: Plan, template: ChatTemplate) -> int:
    section = plan.debate
    answering = answering_of(debate, plan)
    statement = _longest_statement(answering, plan, template)
    score = 10.0 if section.show_marks else None
    turns = [
        SimpleNamespace(identity=i.name, text="", score=score, rank=1) for i in debate.identities
    ]
    heading = _tokens(template, "\n\n" + render("round", number=section.rounds, turns=turns))
    before = (section.rounds - 1) * (heading + len(turns) * statement)
    if section.order == "sequential":
        before += heading + (len(turns) - 1) * statement
    return _first(debate, plan, template) + before + _asked(debate, plan)


def _longest_statement(answering: Answering | None, plan: Plan, template: ChatTemplate) -> int:
    if answering is None:
        return plan.debate.max_tokens
    chosen = max(_tokens(template, choice) for choice in answering.choices)
    return chosen + plan.debate.max_tokens if answering.reasons else chosen


def _asked(debate: Debate, plan: Plan) -> int:
    """Tokens that are asked for in a debater's request."""
    answering = answering_of(debate, plan)
    if answering is None or answering.reasons:
        return plan.debate.max_tokens
    return choice_tokens(answering.choices)


def _tokens(template: ChatTemplate, text: str) -> int:
    return len(template.tokenizer.encode(text, add_special_tokens=False))
