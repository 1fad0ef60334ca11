"""What methods say before they answer: all scenes at once, its seconds, and what was cut off."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.thinking import Scene, Thinker, Thought
from rldf_ray.models.base import ChatModel, ChatRequest, Completion
from rldf_ray.plan import Plan
from rldf_ray.storage.journal import Journal


class Stopwatch:
    """Seconds that something has taken in all its starts, as the journal knows them.

    Args:
        name: of what is timed; one address in the journal.
    """

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal, self._address = journal, f"{name}/seconds"
        written = journal.get(self._address)
        self._before: float = 0.0 if written is None else written["seconds"]
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(self._before + time.monotonic() - self._began, 1)

    def write(self) -> None:
        """What has passed until now is not lost with the process."""
        self._journal.append(self._address, {"seconds": self.seconds})


class CutOffs:
    """`model`, counting its replies and those that a limit of tokens ended."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.replies = 0
        self.cut_off = 0

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        samples = await self._model.complete(request)
        self.replies += len(samples)
        self.cut_off += sum(sample.finish_reason == "length" for sample in samples)
        return samples

    def numbers(self) -> dict[str, int]:
        """For JSON."""
        return {"replies": self.replies, "cut_off": self.cut_off}


def counts_of(thoughts: Iterable[Thought]) -> dict[str, int]:
    """What happened on the way to them, added up."""
    counts: Counter[str] = Counter()
    for thought in thoughts:
        counts.update(thought.counts)
    return dict(counts)


async def think_all(
    method_run: MethodRun,
    model: ChatModel,
    plan: Plan,
    scenes: Sequence[Scene],
    on_thought: Callable[[], None] = lambda: None,
) -> list[Thought]:
    """A method's reasoning about every scene, in the order of the scenes."""
    think = method_run.method.think
    assert think is not None
    name = method_run.method.begins_as or method_run.method.name
    thinker = Thinker(model, plan, f"{name}-{method_run.repeat}", method_run.seed)

    async def one(scene: Scene) -> Thought:
        thought = await think(thinker, scene)
        on_thought()
        return thought

    return list(await asyncio.gather(*map(one, scenes)))
