"""Which engine answers for a model: follows the store's pointer, a look a second."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from rldf_ray.apps.serve.engines import Adapter, EngineGoneError, Target, UnknownModelError
from rldf_ray.apps.serve.settings import Settings
from rldf_ray.apps.serve.store import ModelStore, StoreError, Traffic

LOOK_EVERY_S = 1.0

log = logging.getLogger("rldf.serve")


@dataclass
class Routes:
    """The engines of every model, by the settings and the store's pointer.

    Attributes:
        up: whether an engine can answer. Of several versions one that can is chosen; of a single
            one, requests wait.
    """

    settings: Settings
    up: Callable[[str], bool] = lambda engine: True
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = lambda: random.uniform(0, 100)
    _seen: dict[str, tuple[float, Traffic]] = field(default_factory=dict)

    def target(self, model: str | None) -> Target:
        """Where a request that names `model` goes now.

        Raises:
            UnknownModelError: no such model.
            EngineGoneError: nothing of it is published yet.
        """
        name = model or self.settings.default_model
        source = self.settings.models.get(name)
        if source is None:
            known = ", ".join(self.settings.models)
            raise UnknownModelError(f"the model {name!r} does not exist; there are: {known}")
        version = ""
        if source.store:
            traffic = self.traffic(name)
            if traffic is None:
                raise EngineGoneError(f"no version of {name} has been published yet")
            version = self._able(name, traffic)
        joined = _joined(name, version)
        if source.on is None:
            return Target(name, version, joined)
        folder = source.folder or str(self._store(name).folder(version))
        carrier = self.target(source.on).engine
        return Target(name, version, carrier, Adapter(joined, folder))

    def _able(self, name: str, traffic: Traffic) -> str:
        drawn = traffic.version(self.draw())
        able = (v for v in (drawn, *traffic.versions) if self.up(_joined(name, v)))
        return next(able, drawn)

    def stays(self, target: Target) -> bool:
        """Whether more requests may go where one went.

        Not once its version has been replaced, nor while its engine is down and another is up.
        """
        source = self.settings.models[target.model]
        if source.store and source.on is not None:
            own = self.traffic(target.model)
            if own is not None and target.version not in (own.current, own.next):
                return False
        name = source.on or target.model
        traffic = self.traffic(name) if self.settings.models[name].store else None
        if traffic is None:
            return True
        answering = [_joined(name, version) for version in self._answering(name, traffic)]
        return target.engine in ([e for e in answering if self.up(e)] or answering)

    def traffic(self, name: str) -> Traffic | None:
        """The versions of a model from the store; as they were, while it cannot be read.

        Raises:
            StoreError: it could not be read even once.
        """
        now = self.clock()
        seen = self._seen.get(name)
        if seen is not None and now - seen[0] < LOOK_EVERY_S:
            return seen[1]
        try:
            found = self._store(name).traffic()
        except StoreError as error:
            if seen is None:
                raise
            log.error("the versions of %s stay as they are: %s", name, error)
            found = seen[1]
        if found is not None:
            self._seen[name] = (now, found)
        return found

    def engines(self, name: str) -> dict[str, str]:
        """Engines that may answer for a model, each with the folder it serves."""
        source = self.settings.models[name]
        if source.on is not None:
            return self.engines(source.on)
        if not source.store:
            return {name: source.folder or ""}
        traffic, store = self.traffic(name), self._store(name)
        if traffic is None:
            return {}
        versions = self._answering(name, traffic)
        if traffic.before:
            there = set(store.versions())
            versions = [v for v in versions if v in there or v not in traffic.before]
        return {_joined(name, version): str(store.folder(version)) for version in versions}

    def _answering(self, name: str, traffic: Traffic) -> list[str]:
        """Versions that may answer; what was current before may while the current one is not up."""
        asked = [traffic.current, *([traffic.next] if traffic.next else ())]
        return asked if self.up(_joined(name, traffic.current)) else [*asked, *traffic.before]

    def wanted(self, there: Collection[str] = ()) -> dict[str, str]:
        """Engines that have to run, each with the folder it serves.

        What was current before is not started again for that. Of those engines of it that are
        `there`, the last one that is up is wanted until the current one is; where none is up, all
        are, as one may be on its way back.
        """
        found: dict[str, str] = {}
        for name, source in self.settings.models.items():
            if source.on is None:
                found |= self._wanted_for(name, there)
        return found

    def _wanted_for(self, name: str, there: Collection[str]) -> dict[str, str]:
        engines = self.engines(name)
        traffic = self._seen[name][1] if name in self._seen else None
        before = [] if traffic is None else [_joined(name, v) for v in traffic.before]
        left = [engine for engine in before if engine in engines and engine in there]
        kept = [engine for engine in left if self.up(engine)][:1] or left
        return {e: folder for e, folder in engines.items() if e not in before or e in kept}

    def _store(self, name: str) -> ModelStore:
        assert self.settings.store is not None
        return ModelStore(Path(self.settings.store), name)


def _joined(name: str, version: str) -> str:
    return f"{name}.{version}" if version else name
