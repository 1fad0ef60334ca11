"""What a run would take, before anything is spent: calls, tokens, money and time.

Calls are counted from the plan. Tokens are those of answers as long as the plan allows, with
prompts rendered from the real templates and seeds, at 4 characters a token. An earlier run corrects
them by what it really took, and is the only source of times: none is guessed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rldf_ray.plan import Plan
from rldf_ray.preflight.debates_estimate import audit_estimate, debates_estimate
from rldf_ray.preflight.stage_estimate import (
    TEMPLATE_TOKENS,
    StageEstimate,
    billed,
    mean_context,
    tokens_of,
)
from rldf_ray.prompts import own_prompts
from rldf_ray.protocols.known import source_names
from rldf_ray.records import TopicKind
from rldf_ray.referee.fit import fit_statements
from rldf_ray.storage.results import Finish
from rldf_ray.topics.bias_type import BiasType, bias_type
from rldf_ray.topics.writer import render as topic_prompt
from rldf_ray.topics.writer import seed_topics, wanted_by_kind


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
            _corrected(s, earlier[s.name], like[1].get(s.name), _same_work(plan, like[0], s.name))
            if s.name in earlier
            else s
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
    examples = min(statements, plan.data.max_sft or statements)
    # A source has preferences of its own: its run neither fits nor audits a referee.
    is_source = plan.debate.protocol in source_names()
    return [
        *(() if is_source else _referee(plan)),
        _topics(plan),
        *(() if is_source else (audit_estimate(plan),)),
        debates_estimate(plan),
        StageEstimate(name="data", calls=0, prompt=0, generated=0, work=statements),
        StageEstimate(name="sft", calls=0, prompt=0, generated=0, work=examples * plan.sft.epochs),
        *_policy(plan),
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
            if not missing:
                continue
            batch = plan.topics.batch if kind == "opinion" else 1
            requests = math.ceil(missing / batch)
            calls += requests
            prompt += requests * _topic_prompt(about, kind, batch)
            generated += 40 * missing if kind == "opinion" else 240 * missing
    share = billed(plan, "topics")
    return StageEstimate(
        name="topics",
        calls=calls,
        prompt=prompt,
        generated=generated,
        work=prompt + generated,
        billed=(share, share),
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
        return tokens_of(system, topic_prompt("opinion", examples=examples, count=batch))
    example = about.judgement_topics[0].model_dump_json() if about.judgement_topics else ""
    return tokens_of(system, topic_prompt("judgement", example=example))


def _policy(plan: Plan) -> list[StageEstimate]:
    """What trains the policy after SFT; all but PPO goes with the pairs that it passes over."""
    learning = ["reward", *plan.train.after] if "ppo" in plan.train.after else plan.train.after
    return [_ppo(plan) if name == "ppo" else _on_pairs(plan, name) for name in learning]


def _on_pairs(plan: Plan, name: str) -> StageEstimate:
    """How many pairs there will be is known where the plan limits them."""
    limits = [plan.data.max_pairs]
    if plan.data.pairs_per_topic is not None:
        limits.append(plan.data.pairs_per_topic * plan.debate.debates)
    pairs = min((limit for limit in limits if limit is not None), default=None)
    work = None if pairs is None else pairs * getattr(plan, name).epochs
    return StageEstimate(name=name, calls=0, prompt=0, generated=0, work=work)


def _same_work(plan: Plan, earlier: Plan, stage: str) -> bool:
    """Whether all that decides how many pairs a stage passes over is what it was."""
    sections = ("bias_types", "topics", "debate", "referee", "data", stage)
    return all(getattr(plan, s, None) == getattr(earlier, s, None) for s in sections)


def _ppo(plan: Plan) -> StageEstimate:
    section = plan.ppo
    prompt = section.episodes * (mean_context(plan) + TEMPLATE_TOKENS)
    generated = section.episodes * section.max_tokens
    return StageEstimate(
        name="ppo", calls=section.episodes, prompt=prompt, generated=generated, work=generated
    )


def _eval(plan: Plan) -> StageEstimate:
    """Held-out answers of base, SFT and policy; ranking multiple-choice items is no generation."""
    answers = 3 * (plan.evaluate.held_out_prompts or _held_out(plan))
    prompt = answers * (mean_context(plan) + TEMPLATE_TOKENS)
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
    stage: StageEstimate, earlier: StageEstimate, finish: Finish | None, same_work: bool
) -> StageEstimate:
    """By the ratio of what the earlier run's stage took to what had been estimated of it.

    Args:
        same_work: it is as much as the earlier run's, also where nobody knows how much.
    """
    if finish is None:
        return stage
    took = finish.tokens or {}
    seconds = None
    if stage.work is None or earlier.work is None:
        seconds = finish.seconds if same_work else None
    elif stage.work == earlier.work:
        seconds = finish.seconds
    elif earlier.work:
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
