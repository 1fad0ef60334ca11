"""What the audit and the debates would take: statements, verdicts, and a source's items."""

from __future__ import annotations

from dataclasses import replace

from rldf_ray.models.agent import CHOICE_TOKENS
from rldf_ray.plan import Plan
from rldf_ray.preflight.referee_estimate import Asked, Total, judging, ranking, total
from rldf_ray.preflight.stage_estimate import StageEstimate, mean_context, tokens_of
from rldf_ray.protocols.known import source_named, source_names, study_named
from rldf_ray.protocols.multirole import items as multirole_items
from rldf_ray.protocols.multirole.layouts import render as debate_prompt
from rldf_ray.protocols.multirole.layouts import system_prompt
from rldf_ray.protocols.source import source_items, source_settings
from rldf_ray.records import Identity
from rldf_ray.referee.fit import audit_statements
from rldf_ray.referee.prompted import render as referee_prompt
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics, wanted_by_kind


def audit_estimate(plan: Plan) -> StageEstimate:
    """The referee's verdicts on the held-out labelled statements."""
    statements = audit_statements(plan)
    reads = [_scoring_prompt(plan, s.context, s.text) for s in statements]
    asked = total(plan, [one for r in reads for one in judging(plan, r)])
    return _stage("audit", asked)


def debates_estimate(plan: Plan) -> StageEstimate:
    """A statement's prompt holds all earlier rounds, so prompts grow with the square of rounds."""
    if plan.debate.protocol in source_names():
        return _source(plan)
    section = plan.debate
    n, rounds = section.debaters, section.rounds
    requests, longest = _a_statement(plan)
    context = mean_context(plan)
    identities = _table(plan)
    turn = tokens_of(
        system_prompt(identities, section.examples),
        debate_prompt("turn", number=2, identity=identities[0], kind="judgement"),
    )
    said_before = n * longest * rounds * (rounds - 1) // 2
    parts = plan.debate_parts()
    seats = n / len(parts)
    speaking = [
        Asked(
            part,
            requests * rounds * seats,
            requests * seats * (rounds * (turn + context) + said_before),
            rounds * longest * seats,
        )
        for part in parts
    ]
    around = _scoring_prompt(plan, "", "")
    refereed = rounds * n * _refereed(plan)
    scored = [one.times(refereed) for one in judging(plan, around + context + longest)]
    ranked = ranking(around + context + n * longest).times(_rankings(plan))
    debate = [*speaking, *scored, ranked]
    return _stage("debates", total(plan, [one.times(section.debates) for one in debate]))


def _stage(name: str, asked: Total) -> StageEstimate:
    return StageEstimate(
        name=name,
        calls=round(asked.calls),
        prompt=round(asked.prompt),
        generated=round(asked.generated),
        work=asked.prompt + asked.generated,
        billed=(
            asked.paid_prompt / (asked.prompt or 1),
            asked.paid_generated / (asked.generated or 1),
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


def _refereed(plan: Plan) -> float:
    """Share of the statements that a referee reads: all, or those that nothing is matched with."""
    return 1 - plan.topics.judgement_share * (plan.referee.judgements == "matched")


def _rankings(plan: Plan) -> float:
    """Rankings that the referee is asked for, a debate: where scores tell the order, none."""
    if plan.referee.kind != "prompted":
        return 0
    by_score = plan.referee.judgements != "scored"
    return plan.debate.rounds * (1 - plan.topics.judgement_share * by_score)


def _scoring_prompt(plan: Plan, context: str, text: str) -> int:
    """Tokens the referee reads to score a statement."""
    if plan.referee.kind == "trained":
        prompt = referee_prompt("trained", context=context)
        return tokens_of(referee_prompt("trained_system"), prompt, text)
    return tokens_of(referee_prompt("system"), referee_prompt("score", context=context, text=text))


def _table(plan: Plan) -> tuple[Identity, ...]:
    """Those who may debate, of the bias type with the longest lives."""
    tables = [bias_type(name).identities for name in plan.bias_types]
    return max(tables, key=lambda table: sum(len(identity.background) for identity in table))
