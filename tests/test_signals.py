"""A command that is asked to end ends what it began, says so, and has a shell's exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.signals import Terminated, handlers_kept, unwinding

RLDF = str(Path(sys.executable).with_name("rldf"))
ROOT = str(Path(__file__).resolve().parents[1])
ENVIRONMENT = os.environ | {"PYTHONPATH": ROOT}
PROMPT_S = 60
"""Far above what an end takes on a busy machine, and far below what is under way."""

WAITING = """
import asyncio, sys, time
import typer
from rldf_ray.cli import main

app = typer.Typer()


async def debates():
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(asyncio.sleep(600))
        print("begun", flush=True)


async def busy():
    print("begun", flush=True)
    while True:
        time.sleep(0.01)
        await asyncio.sleep(0)


async def calls():
    async with asyncio.TaskGroup() as group:
        group.create_task(busy())
        group.create_task(asyncio.sleep(600))


@app.command()
def work(how: str):
    try:
        if how == "debates":
            asyncio.run(debates())
        if how == "calls":
            asyncio.run(calls())
        print("begun", flush=True)
        time.sleep(600)
    finally:
        print("ended in order", flush=True)


main(lambda: app())
"""


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Jobs in a shell's background ignore Ctrl-C, those under `nohup` SIGHUP, as do children."""
    before = [
        (signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler)),
        (signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL)),
    ]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, as a terminal's command is."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=ENVIRONMENT, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(event: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    while not event():
        assert process.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.05)


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("how", ["debates", "calls", "training"])
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_command_ends_in_order_and_says_that_it_can_go_on(
    number: int, status: int, how: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with started([sys.executable, "-c", WAITING, how], log) as process:
        wait_for(lambda: lines_in(log) > 0, process, log)
        process.send_signal(number)
        assert process.wait(PROMPT_S) == status
    assert log.read_text(encoding="utf-8").splitlines() == [
        "begun",
        "ended in order",
        "interrupted; the same command continues from what was finished",
    ]


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with unwinding():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_that_a_library_sets_are_put_back() -> None:
    with unwinding():
        with handlers_kept():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
            signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(Terminated) as end:
            os.kill(os.getpid(), signal.SIGTERM)
        assert end.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("error", [SystemExit(1), RuntimeError("an actor died")])
def test_what_a_library_makes_of_a_signal_does_not_hide_it(error: BaseException) -> None:
    def wait_in_ray() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except SystemExit:
            raise error from None

    with pytest.raises(Terminated) as end, unwinding():
        wait_in_ray()
    assert end.value.code == 143


def test_an_error_without_a_signal_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError), unwinding():
        raise RuntimeError


def ended_by(
    process: subprocess.Popen[bytes], number: int, whom: Callable[[int, int], None]
) -> int:
    """Its status, once it and all that it started have ended."""
    below = psutil.Process(process.pid).children(recursive=True)
    whom(process.pid, number)
    status = process.wait(PROMPT_S)
    _, left = psutil.wait_procs(below, timeout=PROMPT_S)
    assert [child.name() for child in left] == []
    return status


DEBATES = [
    "--plan", "smoke", "--set", "debate.debates=20", "--set", "referee.audit_pairs=4",
    "--set", "referee.kind=prompted", "--set", "teacher=scripted:0.4",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "whom", "status"),
    [
        (signal.SIGTERM, os.kill, 143),
        (signal.SIGTERM, os.killpg, 143),
        (signal.SIGINT, os.killpg, 130),
    ],
    ids=["SIGTERM", "SIGTERM to all", "Ctrl-C"],
)
def test_debates_that_are_ended_go_on_where_they_were(
    number: int, whom: Callable[[int, int], None], status: int, tmp_path: Path
) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    journal = out / "journal/calls.jsonl"
    with started([RLDF, "debate", str(out), *DEBATES], log) as process:
        wait_for(lambda: lines_in(journal) > 90, process, log)
        assert ended_by(process, number, whom) == status
    said = log.read_text(encoding="utf-8")
    assert said.endswith("interrupted; the same command continues from what was finished\n")
    assert "***" not in said and "Traceback" not in said
    before = journal.read_bytes()
    command = [RLDF, "debate", str(out), *DEBATES]
    subprocess.run(command, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    assert journal.read_bytes().startswith(before)
    addresses = [json.loads(line)["address"] for line in journal.read_bytes().splitlines()]
    assert len(addresses) == len(set(addresses)), "a finished call was made again"


ROWS = 24
TRAINING = [
    "--plan", "smoke", "--set", "sft.epochs=100", "--set", "train.checkpoint_every=2",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_training_that_is_ended_goes_on_where_it_was(
    number: int, status: int, tmp_path: Path
) -> None:
    pairs = [
        {"prompt": f"What is {i}?", "chosen": f"It is {i}.", "rejected": f"It is not {i}."}
        for i in range(ROWS)
    ]
    pq.write_table(pa.Table.from_pylist(pairs), tmp_path / "pairs.parquet")
    out, log = tmp_path / "run", tmp_path / "log"
    subprocess.run(
        [RLDF, "data", "import", str(out), *TRAINING, "--pairs", str(tmp_path / "pairs.parquet")],
        check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    progress = out / "sft/progress.jsonl"
    command = [RLDF, "train", "sft", str(out)]
    with started(command, log) as process:
        wait_for(lambda: lines_in(progress) > 2, process, log)
        assert ended_by(process, number, os.killpg) == status
    said = log.read_text(encoding="utf-8")
    assert said.endswith("interrupted; the same command continues from what was finished\n")
    assert "Traceback" not in said
    done = lines_in(progress)
    with started(command, log) as process:
        wait_for(lambda: lines_in(progress) > done, process, log)
        assert ended_by(process, number, os.killpg) == status
    steps = [json.loads(line)["step"] for line in progress.read_bytes().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
