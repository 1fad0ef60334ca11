"""One application, however it is deployed: `rldf serve`, `serve run`, `serve deploy`; and scaling.

Ray is started by the test, on loopback and on free ports; the engines are scripted.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import yaml

from benchmarks.running_server import CHECKOUT, running
from rldf_ray.cluster.ray_cluster import RAY_TOO_SLOW, STARTS

pytestmark = pytest.mark.cluster

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}], "seed": 3}
DEADLINE_S = 900
SETTINGS = (
    "engine.kind=scripted", "engine.scripted_delay_s=0.1", "engine.cpus=0.1", "api_replicas=2",
    "engine.max_replicas=3", "engine.target_ongoing=2",
    "engine.upscale_delay_s=1", "engine.downscale_delay_s=1", "engine.prefix_routing=true",
)  # fmt: skip
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
    "PYTHONPATH": str(CHECKOUT),
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # By default loads are told every ten seconds.
    "RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
}
T = TypeVar("T")


def free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return found


def eventually(look: Callable[[], T | None], what: str, deadline_s: float = DEADLINE_S) -> T:
    """What `look` finds once it finds something; it may fail until then."""
    deadline, last = time.monotonic() + deadline_s, "nothing"
    while time.monotonic() < deadline:
        try:
            found = look()
            if found is not None:
                return found
        except (OSError, httpx.HTTPError, LookupError, ValueError) as error:
            last = repr(error)
        time.sleep(0.2)
    raise AssertionError(f"{what} did not come about in {deadline_s:g} s; last: {last}")


def started(command: Sequence[str], log: Path, look: Callable[[], bool | None]) -> Any:
    """The program of a command, once `look` finds it up.

    Ray gives its own processes thirty seconds to come up: where that was not enough, it is started
    again.
    """
    for _ in range(STARTS):
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=file,
                env=ENVIRONMENT, cwd=CHECKOUT, start_new_session=True,
            )  # fmt: skip

        def up(process: subprocess.Popen[Any] = process) -> str | None:
            return "ended" if process.poll() is not None else look() and "up"

        if eventually(up, " ".join(command)) == "up":
            return process
        if RAY_TOO_SLOW not in log.read_text("utf-8"):
            break
    raise AssertionError(log.read_text("utf-8")[-3000:])


def ended(process: subprocess.Popen[Any], by: signal.Signals) -> None:
    process.send_signal(by)
    try:
        process.wait(300)
    finally:
        process.kill()


def program(name: str) -> str:
    """A program of this environment."""
    return str(Path(sys.executable).with_name(name))


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Serve config file of a model, as `rldf serve config` prints it."""
    folder = tmp_path_factory.mktemp("application")
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text("{}", encoding="utf-8")
    changes = [word for setting in SETTINGS for word in ("--set", setting)]
    changes += ["--set", f"port={free_ports(1)[0]}"]
    call = [sys.executable, "-c", "from rldf_ray.cli import main; main()", "serve", "config"]
    printed = subprocess.run(
        [*call, str(folder / "model"), *changes],
        check=True, capture_output=True, text=True, env=ENVIRONMENT, cwd=CHECKOUT,
    )  # fmt: skip
    path = folder / "application.yaml"
    path.write_text(printed.stdout, encoding="utf-8")
    return path


def address_in(application: Path) -> str:
    return f"http://127.0.0.1:{yaml.safe_load(application.read_text(encoding='utf-8'))['http_options']['port']}"


def answers(url: str) -> bool | None:
    return httpx.get(url, timeout=600).status_code == 200 or None


def face(address: str) -> dict[str, Any]:
    """What a client sees of a server, once it is ready."""
    with httpx.Client(base_url=address, timeout=600) as client:
        eventually(lambda: answers(f"{address}/ready"), f"{address}/ready")
        found = client.post(CHAT, json=HELLO).json()
        return {
            "description": client.get("/openapi.json").json(),
            "about": client.get("/v1/about").json(),
            "models": client.get("/v1/models").json(),
            "answer": (found["model"], found["choices"], found["usage"]),
            "streamed": client.post(CHAT, json={**HELLO, "stream": True}).text.count("data: "),
            "wrong": client.post(CHAT, json={**HELLO, "model": "other"}).json(),
            # What has no text is routed by its prefix as well.
            "scored": client.post("/v1/completions", json={"prompt": [1, 2]}).status_code,
            "refused": client.post("/detokenize", json={"tokens": [1]}).json(),
            "long": client.get("/", headers={"x-long": "a" * 40_000}).json(),
        }


@pytest.fixture(scope="module")
def expected(application: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `rldf serve` of the same file shows."""
    with running(str(application), log=tmp_path_factory.mktemp("log") / "serve.txt") as server:
        return face(server.address)


def test_serve_run_gives_what_rldf_serve_gives(
    application: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    command = [program("serve"), "run", "--address", "local", str(application)]
    address = address_in(application)
    process = started(command, tmp_path / "run.txt", lambda: answers(f"{address}/ready"))
    try:
        assert face(address) == expected
    finally:
        ended(process, signal.SIGTERM)


@dataclass
class Head:
    """A node of Ray, started by `ray start --head`."""

    dashboard: str

    def deploy(self, application: Path) -> None:
        """`serve deploy`, as it is typed."""
        command = [program("serve"), "deploy", "--address", self.dashboard, str(application)]
        subprocess.run(command, check=True, env=ENVIRONMENT, cwd=CHECKOUT, timeout=DEADLINE_S)

    def replicas(self, app: str, deployment: str) -> int:
        """Replicas that are up, as Serve tells."""
        details = httpx.get(f"{self.dashboard}/api/serve/applications/", timeout=120).json()
        found = details["applications"][app]["deployments"][deployment]["replicas"]
        return sum(replica["state"] == "RUNNING" for replica in found)


@pytest.fixture(scope="module")
def head(application: Path) -> Iterator[Head]:
    """A node with the application deployed on it."""
    names = ("port", "dashboard-port", "dashboard-agent-listen-port", "ray-client-server-port")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    # Its sockets lie there, whose paths have to be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        command = [program("ray"), "start", "--head", "--block", "--node-ip-address", "127.0.0.1"]
        command += [f"--{name}={port}" for name, port in ports.items()]
        command += [f"--temp-dir={folder}", "--num-cpus=2", "--object-store-memory=200000000"]
        dashboard = f"http://127.0.0.1:{ports['dashboard-port']}"
        applications = f"{dashboard}/api/serve/applications/"
        process = started(command, Path(folder, "ray.txt"), lambda: answers(applications))
        try:
            found = Head(dashboard)
            found.deploy(application)
            yield found
        finally:
            ended(process, signal.SIGTERM)


@contextmanager
def load(address: str, at_once: int) -> Iterator[list[int]]:
    """Requests under way for as long as the block lasts; yields their statuses as they come."""
    stop, statuses = threading.Event(), list[int]()

    def ask() -> None:
        with httpx.Client(base_url=address, timeout=600) as client:
            while not stop.is_set():
                statuses.append(client.post(CHAT, json=HELLO).status_code)

    askers = [threading.Thread(target=ask) for _ in range(at_once)]
    for asker in askers:
        asker.start()
    try:
        yield statuses
    finally:
        stop.set()
        for asker in askers:
            asker.join()


def test_engines_are_added_under_load_and_ended_after_it(head: Head, application: Path) -> None:
    def replicas_are(number: int) -> Callable[[], bool | None]:
        return lambda: head.replicas("rldf-policy", "engine") == number or None

    eventually(replicas_are(1), "one engine")
    with load(address_in(application), at_once=12) as statuses:
        eventually(replicas_are(3), "three engines under load")
        already = len(statuses)
        eventually(lambda: len(statuses) > already + 24 or None, "answers of three engines")
    eventually(replicas_are(1), "one engine after the load")
    assert set(statuses) == {200}


def test_deploying_again_under_load_fails_no_request(head: Head, application: Path) -> None:
    with load(address_in(application), at_once=4) as statuses:
        eventually(lambda: len(statuses) > 4 or None, "answers before")
        head.deploy(application)
        already = len(statuses)
        eventually(lambda: len(statuses) > already + 12 or None, "answers after")
    assert set(statuses) == {200}
