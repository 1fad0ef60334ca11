"""`rldf serve`: start Ray and Serve, deploy, wait until every model answers, and end gracefully."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rldf_ray.apps.serve.port import held_port
from rldf_ray.apps.serve.settings import Settings, SettingsError, check_address
from rldf_ray.cluster.address import joined_address
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.errors import UserError
from rldf_ray.search.backend import opened

START_DEADLINE_S = 900.0
Say = Callable[[str], None]


class ServingError(UserError):
    """The server did not come up; the message says what was missing."""


@contextlib.contextmanager
def serving(settings: Settings, say: Say = lambda text: None) -> Iterator[str]:
    """The server, for as long as the block lasts; yields its address once all models answer.

    Raises:
        SettingsError: it would be open to others without keys, or texts of `corpora` cannot be
            searched.
        PortTakenError: another program listens there.
        ServingError: a model did not come up, or the cluster serves something already.
    """
    check_address(settings.host, settings.keys)
    check_corpora(settings)
    with (
        _port(settings) as port,
        tempfile.TemporaryDirectory(prefix="rldf-serve-") as scratch,
        _cluster(Path(scratch)),
    ):
        from ray import serve

        from rldf_ray.apps.serve.app import build
        from rldf_ray.apps.serve.proxy import controller_options

        _check_alone()
        http = {"host": settings.host, "port": port}
        serve.start(
            proxy_location="HeadOnly",
            http_options=http,
            controller_options=controller_options(),
        )
        try:
            args = settings.model_dump(mode="json")
            serve.run(build(args), name=settings.name, route_prefix="/")
            say("the API is up; starting " + ", ".join(settings.models))
            _wait_until_ready(settings)
            yield f"http://{_named(settings.host)}:{port}"
        finally:
            _drain(settings, say)
            serve.shutdown()


def check_corpora(settings: Settings) -> None:
    """Open all texts that may be searched; folders are indexed now, and not in a request.

    Raises:
        SettingsError: they cannot be searched; names them, and says why.
    """
    for name, where in settings.corpora.items():
        try:
            opened(f"local:{where}")
        except UserError as error:
            raise SettingsError(f"corpora.{name}: {error}") from error


def _port(settings: Settings) -> contextlib.AbstractContextManager[int]:
    """The port to listen on; on a cluster that is joined, its head listens, which may be elsewhere.

    Raises:
        PortTakenError: it is not to be had.
    """
    if joined_address() is not None and settings.port:
        return contextlib.nullcontext(settings.port)
    return held_port(settings.host, settings.port)


def _check_alone() -> None:
    """Serve has one proxy and ends as a whole: what it serves already would be replaced and ended.

    Raises:
        ServingError: the cluster that was joined serves something.
    """
    from ray import serve

    found = serve.status()
    if found.proxies or found.applications:
        names = ", ".join(found.applications) or "nothing yet"
        raise ServingError(
            f"the cluster that RAY_ADDRESS names runs Ray Serve already (it serves {names}): add "
            "to it with `rldf serve config` and `serve deploy`, or end it with `serve shutdown`"
        )


@contextlib.contextmanager
def _cluster(scratch: Path) -> Iterator[None]:
    """Ray, with Serve's controller at a slower pace."""
    # Serve's controller looks ten times a second by default, 2 % of a core for as long as it runs.
    os.environ.setdefault("RAY_SERVE_CONTROL_LOOP_INTERVAL_S", "0.5")
    with ray_cluster(scratch):
        yield


def serve_until_stopped(settings: Settings, say: Say) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are finished first."""
    stopped = threading.Event()
    with serving(settings, say) as address:
        # Only now: before, a signal ends the start at once.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())
        say(f"page   {address}/")
        say(f"API    {address}/v1   (models: {', '.join(settings.models)})")
        while not stopped.wait(0.5):
            pass
        say("stopping: requests under way are finished first")


def _wait_until_ready(settings: Settings) -> None:
    """Every engine answers; ends early where Serve says that one cannot start."""
    import ray
    from ray import serve

    from rldf_ray.apps.serve.handles import engine_app_name
    from rldf_ray.apps.serve.routes import Routes

    routes = Routes(settings)
    deadline = time.monotonic() + START_DEADLINE_S
    waiting = list(routes.wanted())
    while waiting:
        status = serve.status().applications
        for name in list(waiting):
            found = status.get(engine_app_name(settings, name))
            if found is not None and found.status == "RUNNING":
                waiting.remove(name)
            elif found is not None and found.status in ("DEPLOY_FAILED", "UNHEALTHY"):
                raise ServingError(f"{name} did not start: {_reason(found)}")
        if time.monotonic() > deadline:
            raise ServingError(
                f"{', '.join(waiting)} not up after {START_DEADLINE_S:.0f} s: Ray has "
                f"{ray.available_resources()} left; lower engine.cpus or serve fewer models"
            )
        time.sleep(0.5)


def _reason(application: Any) -> str:
    """The last line that says something."""
    texts = [application.message, *(d.message for d in application.deployments.values())]
    lines = [line for text in texts for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def _drain(settings: Settings, say: Say) -> None:
    """Let nothing in, and wait for what is under way: `drain_s` at most."""
    from ray import serve

    deadline = time.monotonic() + settings.drain_s
    with contextlib.suppress(Exception):
        handle = serve.get_app_handle(settings.name)
        while (left := _under_way(settings, handle)) and time.monotonic() < deadline:
            time.sleep(0.2)
        if left:
            say(f"{left} requests were cut off after {settings.drain_s:g} s")


def _under_way(settings: Settings, handle: Any) -> int:
    """Told to every API replica: several calls, as each goes to any one of them."""
    calls = 1 if settings.api_replicas == 1 else 4 * settings.api_replicas
    found: list[int] = [handle.drain.remote().result(timeout_s=5) for _ in range(calls)]
    return max(found)


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host else host
