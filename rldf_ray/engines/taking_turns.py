"""Models that do not fit into memory together: one is loaded, requests to the others wait.

    requests to A, B, A, C ... --> A loaded: all to A, and what its replies lead to
                               --> nobody asks A any more: A ends, the one most waited for starts

Thousands of dialogues wait at once, so a model that is loaded has the requests of all of them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from rldf_ray.models.base import ChatModel, ChatRequest, Completion
from rldf_ray.plan.speaker import Speaker

SETTLE_S = 0.05
"""For dialogues to ask on after a reply; whoever takes longer waits for the model's next turn."""

Start = Callable[[Speaker], AbstractContextManager[ChatModel]]


class TakingTurns:
    """Starts and ends models so that one at most is loaded.

    Args:
        start: loads a model for as long as its block lasts.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._open = ExitStack()
        self._loaded: Speaker | None = None
        self._model: ChatModel | None = None
        self._busy = 0
        self._waiting: dict[Speaker, list[asyncio.Future[None]]] = defaultdict(list)
        self._switching: asyncio.Task[None] | None = None
        self.starts = 0

    def model(self, speaker: Speaker) -> ChatModel:
        """The model of a speaker, which is loaded when its turn comes."""
        return _InTurn(self, speaker)

    def close(self) -> None:
        """End whatever is loaded."""
        self._loaded, self._model = None, None
        self._open.close()

    async def complete(self, speaker: Speaker, request: ChatRequest) -> tuple[Completion, ...]:
        """The reply of a speaker, once it is loaded.

        Raises:
            ModelError: it could not be started, or could not answer.
        """
        if speaker == self._loaded:
            self._busy += 1
        else:
            turn = asyncio.get_running_loop().create_future()
            self._waiting[speaker].append(turn)
            self._see_to()
            await self._granted(turn)
        try:
            assert self._model is not None
            return await self._model.complete(request)
        finally:
            self._busy -= 1
            self._see_to()

    async def _granted(self, turn: asyncio.Future[None]) -> None:
        """Wait for a turn; whoever grants it counts the request as under way."""
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Granted, but its dialogue has ended since.
                self._busy -= 1
                self._see_to()
            raise

    def _see_to(self) -> None:
        if not self._busy and self._switching is None and any(self._waiting.values()):
            self._switching = asyncio.get_running_loop().create_task(self._switch())

    async def _switch(self) -> None:
        try:
            await asyncio.sleep(SETTLE_S)
            waited_for = {speaker: self._still_waiting(speaker) for speaker in self._waiting}
            if self._busy or not any(waited_for.values()):
                return
            speaker = max(waited_for, key=lambda one: len(waited_for[one]))
            self._loaded = None
            try:
                self._model = await asyncio.to_thread(self._exchange, speaker)
            except Exception as error:  # noqa: BLE001 (whoever waits is handed it)
                for turn in self._still_waiting(speaker):
                    turn.set_exception(error)
                return
            self._loaded = speaker
            for turn in self._still_waiting(speaker):
                self._busy += 1
                turn.set_result(None)
            self._waiting.pop(speaker)
        finally:
            self._switching = None
            self._see_to()

    def _still_waiting(self, speaker: Speaker) -> list[asyncio.Future[None]]:
        """Those who have not been cancelled meanwhile."""
        turns = [turn for turn in self._waiting[speaker] if not turn.done()]
        self._waiting[speaker] = turns
        return turns

    def _exchange(self, speaker: Speaker) -> ChatModel:
        self._open.close()
        self.starts += 1
        return self._open.enter_context(self._start(speaker))


@dataclass(frozen=True)
class _InTurn:
    turns: TakingTurns
    speaker: Speaker

    @property
    def name(self) -> str:
        """As engines call a model, so that remembered calls are those of either way to run."""
        return self.speaker.name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        return await self.turns.complete(self.speaker, request)
