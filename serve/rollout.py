"""Starts the engines that the settings and the store's pointer ask for, and ends the others.

A rollout is a change of the pointer (`rldf serve rollout`). This deployment sees it, starts the
new version's engine beside the old one, and ends an engine once no request is sent to it any more;
Serve lets it finish what it has begun.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from ray import serve

from rldf_ray.apps.serve.engine_apps import engine_application
from rldf_ray.apps.serve.engines import Routes
from rldf_ray.apps.serve.handles import engine_app_name
from rldf_ray.apps.serve.settings import read_settings

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
        self._running: set[str] = set()
        self._routes = Routes(self._settings, lambda engine: self._app(engine) in self._running)
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
        wanted, now = self._routes.wanted(), time.monotonic()
        settled = wanted.keys() == self._wanted_at.keys()
        self._wanted_at |= dict.fromkeys(wanted, now)
        if settled and self._running >= set(map(self._app, wanted)) and now < self._ask_at:
            return
        self._ask_at = now + ASK_EVERY_S
        applications = serve.status().applications
        self._running = {n for n, found in applications.items() if found.status == "RUNNING"}
        missing = [name for name in wanted if self._app(name) not in applications]
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

    def _target(self, name: str, folder: str) -> serve.RunTarget:
        application = engine_application(self._settings, name, folder)
        return serve.RunTarget(application, name=self._app(name), route_prefix=None)

    def _app(self, name: str) -> str:
        return engine_app_name(self._settings, name)
