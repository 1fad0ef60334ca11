"""The judging model: the plan in which it plays every part, and what tells it from others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from rldf_ray.cluster.placement import place_speaking
from rldf_ray.cluster.ray_cluster import ray_cluster, this_machine
from rldf_ray.console import Progress, TextConsole
from rldf_ray.engines.checks import check_endpoint, check_model
from rldf_ray.engines.speakers import Speakers
from rldf_ray.models.embedded import weights_revision
from rldf_ray.plan import Plan, PlanError, Speaker
from rldf_ray.plan.plan import PARTS
from rldf_ray.plan.section import Section
from rldf_ray.plan.speaking import speaks_here
from rldf_ray.storage.run_folder import RunFolder


def behind(judge: str, plan: Plan) -> str | None:
    """What tells a judge from others of its name: the weights in its folder, or its address."""
    speaker = Speaker.parse(judge)
    return weights_revision(speaker.model) if speaker.local else plan.endpoint.base_url


def judge_plan(plan: Plan, judge: str) -> Plan:
    """The judge plays every part of it, on the engines or at the endpoint of `plan`.

    Raises:
        PlanError: the judge is no speaker.
        PreflightError: its folder is not there, or its endpoint has no key.
    """
    sections: dict[str, Section] = {
        name: getattr(plan, name).model_copy(update={"model": None}) for name in PARTS
    }
    sections["debate"] = sections["debate"].model_copy(update={"seats": None})
    sections["referee"] = sections["referee"].model_copy(update={"kind": "prompted"})
    try:
        judged = Plan.model_validate(
            plan.model_copy(update={"teacher": judge, **sections}).model_dump(),
            context={"saved": True},
        )
    except ValidationError as error:
        raise PlanError(f"--judge {judge}: {error.errors()[0]['msg']}") from error
    check_model(judged)
    check_endpoint(judged)
    return judged


def same_model(judge: str, theirs: Plan | None) -> list[str]:
    """The parts in the answers' plan that the judge's own model plays."""
    if theirs is None:
        return []
    name = Speaker.parse(judge).weights
    titles = {"topics": "topic writer", "debate": "teacher", "referee": "referee"}
    if theirs.referee.kind == "trained":
        titles["referee"] = "what the referee is fitted from"
    played = {part: [theirs.speaker_of(part)] for part in PARTS}
    if theirs.debate.seats is not None:
        played["debate"], titles["debate"] = [*theirs.debaters()], "one of the debaters"
    parts = [titles[p] for p in PARTS if name in {speaker.weights for speaker in played[p]}]
    policy = Speaker("vllm", theirs.model).weights
    return [*parts, "the model that was trained"] if policy == name else parts


@contextmanager
def speakers_of(plan: Plan, folder: RunFolder) -> Iterator[Speakers]:
    """The judge, with Ray where it runs on engines."""
    machines = ray_cluster if speaks_here(plan) else this_machine
    with machines(folder.root / "logs") as resources:
        speakers = Speakers(
            plan=plan,
            folder=folder,
            placement=place_speaking(plan, resources, together=True),
            progress=Progress(TextConsole(stderr=True, soft_wrap=True)),
            weights=behind(str(plan.speaker_of("referee")), plan),
        )
        try:
            yield speakers
        finally:
            speakers.end()
