"""What can be known before anything expensive starts: model, data, endpoint, disk."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from rldf_ray.cluster.session_folder import check_session_folder
from rldf_ray.dataset import filters
from rldf_ray.engines.checks import PreflightError, check_endpoint, check_model
from rldf_ray.evaluate.bbq.run_models import load_items
from rldf_ray.evaluate.multirole.data import load_multirole
from rldf_ray.plan import Plan
from rldf_ray.plan.agreement import check_answers, check_batches, check_ppo
from rldf_ray.plan.speaking import speaks_here
from rldf_ray.preflight.debate_room import check_debate_room, crowded
from rldf_ray.preflight.disk import check_disk
from rldf_ray.preflight.models import check_templates
from rldf_ray.preflight.unsent_prompts import unsent_prompts
from rldf_ray.protocols.known import (
    ProtocolError,
    protocol_named,
    source_names,
    study_named,
)
from rldf_ray.protocols.searches import open_searches
from rldf_ray.protocols.source import SEARCHES, SourceError, check_source, source_settings
from rldf_ray.referee.fit import fit_statements, judged_kinds
from rldf_ray.referee.labelled_statements import LABELLED
from rldf_ray.search.backend import SearchError
from rldf_ray.storage.folders import visible
from rldf_ray.storage.stages import PIPELINE, whole_run
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics, shown_seeds, wanted_by_kind
from rldf_ray.train.ppo.reward_functions import reward_texts


def check_inputs(
    plan: Plan, out: Path, stages: Collection[str] | None = None, freed_gib: float = 0.0
) -> list[str]:
    """Everything a run will read, before it starts; returns what one should know of the plan.

    Args:
        stages: those it will do, by default all of the plan's; what they write has to have room,
            and models are looked at where one is loaded in them: what endpoints answer needs none,
            and no library for it. An endpoint needs its key where a stage asks it.
        freed_gib: what is going to be removed before they write, GiB.

    Raises:
        PreflightError: model, bias type, evaluation set, endpoint key or disk is not there, or
            debaters' prompts have no room.
        SessionFolderError: Ray could not start.
    """
    stages = whole_run(plan.train.after) if stages is None else stages
    speaking = any(PIPELINE[name].speaks for name in stages)
    computing = computes_here(plan, stages)
    for check in (
        check_protocol,
        check_bias_types,
        *((check_seed_scenes,) if "topics" in stages else ()),
        *((check_searches,) if "debates" in stages else ()),
        check_language,
        *((check_model, check_templates) if computing else ()),
        check_referee,
        check_items,
        *((check_endpoint,) if speaking else ()),
        *((check_loggers,) if computing else ()),
        *((check_ppo_fields, check_rewards) if "ppo" in stages else ()),
    ):
        check(plan)
    if computing:
        check_session_folder()
    check_disk(plan, out, stages, freed_gib)
    crowding = ""
    if computing and "debates" in stages:
        crowding = crowded(plan, check_debate_room(plan))
    remarks = (crowding, unsent_prompts(plan) if speaking else "")
    return [remark for remark in remarks if remark]


def check_names(plan: Plan) -> None:
    """What a plan names beside models is there: its protocol, bias types, language, statements.

    Raises:
        PreflightError: something is not; names it and what is allowed.
    """
    for check in (check_protocol, check_bias_types, check_language, check_referee):
        check(plan)


def computes_here(plan: Plan, stages: Collection[str]) -> bool:
    """Whether machines of ours compute in these stages: models of the run, or speakers."""
    steps = [PIPELINE[name] for name in stages]
    return any(step.computes or (step.speaks and speaks_here(plan)) for step in steps)


def check_protocol(plan: Plan) -> str:
    """The plan's protocol is a folder of `protocols/`, and has seats where the plan names them.

    One that gives training rows of its own takes the plan's topics, and its settings are right.
    """
    try:
        sources = plan.debate.protocol in source_names()
        protocol = None if sources else protocol_named(plan.debate.protocol)
    except ProtocolError as error:
        raise PreflightError(str(error)) from error
    if plan.debate.seats is not None and not getattr(protocol, "SEATED", False):
        raise PreflightError(
            f"debate.seats with debate.protocol={plan.debate.protocol}: its debaters have one "
            "model; name it in debate.model, or take the protocol multirole"
        )
    if sources:
        try:
            check_source(plan)
        except SourceError as error:
            raise PreflightError(str(error)) from error
    elif plan.debate.settings is not None:
        raise PreflightError(
            f"debate.settings with debate.protocol={plan.debate.protocol}: it has none; allowed "
            f"with {', '.join(source_names())}"
        )
    return plan.debate.protocol


def check_searches(plan: Plan) -> str:
    """What the plan's source searches can be opened; names what that is."""
    name = plan.debate.protocol
    if name not in source_names():
        return "nothing is searched"
    try:
        backends = open_searches(study_named(name), source_settings(plan), SEARCHES)
    except SearchError as error:
        raise PreflightError(str(error)) from error
    return ", ".join(f"{arm}: {one.name}" for arm, one in backends.items()) or "nothing is searched"


def check_bias_types(plan: Plan) -> str:
    """Every bias type's file is there and right."""
    try:
        seeds = sum(
            len(seed_topics(bias_type(name), "opinion", plan))
            + len(seed_topics(bias_type(name), "judgement", plan))
            for name in plan.bias_types
        )
    except ValueError as error:
        raise PreflightError(f"bias_types: {error}") from error
    return f"{len(plan.bias_types)} bias types, {seeds} seed topics"


def check_seed_scenes(plan: Plan) -> str:
    """Whoever writes scenes is shown one: each bias type's file has some that are not held out."""
    section = plan.topics
    if not wanted_by_kind(section.per_bias_type, section.judgement_share)["judgement"]:
        return "no scenes are wanted"
    for name in plan.bias_types:
        about = bias_type(name)
        if not shown_seeds(about.judgement_topics, about, "judgement", plan):
            held_out = " that is not held out by its hash" if about.judgement_topics else ""
            raise PreflightError(
                f"topics.judgement_share={section.judgement_share:g}: the file of bias type "
                f"{name!r} has no scene in judgement_topics{held_out}, and a model that writes "
                "others is shown one; add scenes (docs/extending.md), or set "
                "topics.judgement_share=0"
            )
    return "every bias type has scenes"


def check_language(plan: Plan) -> str:
    """The filter of off-language statements knows their language."""
    if "off_language" in plan.data.filters:
        try:
            filters.check_language(plan.data.language)
        except ValueError as error:
            raise PreflightError(str(error)) from error
    return plan.data.language


def check_referee(plan: Plan) -> str:
    """A referee that is to be fitted has statements to learn from, and topics to leave for scores.

    Each of a bias type's labels is in every topic, so two topics are enough.
    """
    if plan.debate.protocol in source_names():
        return f"nobody: {plan.debate.protocol} has preferences of its own"
    if not judged_kinds(plan):
        return "nobody: answers are matched with the scenes' records"
    if not plan.referee.fitted:
        return str(plan.speaker_of("referee"))
    topics = {statement.topic for statement in fit_statements(plan)}
    known = [path.stem for path in visible(LABELLED, "*.jsonl")]
    if unknown := sorted(set(plan.referee.fit.bias_types or ()) - set(known)):
        raise PreflightError(
            f"referee.fit.bias_types: no labelled statements of {', '.join(unknown)}; allowed: "
            f"{', '.join(known)}, or a file of yours (docs/extending.md)"
        )
    if round(plan.referee.fit.held_out_share * len(topics)) not in range(1, len(topics)):
        raise PreflightError(
            f"referee.kind=trained: its bias types have {len(topics)} topics of labelled "
            f"statements, too few to fit to some and hold out {plan.referee.fit.held_out_share:g} "
            f"of them; {', '.join(known)} have some; add a file (docs/extending.md), or set "
            "referee.kind=prompted"
        )
    return f"fitted in the run to labelled statements on {len(topics)} topics"


def check_ppo_fields(plan: Plan) -> str:
    """PPO can do all of its steps, also by a plan that was made of another one."""
    try:
        check_batches(plan)
        check_answers(plan)
        check_ppo(plan)
    except ValueError as error:
        raise PreflightError(str(error)) from error
    return f"{plan.ppo.episodes // plan.ppo.rollout_batch} rollout steps"


def check_rewards(plan: Plan) -> str:
    """Functions that reward answers can be imported, and take what they are called with.

    Raises:
        RewardError: one cannot, or does not.
    """
    reward_texts(plan.ppo.rewards)
    return ", ".join(source.name for source in plan.ppo.rewards)


def check_loggers(plan: Plan) -> str:
    """The packages of the loggers are installed."""
    for name in plan.train.loggers:
        if find_spec(name) is None:
            raise PreflightError(
                f"train.loggers: {name} is not installed: pip install {name}, or leave it out"
            )
    return ", ".join(plan.train.loggers) or "none"


def check_items(plan: Plan) -> str:
    """The multiple-choice sets can be read."""
    try:
        items = load_items(plan)
    except (ValueError, OSError) as error:
        raise PreflightError(f"evaluate.bbq: {error}") from error
    if plan.evaluate.multirole is not None:
        try:
            load_multirole(plan.evaluate.multirole)
        except (ValueError, OSError) as error:
            raise PreflightError(f"evaluate.multirole: {error}") from error
    why = f"; no bias scores: {items.why_no_bias_scores}" if items.why_no_bias_scores else ""
    return f"{len(items.items)} items of {items.source}{why}"
