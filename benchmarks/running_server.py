"""`rldf serve` in a process of its own, for benchmarks and for tests that need the real thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

CHECKOUT = Path(__file__).parents[1]
# Ray gives its own processes thirty seconds, which a busy machine may exceed.
RAY_TOO_SLOW = "The current node timed out during startup"
STARTS = 3


@dataclass
class Running:
    address: str
    process: subprocess.Popen[str]
    log: Path

    def replica(self, app: str, deadline_s: float = 600) -> psutil.Process:
        """The process of an application's replica; ask before the load begins."""
        return self.named(f"ray::ServeReplica:{app}:", deadline_s)

    def named(self, title: str, deadline_s: float = 600) -> psutil.Process:
        """The process of the server with `title` in its title.

        Ray writes the method that runs into a process's title at every call, so a title read
        while the replica is busy may be half written, and a process may end while it is looked at.
        """
        deadline = time.monotonic() + deadline_s
        titles: list[str] = []
        while time.monotonic() < deadline:
            titles = []
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    titles.append(" ".join(child.cmdline()))
                    if title in titles[-1]:
                        return child
            time.sleep(0.1)
        raise LookupError(f"no process {title} among {[found[:80] for found in titles]}")

    def stop(self, timeout_s: float = 600) -> int:
        """SIGTERM, and how it ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)


@contextmanager
def running(*arguments: str, log: Path, deadline_s: float = 1800) -> Iterator[Running]:
    """`rldf serve ARGUMENTS`, once it says that it is up."""
    call = "from rldf_ray.cli import main; main()"
    command = [sys.executable, "-c", call, "serve", *arguments, "--port", "0"]
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}
    env.pop("RAY_ADDRESS", None)
    server = _started(command, env, log, deadline_s, STARTS)
    try:
        yield server
    finally:
        _end(server.process)


def _started(
    command: list[str], env: dict[str, str], log: Path, deadline_s: float, starts: int
) -> Running:
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, text=True, cwd=CHECKOUT, env=env
        )
    try:
        return Running(_address(process, log, deadline_s), process, log)
    except BaseException as error:
        _end(process)
        if starts == 1 or RAY_TOO_SLOW not in str(error):
            raise
    return _started(command, env, log, deadline_s, starts - 1)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(600)
        finally:
            process.kill()


def _address(process: subprocess.Popen[str], log: Path, deadline_s: float) -> str:
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith("page"):
                return line.split()[1].rstrip("/")
        if process.poll() is not None:
            break
        time.sleep(0.2)
    raise AssertionError(f"rldf serve did not come up:\n{log.read_text(encoding='utf-8')[-4000:]}")
