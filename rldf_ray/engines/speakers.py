"""Who speaks: the models that write topics, debate and referee, each started when first asked for.

Parts with the same model share one set of engines; all of them share the run's journal of calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rldf_ray.cluster.placement import Placement
from rldf_ray.console import Progress
from rldf_ray.engines.pool import EnginePool, engines
from rldf_ray.engines.reward_actor import RewardSettings
from rldf_ray.engines.scripted_actor import ScriptedSettings
from rldf_ray.engines.vllm_actor import EngineSettings
from rldf_ray.models.base import BudgetSpentError, ChatModel, Usage
from rldf_ray.models.journaled import EarlierCalls, JournaledModel
from rldf_ray.models.limits import Budget
from rldf_ray.plan import TRAINED, Part, Plan, Speaker
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder

T = TypeVar("T")


@dataclass(kw_only=True)
class Speakers:
    """The models of a run's parts, and the journal that remembers what they said.

    Attributes:
        weights: which weights the models' names stand for, or where they are, where the names
            may have stood for others.
    """

    plan: Plan
    folder: RunFolder
    placement: Placement
    progress: Progress
    earlier: EarlierCalls | None = None
    weights: str | None = None
    _open: ExitStack = field(default_factory=ExitStack)
    _models: dict[Speaker, JournaledModel] = field(default_factory=dict)
    _journal: Journal | None = None
    _used_before: Usage = field(default_factory=Usage)
    _paid_before: Usage = field(default_factory=Usage)

    def of(self, part: Part) -> JournaledModel:
        """The model that plays `part`."""
        speaker = self.plan.speaker_of(part)
        if speaker not in self._models:
            model = self._open.enter_context(self._started(speaker))
            self._models[speaker] = JournaledModel(model, self.journal, self.earlier, self.weights)
        return self._models[speaker]

    @property
    def journal(self) -> Journal:
        if self._journal is None:
            self._journal = Journal(self.folder.path("journal/calls.jsonl"))
            self._open.callback(self._journal.close)
        return self._journal

    @property
    def usage(self) -> Usage:
        """Tokens of all answers so far, remembered ones included."""
        return sum((model.usage for model in self._models.values()), self._used_before)

    @property
    def paid_usage(self) -> Usage:
        """The part of it that an endpoint charges for."""
        paid = (model.usage for speaker, model in self._models.items() if speaker.paid)
        return sum(paid, self._paid_before)

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Do `work` in an event loop; when the budget ends it, keep what is already paid for."""

        async def whole() -> T:
            try:
                return await work
            except BudgetSpentError:
                for model in self._models.values():
                    await model.settle()
                raise

        return asyncio.run(whole())

    def end(self) -> None:
        """Give their memory back before training begins."""
        self._used_before, self._paid_before = self.usage, self.paid_usage
        self._models.clear()
        self._journal = None
        self._open.close()

    @contextmanager
    def _started(self, speaker: Speaker) -> Iterator[ChatModel]:
        model = speaker.model
        if speaker.backend == "openai":
            from rldf_ray.models.openai_http import OpenAIModel

            yield OpenAIModel(
                model, self.plan.endpoint, Budget.of(self.plan.endpoint, model, self.journal)
            )
            return
        began = time.monotonic()
        with self._engines(speaker) as pool:
            pool.wait_until_ready()
            self.progress.say(f"  engines up in {time.monotonic() - began:.0f} s")
            yield pool

    @contextmanager
    def _engines(self, speaker: Speaker) -> Iterator[EnginePool]:
        if speaker.backend == "vllm":
            dtype, placement = self.plan.engines.dtype, at_once(self.plan, self.placement)
            most = self.plan.engines.max_count
            with policy_engines(
                self.plan, placement, self.progress, speaker.model, "base", dtype, most=most
            ) as pool:
                yield pool
            return
        if speaker.backend == TRAINED:
            with fitted_referee(self.plan, self.placement, self.folder) as pool:
                yield pool
            return
        settings = ScriptedSettings(
            float(speaker.model), max_num_seqs=self.plan.engines.max_num_seqs
        )
        most = self.plan.engines.max_count
        with _pool(self.plan, self.placement, settings, str(speaker), most) as pool:
            yield pool


def at_once(plan: Plan, placement: Placement) -> Placement:
    """`placement` for engines that speak while others do: each computes with its share of cores.

    With more threads than cores, those that wait for work keep the others from theirs: debates of
    the embedded model beside a trained referee took 158 s instead of 119.
    """
    if placement.engine_threads is None:
        return placement
    here = [speaker for speaker in plan.speakers() if speaker.local]
    return replace(placement, engine_threads=max(1, placement.engine_threads // len(here)))


@contextmanager
def fitted_referee(plan: Plan, placement: Placement, folder: RunFolder) -> Iterator[EnginePool]:
    """The reward model in a run's referee/, in an actor where otherwise a training worker is."""
    revision: str = folder.read_json("referee/calibration.json")["revision"]
    settings = RewardSettings(
        folder=folder.address("referee/model"),
        name=str(plan.speaker_of("referee")),
        revision=revision,
        device=placement.device,
        threads=placement.threads,
        max_length=plan.referee.fit.max_length,
        max_num_seqs=plan.engines.max_num_seqs,
    )
    with engines(
        settings,
        # Remembered calls are those of these weights.
        name=f"{settings.name}@{revision}",
        count=1,
        num_cpus=placement.worker_cpus,
        num_gpus=placement.worker_gpus,
        resources=placement.pinned(),
        timeout_s=plan.engines.request_timeout_s,
        restarts=plan.engines.restarts,
    ) as pool:
        yield pool


@contextmanager
def policy_engines(
    plan: Plan,
    placement: Placement,
    progress: Progress,
    folder: str,
    revision: str,
    dtype: str,
    lora_rank: int = 0,
    most: int | None = None,
) -> Iterator[EnginePool]:
    """The plan's vLLM engines on a model folder, which start while other work is done."""
    section = plan.engines
    settings = EngineSettings(
        model=folder,
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
    )
    progress.say(f"  starting {placement.engines} vLLM engine(s) on {folder}")
    with _pool(plan, placement, settings, folder, most) as pool:
        yield pool


@contextmanager
def _pool(
    plan: Plan,
    placement: Placement,
    settings: EngineSettings | ScriptedSettings,
    name: str,
    most: int | None,
) -> Iterator[EnginePool]:
    with engines(
        settings,
        name=name,
        count=placement.engines,
        most=most,
        num_cpus=placement.engine_cpus,
        num_gpus=placement.engine_gpus if isinstance(settings, EngineSettings) else 0,
        resources=placement.pinned(),
        timeout_s=plan.engines.request_timeout_s,
        restarts=plan.engines.restarts,
    ) as pool:
        yield pool
