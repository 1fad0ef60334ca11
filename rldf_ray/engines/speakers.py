"""Who speaks: the models that write topics, debate and referee, each started when first asked for.

Parts with the same model share one set of engines; all of them share the run's journal of calls.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from rldf_ray.cluster.clock import Clock
from rldf_ray.cluster.placement import Placement
from rldf_ray.console import Progress
from rldf_ray.engines.backend import SpeakerContext, backend_of
from rldf_ray.engines.taking_turns import TakingTurns
from rldf_ray.loops import complete
from rldf_ray.models.base import ChatModel, Usage
from rldf_ray.models.journaled import EarlierCalls, JournaledModel, settled
from rldf_ray.models.limits import Budget
from rldf_ray.plan import Speaker
from rldf_ray.plan.engines import EnginesSection
from rldf_ray.plan.speaking import SpeakingPlan
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder

T = TypeVar("T")


@dataclass(kw_only=True)
class Speakers:
    """The models of a run's parts, and the journal that remembers what they said.

    Attributes:
        weights: which weights the models' names stand for, or where they are, where the names
            may have stood for others.
        taking_turns: local models are loaded one at a time.
        clock: counts the waits for their engines.
    """

    plan: SpeakingPlan
    folder: RunFolder
    placement: Placement
    progress: Progress
    earlier: EarlierCalls | None = None
    weights: str | None = None
    taking_turns: bool = False
    clock: Clock = field(default_factory=Clock)
    _turns: TakingTurns | None = None
    _open: ExitStack = field(default_factory=ExitStack)
    _models: dict[Speaker, JournaledModel] = field(default_factory=dict)
    _journal: Journal | None = None
    _budget: Budget | None = None
    _used_before: Usage = field(default_factory=Usage)
    _paid_before: Usage = field(default_factory=Usage)

    def of(self, part: str) -> JournaledModel:
        """The model that plays `part`, as the plan names it."""
        speaker = self.plan.speaker_of(part)
        if speaker not in self._models:
            if self.taking_turns and speaker.local:
                model = self._in_turn().model(speaker)
            else:
                model = self._open.enter_context(self._start(speaker))
            self._models[speaker] = JournaledModel(
                model,
                self.journal,
                self.earlier,
                self.weights or self._address(speaker),
                once_by_name=self.weights is None and speaker.paid,
                request_fields=self.plan.request_fields(speaker),
            )
        return self._models[speaker]

    def _address(self, speaker: Speaker) -> str | None:
        """What tells a model from others of its name in a copied journal."""
        if speaker.paid:
            return self.plan.endpoint.base_url
        dtype = self.plan.engines.dtype
        return dtype if speaker.on_engines and dtype != EnginesSection().dtype else None

    def _in_turn(self) -> TakingTurns:
        if self._turns is None:
            self._turns = TakingTurns(self._start)
            self._open.callback(self._turns.close)
        return self._turns

    def _start(self, speaker: Speaker) -> AbstractContextManager[ChatModel]:
        context = SpeakerContext(
            plan=self.plan,
            folder=self.folder,
            placement=self.placement,
            progress=self.progress,
            journal=self.journal,
            budget=self.budget,
            alone=self.taking_turns,
            clock=self.clock,
        )
        return backend_of(speaker).start(speaker, context)

    @property
    def journal(self) -> Journal:
        if self._journal is None:
            self._journal = Journal(self.folder.path("journal/calls.jsonl"))
            self._open.callback(self._journal.close)
        return self._journal

    @property
    def budget(self) -> Budget:
        """What all the models at the endpoint may still spend together."""
        if self._budget is None:
            paid = {speaker.model for speaker in self.plan.speakers() if speaker.paid}
            self._budget = Budget.of(self.plan.endpoint, paid, self.journal)
        return self._budget

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
        return complete(settled(work, self._models.values()))

    def end(self) -> None:
        """Give their memory back before training begins."""
        self._used_before, self._paid_before = self.usage, self.paid_usage
        self._models.clear()
        self._journal = None
        self._turns = None
        self._open.close()
