"""The engines that a plan asks for: of the policy, of models that speak, of a fitted referee."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rldf_ray.cluster.placement import Placement
from rldf_ray.console import Progress
from rldf_ray.engines.backend import SpeakerContext
from rldf_ray.engines.position_invariant_actor import PositionInvariantSettings
from rldf_ray.engines.reward_actor import RewardSettings
from rldf_ray.engines.scripted_actor import ScriptedSettings
from rldf_ray.engines.vllm_actor import EngineSettings
from rldf_ray.models.embedded import located
from rldf_ray.plan import Plan
from rldf_ray.plan.speaker import Speaker
from rldf_ray.plan.speaking import SpeakingPlan
from rldf_ray.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from rldf_ray.engines.pool import EnginePool, Settings


def at_once(plan: SpeakingPlan, placement: Placement, alone: bool = False) -> Placement:
    """`placement` for engines that speak while others do: each computes with its share of cores.

    One that is `alone` has them all.

    With more threads than cores, those that wait for work keep the others from theirs: debates of
    the embedded model beside a trained referee took 158 s instead of 119.
    """
    if placement.engine_threads is None or alone:
        return placement
    here = [speaker for speaker in plan.speakers() if speaker.local]
    return replace(placement, engine_threads=max(1, placement.engine_threads // len(here)))


@contextmanager
def fitted_referee(plan: Plan, placement: Placement, folder: RunFolder) -> Iterator[EnginePool]:
    """The reward model in a run's referee/, in an actor where otherwise a training worker is."""
    revision: str = folder.read_object("referee/calibration.json", ("revision",))["revision"]
    settings = RewardSettings(
        folder=folder.address("referee/model"),
        name=str(plan.fitted_speaker()),
        revision=revision,
        device=placement.device,
        threads=placement.threads,
        max_length=plan.referee.fit.max_length,
        max_num_seqs=plan.engines.max_num_seqs,
    )
    from rldf_ray.engines.pool import engines

    with engines(
        settings,
        # Remembered calls are those of these weights.
        name=f"{settings.name}@{revision}",
        count=1,
        num_cpus=placement.worker_cpus,
        num_gpus=placement.worker_gpus,
        pinned=[placement.pinned()],
        timeout_s=plan.engines.request_timeout_s,
        restarts=plan.engines.restarts,
    ) as pool:
        yield pool


@contextmanager
def policy_engines(
    plan: SpeakingPlan,
    placement: Placement,
    progress: Progress,
    folder: str,
    revision: str,
    dtype: str,
    lora_rank: int = 0,
    most: int | None = None,
    tempered_logprobs: bool = False,
) -> Iterator[EnginePool]:
    """The plan's vLLM engines on a model folder, which start while other work is done."""
    section = plan.engines
    settings = EngineSettings(
        model=folder,
        weights=located(folder),
        revision=revision,
        dtype=dtype,
        max_model_len=section.max_model_len,
        max_num_seqs=section.max_num_seqs,
        kv_cache_gib=section.kv_cache_gib if placement.device == "cpu" else None,
        gpu_memory_utilization=section.gpu_memory_utilization,
        tensor_parallel=section.tensor_parallel,
        block_size=section.block_size,
        enforce_eager=section.enforce_eager,
        threads=placement.engine_threads,
        seed=plan.seed,
        lora_rank=lora_rank,
        sleeps=section.sleep,
        tempered_logprobs=tempered_logprobs,
        chat_template_kwargs=plan.chat_template_kwargs,
    )
    progress.say(f"  starting {placement.engines} vLLM engine(s) on {folder}")
    with engine_pool(plan, placement, settings, folder, most) as pool:
        yield pool


@contextmanager
def engine_pool(
    plan: SpeakingPlan,
    placement: Placement,
    settings: Settings,
    name: str,
    most: int | None,
) -> Iterator[EnginePool]:
    from rldf_ray.engines.pool import engines

    with engines(
        settings,
        name=name,
        count=placement.engines,
        most=most,
        num_cpus=placement.engine_cpus,
        num_gpus=0 if isinstance(settings, ScriptedSettings) else placement.engine_gpus,
        pinned=[placement.engine_pinned(number) for number in range(most or placement.engines)],
        timeout_s=plan.engines.request_timeout_s,
        restarts=plan.engines.restarts,
    ) as pool:
        yield pool


@contextmanager
def position_invariant_engines(
    speaker: Speaker, context: SpeakerContext, invariant: bool
) -> Iterator[EnginePool]:
    """Actors that read documents as a set, or with stock attention, ready to answer."""
    plan, section = context.plan, context.plan.engines
    placement = at_once(plan, context.placement, context.alone)
    settings = PositionInvariantSettings(
        model=located(speaker.model),
        name=str(speaker),
        device=placement.device,
        dtype=section.dtype,
        invariant=invariant,
        threads=placement.engine_threads,
        longest=section.max_model_len,
        max_num_seqs=section.max_num_seqs,
        chat_template_kwargs=plan.chat_template_kwargs,
    )
    context.progress.say(f"  starting {placement.engines} engine(s) on {speaker}")
    with engine_pool(plan, placement, settings, str(speaker), None) as pool:
        context.wait_until_ready(pool)
        yield pool
