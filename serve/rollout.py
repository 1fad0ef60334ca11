"""Starts the engines that the settings and the store's pointer ask for, and ends the others.

A rollout is a change of the pointer (`rldf serve rollout`). This deployment sees it, starts the
new version's engine beside the old one, and ends the old one once the new one has come up and no
request is sent to the old one any more; Serve lets it finish what it has begun. A version that was
current before is never started again for that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from ray import serve

from rldf_ray.apps.serve.engine_apps import engine_application
from rldf_ray.apps.serve.handles import engine_app_name
from rldf_ray.apps.serve.routes import Routes
from rldf_ray.apps.serve.settings import read_settings
from rldf_ray.apps.serve.store import VERSION

LOOK_EVERY_S = 1.0
# Asking Serve takes far longer than reading the pointer; while all is as wanted it is asked seldom.
ASK_EVERY_S = 10.0
# Every API replica looks at the pointer once a second; by then none sends requests here.
KEEP_S = 5.0

log = logging.getLogger("ray.serve")


class Rollouts:
    """One replica of it keeps the engines as they should be."""

    def __init__(self, args: dict[str, Any]) -> None:
        self._settings = read_settings(args)
        # Engines as Serve had them when it was last asked, each with its status.
        self._found: dict[str, str] = {}
        self._routes = Routes(self._settings, lambda engine: self._found.get(engine) == "RUNNING")
        self._wanted_at: dict[str, float] = {}
        self._ask_at = 0.0
        self._task = asyncio.get_event_loop().create_task(self._watch())

    async def check_health(self) -> None:
        if self._task.done():
            raise RuntimeError("the engines are no longer watched")

    async def _watch(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._look)
            except Exception:
                log.exception("looking after the engines failed; trying again")
            await asyncio.sleep(LOOK_EVERY_S)

    def _look(self) -> None:
        if self._as_wanted() and time.monotonic() < self._ask_at:
            return
        self._ask_at = time.monotonic() + ASK_EVERY_S
        self._ask()
        wanted = self._wanted()
        missing = [name for name in wanted if name not in self._found]
        if missing:
            log.info("starting %s", ", ".join(missing))
            serve.run_many(
                [self._target(name, wanted[name]) for name in missing],
                wait_for_ingress_deployment_creation=False,
                wait_for_applications_running=False,
            )
        for name, last_wanted in list(self._wanted_at.items()):
            if time.monotonic() - last_wanted > KEEP_S:
                log.info("ending %s", name)
                serve.delete(self._app(name), _blocking=False)
                del self._wanted_at[name]
                self._found.pop(name, None)

    def _as_wanted(self) -> bool:
        """Whether all that is wanted ran when Serve was last asked, and nothing else is to end."""
        wanted = self._wanted()
        running = all(self._found.get(name) == "RUNNING" for name in wanted)
        return running and wanted.keys() == self._wanted_at.keys()

    def _wanted(self) -> dict[str, str]:
        wanted = self._routes.wanted(self._there())
        self._wanted_at |= dict.fromkeys(wanted, time.monotonic())
        return wanted

    def _there(self) -> set[str]:
        return {name for name, status in self._found.items() if status != "DELETING"}

    def _ask(self) -> None:
        applications, begins = serve.status().applications, self._app("")
        self._found = {
            app.removeprefix(begins): found.status
            for app, found in applications.items()
            if app.startswith(begins)
        }
        # What a replica of this that has died had started is ended like what this one did.
        for name in filter(self._is_version, self._there()):
            self._wanted_at.setdefault(name, time.monotonic())

    def _is_version(self, engine: str) -> bool:
        name, _, version = engine.rpartition(".")
        source = self._settings.models.get(name)
        own = source is not None and source.store and source.on is None
        return own and VERSION.fullmatch(version) is not None

    def _target(self, name: str, folder: str) -> serve.RunTarget:
        application = engine_application(self._settings, name, folder)
        return serve.RunTarget(application, name=self._app(name), route_prefix=None)

    def _app(self, name: str) -> str:
        return engine_app_name(self._settings, name)
