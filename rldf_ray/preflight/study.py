"""What has to hold before a study spends anything, and whether its models fit at once."""

from __future__ import annotations

from rldf_ray.cluster.placement import BYTES, Resources
from rldf_ray.engines.checks import PreflightError, check_endpoint
from rldf_ray.models.chat_template import ChatTemplateError, chat_template
from rldf_ray.models.embedded import resolve_model
from rldf_ray.plan.study import StudyPlan
from rldf_ray.preflight.models import parameters_of

LIBRARIES_GIB = 1.2
"""Of an engine's process, besides weights and cache."""


def check_study(plan: StudyPlan) -> None:
    """Nothing where every model is there and renders chats, and endpoints have their key.

    Raises:
        PreflightError: one is not; the message names it.
    """
    check_endpoint(plan)
    for name, text in plan.models.items():
        speaker = plan.speaker_of(name)
        if not speaker.local:
            continue
        try:
            chat_template(speaker.model, plan.chat_template_kwargs)
        except ChatTemplateError as error:
            raise PreflightError(f"models.{name}: {error}") from error
        except (OSError, ValueError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise PreflightError(
                f"models.{name}={text}: neither a folder nor a hub id that can be reached "
                f"({reason})"
            ) from error


def fits_together(plan: StudyPlan, resources: Resources) -> tuple[bool, str]:
    """Whether all local models can be loaded at once, and the reckoning."""
    local = [speaker for speaker in plan.speakers() if speaker.local]
    if len(local) < 2:
        return True, "one local model" if local else "none is loaded here"
    section = plan.engines
    if resources.gpus >= 1:
        engines, size = section.count * len(local), section.tensor_parallel
        held = resources.engines(size)
        reckoned = f"{engines * size} GPUs for all, {resources.gpus:g} there are"
        if held < engines and engines * size <= resources.gpus:
            reckoned += f" on nodes that hold {held} of {engines} engines"
        return engines <= held, _said(engines <= held, reckoned)
    needed = sum(
        section.count
        * (
            parameters_of(resolve_model(speaker.model)) * BYTES[section.dtype] / 2**30
            + section.kv_cache_gib
            + LIBRARIES_GIB
        )
        for speaker in local
    )
    fit = needed <= resources.memory_gib
    return fit, _said(fit, f"{needed:.1f} GiB for all, {resources.memory_gib:.1f} there are")


def _said(fit: bool, reckoning: str) -> str:
    return f"{'at once' if fit else 'taking turns'} ({reckoning})"
