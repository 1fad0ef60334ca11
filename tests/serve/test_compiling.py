"""Schemas that would keep an engine busy are known before an engine has them."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rldf_ray.apps.serve.compiling import Compiling
from rldf_ray.apps.serve.engines import EngineRequest
from rldf_ray.models.embedded import resolve_model

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xgrammar") is None, reason="xgrammar comes with vLLM"
)


@pytest.fixture(scope="module")
def compiling() -> Iterator[Compiling]:
    found = Compiling(resolve_model("embedded"))
    yield found
    found.close()


def pattern(text: str) -> dict[str, str]:
    return {"type": "string", "pattern": text}


async def test_what_takes_long_is_told_from_what_does_not(compiling: Compiling) -> None:
    verdict = {"type": "object", "properties": {"fair": {"type": "boolean"}}}
    assert await compiling.in_time(verdict)
    assert not await compiling.in_time(pattern("([a-z]?){100}"))
    assert await compiling.in_time(pattern("[a-z]{1,30}"))
    assert await compiling.in_time({"type": "nonsense"}), "what is wrong with it, the engine says"


async def test_a_parent_that_ignores_how_children_end_changes_nothing() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    found = Compiling(resolve_model("embedded"))
    try:
        assert not await found.in_time(pattern("([a-z]?){100}"))
    finally:
        found.close()
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.slow
async def test_an_answer_is_remembered(compiling: Compiling) -> None:
    bomb = pattern(".{0,128}.{0,128}.{0,128}")
    assert not await compiling.in_time(bomb)
    began = time.monotonic()
    assert await asyncio.gather(*(compiling.in_time(bomb) for _ in range(20))) == [False] * 20
    assert time.monotonic() - began < 1


async def test_a_program_that_has_ended_is_started_again(compiling: Compiling) -> None:
    compiling.close()
    assert await compiling.in_time({"type": "integer"})


@pytest.mark.slow
async def test_a_replica_refuses_what_takes_long_before_its_engine_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replicas = pytest.importorskip("rldf_ray.apps.serve.replicas")
    tried = []

    class Never:
        async def in_time(self, schema: Any) -> bool:
            tried.append(schema)
            return False

    replica = object.__new__(replicas.ServedModel)
    monkeypatch.setattr(replicas.ServedModel, "_name", lambda self, request: "policy")
    replica._compiling = Never()
    schema = pattern("([a-z]?){100}")
    body = {"prompt": "x", "structured_outputs": {"json": schema}}
    pieces = [piece async for piece in replica._answer(EngineRequest("completion", body))]
    assert tried == [schema]
    assert [
        (piece["error"]["code"], "compile" in piece["error"]["message"]) for piece in pieces
    ] == [(400, True)]
