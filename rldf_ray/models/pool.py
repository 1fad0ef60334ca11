"""vLLM engines on a Ray cluster behind the one `ChatModel` interface.

debates --> EnginePool --(affinity by debate, spill when full)--> VllmActor 0..n-1
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from rldf_ray.models.base import ChatRequest, Completion, ModelError
from rldf_ray.models.vllm_actor import EngineSettings, VllmActor

START_DEADLINE_S = 900.0
SYNC_DEADLINE_S = 300.0


class EnginePool:
    """Sends each request to one of several engines.

    Requests of the same affinity (a debate) stay on one engine, whose prefix cache holds their
    shared beginning, unless that engine has `max_in_flight` requests and another one has room.
    """

    def __init__(
        self, actors: Sequence[Any], name: str, max_in_flight: int, timeout_s: float
    ) -> None:
        self._actors = list(actors)
        self._in_flight = [0] * len(actors)
        self._name = name
        self._max_in_flight = max_in_flight
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        engine = self._pick(request.affinity or request.address)
        self._in_flight[engine] += 1
        try:
            return await asyncio.wait_for(
                _reply(self._actors[engine].complete.remote(request)), self._timeout_s
            )
        except TimeoutError:
            raise ModelError(
                f"engine {engine} of {self._name} gave no answer in {self._timeout_s:g} s "
                "(engines.request_timeout_s); its log is in the run's logs folder"
            ) from None
        except RayActorError as error:
            raise ModelError(_died(engine, self._name)) from error
        except RayTaskError as error:
            raise _cause(error, self._name) from None
        finally:
            self._in_flight[engine] -= 1

    def wait_until_ready(self) -> None:
        """Returns when every engine answers.

        Raises:
            ModelError: an engine did not start; the message has the engine's own reason.
        """
        try:
            ray.get([actor.ready.remote() for actor in self._actors], timeout=START_DEADLINE_S)
        except GetTimeoutError:
            raise ModelError(
                f"the engines of {self._name} did not start in {START_DEADLINE_S:g} s: Ray may "
                "have no room for them; `rldf doctor PLAN` says what fits"
            ) from None
        except RayActorError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ModelError(
                f"an engine of {self._name} did not start: {reason}; the run's logs folder has "
                "its log"
            ) from error

    def sync_weights(self, folder: str, revision: str) -> None:
        """Load new weights into every engine; returns when all of them answer with `revision`.

        Raises:
            ModelError: an engine died or did not load them in time.
        """
        self._sync([actor.sync_weights.remote(folder, revision) for actor in self._actors])

    def sync_adapter(self, folder: str, revision: str) -> None:
        """Like `sync_weights`, with a LoRA adapter on the weights the engines started with."""
        self._sync([actor.sync_adapter.remote(folder, revision) for actor in self._actors])

    def _sync(self, loading: Sequence[Any]) -> None:
        try:
            ray.get(loading, timeout=SYNC_DEADLINE_S)
        except GetTimeoutError:
            raise ModelError(
                f"an engine of {self._name} did not load new weights in {SYNC_DEADLINE_S:g} s"
            ) from None
        except RayActorError as error:
            raise ModelError(f"an engine of {self._name} died during weight sync") from error

    def _pick(self, affinity: str) -> int:
        home = zlib.crc32(affinity.encode()) % len(self._actors)
        if self._in_flight[home] < self._max_in_flight:
            return home
        return min(range(len(self._actors)), key=lambda i: (self._in_flight[i], i != home))


@contextmanager
def engines(
    settings: EngineSettings,
    *,
    name: str,
    count: int,
    num_cpus: float,
    num_gpus: float,
    timeout_s: float,
) -> Iterator[EnginePool]:
    """Begin to start `count` engines, hand them out as one pool, and end them.

    The pool is there at once: other work can be done before `wait_until_ready`.

    Args:
        num_cpus, num_gpus: what Ray reserves for each engine.
        timeout_s: limit of one request.
    """
    actor_class = ray.remote(VllmActor)
    actors = [
        actor_class.options(num_cpus=num_cpus, num_gpus=num_gpus, max_concurrency=1000).remote(
            settings
        )
        for _ in range(count)
    ]
    try:
        yield EnginePool(actors, name, settings.max_num_seqs, timeout_s)
    finally:
        _end(actors)


def _end(actors: Sequence[Any]) -> None:
    """Close the engines in order, so that their memory is free when this returns."""
    try:
        ray.get([actor.close.remote() for actor in actors], timeout=30)
    except (RayActorError, RayTaskError, GetTimeoutError):
        pass  # dead or hung: killed below either way
    for actor in actors:
        ray.kill(actor)


async def _reply(reference: Any) -> tuple[Completion, ...]:
    reply: tuple[Completion, ...] = await reference
    return reply


def _died(engine: int, name: str) -> str:
    return (
        f"engine {engine} of {name} died (killed, or out of memory); its log is in the run's logs "
        "folder, and the same command continues from what was finished"
    )


def _cause(error: RayTaskError, name: str) -> ModelError:
    cause = error.cause
    if isinstance(cause, ModelError):
        return cause
    return ModelError(f"an engine of {name} failed: {type(cause).__name__}: {cause}")
