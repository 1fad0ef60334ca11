"""What a run would take, before anything is spent: calls, tokens, money and time.

Calls are counted from the plan. Tokens are those of answers as long as the plan allows, with
prompts rendered from the real templates and seeds, at 4 characters a token. An earlier run corrects
them by what it really took, and is the only source of times: none is guessed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rldf_ray.models.agent import CHOICE_TOKENS
from rldf_ray.plan import Part, Plan
from rldf_ray.plan.refereeing import EVALUATION_TOKENS, ROUNDS
from rldf_ray.prompts import own_prompts
from rldf_ray.protocols.known import source_named, source_names, study_named
from rldf_ray.protocols.multirole import items as multirole_items
from rldf_ray.protocols.multirole.layouts import render as debate_prompt
from rldf_ray.protocols.multirole.layouts import system_prompt
from rldf_ray.protocols.source import source_items, source_settings
from rldf_ray.records import Identity, Topic, TopicKind, context_of
from rldf_ray.referee.fit import audit_statements, fit_statements
from rldf_ray.referee.prompted import render as referee_prompt
from rldf_ray.storage.results import Finish
from rldf_ray.topics.bias_type import BiasType, bias_type
from rldf_ray.topics.writer import render as topic_prompt
from rldf_ray.topics.writer import seed_topics, wanted_by_kind

CHARACTERS_A_TOKEN = 4
# What a chat template puts around a request's messages.
TEMPLATE_TOKENS = 16
# A score or a ranking: a few digits.
VERDICT_TOKENS = 3


@dataclass(frozen=True, kw_only=True)
class StageEstimate:
    """One stage.

    Attributes:
        calls: model calls.
        prompt, generated: tokens; of `prompt` a prefix cache saves what calls share.
        work: what the stage's time is proportional to, in a unit of its own; None if unknown.
        billed: shares of `prompt` and `generated` that an endpoint answers.
        usd: what an endpoint charges, 0 where none is asked; None where a price is missing.
        seconds: from an earlier run, None without one.
    """

    name: str
    calls: int
    prompt: int
    generated: int
    work: float | None
    billed: tuple[float, float] = (0.0, 0.0)
    usd: float | None = None
    seconds: float | None = None


def estimate(
    plan: Plan, like: tuple[Plan, Mapping[str, Finish]] | None = None
) -> list[StageEstimate]:
    """The stages of a run of `plan` in order.

    Args:
        like: an earlier run's plan and its finished stages by name.
    """
    stages = _bounds(plan)
    if like is not None:
        earlier = {stage.name: stage for stage in _bounds(like[0])}
        stages = [
            _corrected(s, earlier[s.name], like[1].get(s.name)) if s.name in earlier else s
            for s in stages
        ]
        if plan.evaluate != like[0].evaluate:
            stages = [replace(s, seconds=None) if s.name == "eval" else s for s in stages]
    return [replace(stage, usd=_usd(plan, stage)) for stage in stages]


def summary(stages: Sequence[StageEstimate]) -> dict[str, Any]:
    """Totals over stages; money and time are None where a part of them is unknown."""
    seconds = [stage.seconds for stage in stages]
    prices = [stage.usd for stage in stages]
    return {
        "calls": sum(stage.calls for stage in stages),
        "prompt": sum(stage.prompt for stage in stages),
        "generated": sum(stage.generated for stage in stages),
        "usd": None if None in prices else math.fsum(p for p in prices if p is not None),
        "seconds": None if None in seconds else math.fsum(s for s in seconds if s is not None),
    }


def _bounds(plan: Plan) -> list[StageEstimate]:
    with own_prompts(plan.prompts):
        return _stages(plan)


def _stages(plan: Plan) -> list[StageEstimate]:
    statements = plan.debate.debates * plan.debate.debaters * plan.debate.rounds
    pairs = plan.data.pairs_per_topic and plan.data.pairs_per_topic * plan.debate.debates
    return [
        *_referee(plan),
        _topics(plan),
        _audit(plan),
        _debates(plan),
        StageEstimate(name="data", calls=0, prompt=0, generated=0, work=statements),
        StageEstimate(
            name="sft",
            calls=0,
            prompt=0,
            generated=0,
            work=min(statements, plan.data.max_sft or statements),
        ),
        *_policy(plan, pairs),
        _eval(plan),
    ]


def _referee(plan: Plan) -> list[StageEstimate]:
    """The fit of a trained referee, whose time goes with the pairs it passes over."""
    if not plan.referee.fitted:
        return []
    pairs = len(fit_statements(plan)) // 2
    return [
        StageEstimate(
            name="referee", calls=0, prompt=0, generated=0, work=pairs * plan.referee.fit.epochs
        )
    ]


def _topics(plan: Plan) -> StageEstimate:
    """One try; more are made only for topics that turn out alike or will not do."""
    calls = prompt = generated = 0
    for name in plan.bias_types:
        about = bias_type(name)
        for kind, missing in _missing(plan, about).items():
            batch = plan.topics.batch if kind == "opinion" else 1
            requests = math.ceil(missing / batch)
            calls += requests
            prompt += requests * _topic_prompt(about, kind, batch)
            generated += 40 * missing if kind == "opinion" else 240 * missing
    billed = _billed(plan, "topics")
    return StageEstimate(
        name="topics",
        calls=calls,
        prompt=prompt,
        generated=generated,
        work=prompt + generated,
        billed=(billed, billed),
    )


def _missing(plan: Plan, about: BiasType) -> dict[TopicKind, int]:
    """Topics of each kind that the seeds leave to be written."""
    section = plan.topics
    most = section.per_bias_type
    if section.seeds_per_bias_type is not None:
        most = min(most, section.seeds_per_bias_type)
    seeds = wanted_by_kind(most, section.judgement_share)
    return {
        kind: number - min(number, seeds[kind], len(seed_topics(about, kind, plan)))
        for kind, number in wanted_by_kind(section.per_bias_type, section.judgement_share).items()
    }


def _topic_prompt(about: BiasType, kind: TopicKind, batch: int) -> int:
    system = topic_prompt("system", about=about.about)
    if kind == "opinion":
        examples = about.opinion_topics[:4]
        return _tokens(system, topic_prompt("opinion", examples=examples, count=batch))
    example = about.judgement_topics[0].model_dump_json()
    return _tokens(system, topic_prompt("judgement", example=example))


def _audit(plan: Plan) -> StageEstimate:
    statements = audit_statements(plan)
    reads = [_scoring_prompt(plan, s.context, s.text) for s in statements]
    prompt = sum(_score_passes(plan) * r + _evaluating(plan, r) for r in reads)
    said = _evaluations(plan) * _evaluation_tokens(plan)
    generated = (_verdict_tokens(plan) + said) * len(statements)
    billed = _billed(plan, "referee")
    return StageEstimate(
        name="audit",
        calls=(1 + _evaluations(plan)) * len(statements),
        prompt=prompt,
        generated=generated,
        work=prompt + generated,
        billed=(billed, billed),
    )


def _debates(plan: Plan) -> StageEstimate:
    """A statement's prompt holds all earlier rounds, so prompts grow with the square of rounds."""
    if plan.debate.protocol in source_names():
        return _source(plan)
    section = plan.debate
    n, rounds = section.debaters, section.rounds
    requests, longest = _a_statement(plan)
    context = _mean_context(plan)
    identities = _table(plan)
    turn = _tokens(
        system_prompt(identities, section.examples),
        debate_prompt("turn", number=2, identity=identities[0], kind="judgement"),
    )
    said_before = n * longest * rounds * (rounds - 1) // 2
    speaking = requests * n * (rounds * (turn + context) + said_before)
    around = _scoring_prompt(plan, "", "")
    reads = around + context + longest
    judging: float = rounds * n * (_score_passes(plan) * reads + _evaluating(plan, reads))
    rankings = _rankings(plan)
    judging += rankings * (around + context + n * longest)
    said, judged = rounds * n * longest, (rounds * n + rankings) * _verdict_tokens(plan)
    judged += rounds * n * _evaluations(plan) * _evaluation_tokens(plan)
    prompt, generated = round(speaking + judging), round(said + judged)
    debater = statistics.mean(speaker.paid for speaker in plan.debaters())
    referee = _billed(plan, "referee")
    return StageEstimate(
        name="debates",
        calls=round(
            ((requests + 1 + _evaluations(plan)) * n * rounds + rankings) * section.debates
        ),
        prompt=prompt * section.debates,
        generated=generated * section.debates,
        work=(prompt + generated) * section.debates,
        billed=(
            (debater * speaking + referee * judging) / prompt,
            (debater * said + referee * judged) / generated,
        ),
    )


def _a_statement(plan: Plan) -> tuple[float, int]:
    """Requests for a statement, and its most tokens: means over opinions and scenes."""
    section, scenes = plan.debate, plan.topics.judgement_share
    if section.answers == "written":
        return 1, section.max_tokens
    if section.answers == "chosen":
        return 1, round(scenes * CHOICE_TOKENS + (1 - scenes) * section.max_tokens)
    return 1 + scenes, round(scenes * CHOICE_TOKENS + section.max_tokens)


def _source(plan: Plan) -> StageEstimate:
    """What the study of the plan's source would ask, on items made of the seeds."""
    source, study = source_named(plan.debate.protocol), study_named(plan.debate.protocol)
    topics = [
        replace(topic, split="debate")
        for name in plan.bias_types
        for kind, number in wanted_by_kind(12, plan.topics.judgement_share).items()
        for topic in seed_topics(bias_type(name), kind, plan)[:number]
    ]
    # Items differ little in length, so a few stand for all.
    few = plan.model_copy(
        update={"debate": plan.debate.model_copy(update={"debates": len(topics)})}
    )
    instances = multirole_items(topics, few)
    asked = study.estimate(source_items(source, instances, plan), source_settings(plan))
    scale = plan.debate.debates / len(instances)
    prompt = sum(one.prompt for one in asked) * scale
    generated = sum(one.generated for one in asked) * scale
    paid = [one for one in asked if plan.speaker_of(one.speaker).paid]
    return StageEstimate(
        name="debates",
        calls=round(sum(one.calls for one in asked) * scale),
        prompt=round(prompt),
        generated=round(generated),
        work=prompt + generated,
        billed=(
            sum(one.prompt for one in paid) * scale / prompt,
            sum(one.generated for one in paid) * scale / generated,
        ),
    )


def _evaluations(plan: Plan) -> int:
    """Texts of judges and critics on one statement before it is scored."""
    section = plan.referee
    if section.kind == "debate":
        return 1 + 2 * (section.rounds or ROUNDS)
    # A member of a pool evaluates and scores; a trained one reads the statement once.
    return 2 * len(section.pool or ())


def _evaluation_tokens(plan: Plan) -> int:
    return plan.referee.evaluation_tokens or EVALUATION_TOKENS


def _evaluating(plan: Plan, reads: int) -> int:
    """Tokens that are read for the evaluations of a statement, each of which reads all before."""
    number = _evaluations(plan)
    return number * reads + number * (number + 1) // 2 * _evaluation_tokens(plan)


def _rankings(plan: Plan) -> float:
    """Rankings that the referee is asked for, a debate: where scores tell the order, none."""
    if plan.referee.kind != "prompted":
        return 0
    checked = plan.referee.judgements == "checked"
    return plan.debate.rounds * (1 - plan.topics.judgement_share * checked)


def _trained(plan: Plan) -> bool:
    return plan.referee.kind == "trained"


def _scoring_prompt(plan: Plan, context: str, text: str) -> int:
    """Tokens the referee reads to score a statement."""
    if _trained(plan):
        prompt = referee_prompt("trained", context=context)
        return _tokens(referee_prompt("trained_system"), prompt, text)
    return _tokens(referee_prompt("system"), referee_prompt("score", context=context, text=text))


def _verdict_tokens(plan: Plan) -> int:
    return 0 if _trained(plan) else VERDICT_TOKENS


def _score_passes(plan: Plan) -> int:
    """An engine reads a score's prompt twice, as "1" may go on to "10" (models/choice_trie.py)."""
    return 1 if _trained(plan) or _billed(plan, "referee") else 2


def _billed(plan: Plan, part: Part) -> float:
    """1 where an endpoint plays `part`, else 0."""
    return float(plan.speaker_of(part).paid)


def _mean_context(plan: Plan) -> int:
    """Tokens of what is debated, over the seeds of all bias types."""
    topics: list[Topic] = [
        topic
        for name in plan.bias_types
        for kind in wanted_by_kind(2, 0.5)
        for topic in seed_topics(bias_type(name), kind, plan)
    ]
    lengths = [len(context_of(topic, topic.kind == "judgement").text) for topic in topics]
    return math.ceil(statistics.mean(lengths) / CHARACTERS_A_TOKEN) if lengths else 0


def _table(plan: Plan) -> tuple[Identity, ...]:
    """Those who may debate, of the bias type with the longest lives."""
    tables = [bias_type(name).identities for name in plan.bias_types]
    return max(tables, key=lambda table: sum(len(identity.background) for identity in table))


def _policy(plan: Plan, pairs: int | None) -> list[StageEstimate]:
    """What trains the policy after SFT; all but PPO goes with the pairs that it passes over."""
    learning = ["reward", *plan.train.after] if "ppo" in plan.train.after else plan.train.after
    return [
        _ppo(plan)
        if name == "ppo"
        else StageEstimate(name=name, calls=0, prompt=0, generated=0, work=pairs)
        for name in learning
    ]


def _ppo(plan: Plan) -> StageEstimate:
    section = plan.ppo
    prompt = section.episodes * (_mean_context(plan) + TEMPLATE_TOKENS)
    generated = section.episodes * section.max_tokens
    return StageEstimate(
        name="ppo", calls=section.episodes, prompt=prompt, generated=generated, work=generated
    )


def _eval(plan: Plan) -> StageEstimate:
    """Held-out answers of base, SFT and policy; ranking multiple-choice items is no generation."""
    answers = 3 * (plan.evaluate.held_out_prompts or _held_out(plan))
    prompt = answers * (_mean_context(plan) + TEMPLATE_TOKENS)
    return StageEstimate(
        name="eval",
        calls=answers,
        prompt=prompt,
        generated=answers * plan.evaluate.max_tokens,
        work=answers,
    )


def _held_out(plan: Plan) -> int:
    """Prompts of the topics that are neither debated nor PPO's; a scene gives two."""
    section = plan.topics
    share = 1 - section.debate_share - section.ppo_share
    topics = len(plan.bias_types) * section.per_bias_type * (1 + section.judgement_share)
    return math.ceil(topics * share)


def _corrected(
    stage: StageEstimate, earlier: StageEstimate, finish: Finish | None
) -> StageEstimate:
    """By the ratio of what the earlier run's stage took to what had been estimated of it."""
    if finish is None:
        return stage
    took = finish.tokens or {}
    seconds = None
    if stage.work == earlier.work:
        seconds = finish.seconds
    elif stage.work is not None and earlier.work:
        seconds = finish.seconds * stage.work / earlier.work
    return replace(
        stage,
        prompt=_scaled(stage.prompt, took.get("prompt"), earlier.prompt),
        generated=_scaled(stage.generated, took.get("generated"), earlier.generated),
        seconds=seconds,
    )


def _scaled(bound: int, took: int | None, estimated: int) -> int:
    return round(bound * took / estimated) if took and estimated else bound


def _usd(plan: Plan, stage: StageEstimate) -> float | None:
    """The endpoint's prices, for the part of the tokens that it answers."""
    return plan.endpoint.usd(stage.prompt * stage.billed[0], stage.generated * stage.billed[1])


def _tokens(*texts: str) -> int:
    return TEMPLATE_TOKENS + math.ceil(sum(map(len, texts)) / CHARACTERS_A_TOKEN)
