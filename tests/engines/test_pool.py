"""Engines on Ray that die, hang or come up late; scripted, so that a redo is known to be equal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from rldf_ray.engines.scripted_actor import ScriptedSettings
from rldf_ray.models.base import ChatRequest, Completion, Message, ModelError
from rldf_ray.models.scripted import ScriptedModel

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    from rldf_ray.cluster.ray_cluster import ray_cluster

    with ray_cluster(tmp_path_factory.mktemp("logs")):
        yield


def pool_of(settings: ScriptedSettings, count: int = 1, **changes: Any):  # type: ignore[no-untyped-def]
    from rldf_ray.engines.pool import engines

    limits = {"num_cpus": 0, "num_gpus": 0, "timeout_s": 600, "restarts": 2, **changes}
    return engines(settings, name="scripted", count=count, **limits)


def request_of(number: int) -> ChatRequest:
    message = Message("user", f"Question {number}?")
    return ChatRequest(
        messages=(message,), max_tokens=32, seed=number, address=f"d{number % 7}/{number}"
    )


async def asked(pool, number: int) -> list[tuple[Completion, ...]]:  # type: ignore[no-untyped-def]
    return await asyncio.gather(*(pool.complete(request_of(i)) for i in range(number)))


def expected(number: int) -> list[tuple[Completion, ...]]:
    async def all_of_them() -> list[tuple[Completion, ...]]:
        return [await ScriptedModel().complete(request_of(i)) for i in range(number)]

    return asyncio.run(all_of_them())


def test_engines_that_are_still_starting_answer_once_they_are_up() -> None:
    with pool_of(ScriptedSettings(0.0), count=2) as pool:
        assert asyncio.run(asked(pool, 20)) == expected(20)


def test_engines_are_added_while_requests_wait_and_no_more_than_the_plan_allows() -> None:
    slow = ScriptedSettings(0.2, max_num_seqs=4)  # 5 seats
    with pool_of(slow, count=1, most=3) as pool:
        assert asyncio.run(asked(pool, 4)) == expected(4)
        assert len(pool._started) == 1
        assert all(one == expected(300) for one in asyncio.run(asked_until(pool, 300, engines=3)))
        assert len(pool._started) == 3
        pids = {asyncio.run(_pid(engine)) for engine in pool._started}
    assert len(pids) == 3


async def asked_until(pool, number: int, engines: int) -> list[list[tuple[Completion, ...]]]:  # type: ignore[no-untyped-def]
    """The same requests again and again, until so many engines are up; at most ten minutes."""
    answers, deadline = [await asked(pool, number)], time.monotonic() + 600
    while len(pool._started) < engines and time.monotonic() < deadline:
        answers.append(await asked(pool, number))
    return answers


async def _pid(engine) -> int:  # type: ignore[no-untyped-def]
    return await engine._actor.pid.remote()


def test_an_engine_there_is_no_room_for_is_done_without(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = ScriptedSettings(0.2, max_num_seqs=4)
    more_than_half = 0.6 * ray.cluster_resources()["CPU"]
    with (
        caplog.at_level(logging.WARNING),
        pool_of(slow, count=1, most=9, num_cpus=more_than_half) as pool,
    ):
        pool.wait_until_ready()
        monkeypatch.setattr("rldf_ray.engines.engine.START_DEADLINE_S", 3.0)
        assert asyncio.run(asked(pool, 200)) == expected(200)
        assert len(pool._started) == 1
    assert [r.getMessage() for r in caplog.records if "going on with 1 engines" in r.getMessage()]


def test_requests_of_engines_that_die_are_answered_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def with_deaths(pool) -> list[tuple[Completion, ...]]:  # type: ignore[no-untyped-def]
        pids = [await _pid(engine) for engine in pool._engines]
        answers = [asyncio.create_task(pool.complete(request_of(i))) for i in range(200)]
        for killed, pid in enumerate(pids, start=1):
            while sum(answer.done() for answer in answers) < 20 * killed:
                under_way = [answer for answer in answers if not answer.done()]
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            os.kill(pid, signal.SIGKILL)
        return await asyncio.gather(*answers)

    with (
        caplog.at_level(logging.WARNING),
        pool_of(ScriptedSettings(0.2, max_num_seqs=8), count=2) as pool,
    ):
        pool.wait_until_ready()
        assert asyncio.run(with_deaths(pool)) == expected(200)
    died = [r.getMessage() for r in caplog.records if "died, starting it again" in r.getMessage()]
    assert len(died) == 2


def test_an_engine_that_keeps_dying_ends_the_run_with_the_reason() -> None:
    async def deadly(pool) -> None:  # type: ignore[no-untyped-def]
        answer = asyncio.create_task(pool.complete(request_of(1)))
        while not answer.done():
            await asyncio.sleep(0.1)
            try:
                os.kill(await pool._engines[0]._actor.pid.remote(), signal.SIGKILL)
            except Exception:  # noqa: BLE001 - it is dead already, or not up yet
                continue
        await answer

    with pool_of(ScriptedSettings(30.0), restarts=1) as pool:
        pool.wait_until_ready()
        with pytest.raises(ModelError, match=r"died 2 times \(engines.restarts=1\)"):
            asyncio.run(deadly(pool))


def test_an_engine_that_hangs_is_an_error_at_the_deadline() -> None:
    with pool_of(ScriptedSettings(60.0), timeout_s=0.5) as pool:
        pool.wait_until_ready()
        with pytest.raises(ModelError, match=r"in 0.5 s \(engines.request_timeout_s\): it hangs"):
            asyncio.run(pool.complete(request_of(1)))


def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    from rldf_ray.engines.pool import engines
    from rldf_ray.engines.vllm_actor import EngineSettings

    settings = EngineSettings(model=str(tmp_path / "nothing"), revision="base")
    limits = {"num_cpus": 0, "num_gpus": 0, "timeout_s": 600}
    with (
        engines(settings, name="nothing", count=1, **limits) as pool,
        pytest.raises(ModelError, match="engine 0 of nothing did not start"),
    ):
        pool.wait_until_ready()
