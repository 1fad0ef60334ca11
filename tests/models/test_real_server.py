"""A real server: vLLM's own, of the embedded model, behind a proxy that makes trouble."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from rldf_ray.models.base import ChatRequest, Message
from rldf_ray.models.embedded import embedded_model_folder
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.openai_http import OpenAIModel
from rldf_ray.plan import Endpoint
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Statement
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.verdict import SCORES
from rldf_ray.storage.journal import Journal
from tests.fakes import judgement, opinion, plan_with

pytestmark = pytest.mark.slow

TROUBLES = ("429", "500", "timeout", "drop", "slow")


def _free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address; the module, as the installed script looks for a package of another name."""
    port, log = _free_port(), tmp_path_factory.mktemp("server") / "log"
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(embedded_model_folder()), "--served-model-name", "small",
        "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16",
        "--max-model-len", "2048", "--max-num-seqs", "16", "--block-size", "32",
        "--kv-cache-memory-bytes", str(2**29), "--enforce-eager",
        "--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048",
    ]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + 1200
            while not _answers(f"http://127.0.0.1:{port}/health"):
                assert process.poll() is None and time.monotonic() < deadline, log.read_text(
                    encoding="utf-8"
                )
                time.sleep(1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(300)


class Proxy:
    """Passes requests on, but makes trouble with some of them first."""

    def __init__(self, server: str, troubles: Sequence[str], share: float) -> None:
        self._server = server
        self._troubles = troubles
        self._share = share
        self._chance = random.Random(5)
        self.made: Counter[str] = Counter()
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app)
        await runner.setup()
        port = _free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{port}/v1"
        async with ClientSession() as self._session:
            yield self
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        trouble = ""
        if self._troubles and self._chance.random() < self._share:
            trouble = self._chance.choice(self._troubles)
            self.made[trouble] += 1
        if trouble == "429":
            return web.json_response({}, status=429, headers={"Retry-After": "1"})
        if trouble == "500":
            return web.json_response({"error": {"message": "out of luck"}}, status=500)
        if trouble == "drop":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if trouble == "timeout":
            await asyncio.sleep(120)
        if trouble == "slow":
            await asyncio.sleep(2)
        headers = {"Content-Type": "application/json"}
        path = f"{self._server}{request.path}"
        async with self._session.post(path, data=body, headers=headers) as reply:
            return web.Response(
                body=await reply.read(), status=reply.status, content_type=reply.content_type
            )


def endpoint_of(url: str) -> Endpoint:
    return Endpoint(base_url=url, timeout_s=20, retries=8, in_flight=16)


def test_scores_have_the_probabilities_of_a_real_server(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    request = ChatRequest(
        messages=(Message("user", "How warm is ice, from 0 to 10? Answer with a number."),),
        max_tokens=4,
        temperature=0.0,
        choices=SCORES,
        choice_probabilities=True,
    )

    async def ask() -> None:
        model = OpenAIModel("small", endpoint_of(f"{server}/v1"))
        (said,) = await model.complete(request)
        await model.close()
        assert said.text in SCORES and said.usage.prompt > 0
        probabilities = said.choice_probabilities
        assert probabilities is None or sum(probabilities.values()) == pytest.approx(1)

    asyncio.run(ask())


def test_debates_through_a_proxy_that_makes_trouble_have_every_statement_once(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    plan = plan_with("debate={debates: 6, debaters: 3, rounds: 2, max_tokens: 24}")
    debates = multirole.items(
        [
            make(i, name)
            for name in plan.bias_types
            for make in (opinion, judgement)
            for i in (1, 2)
        ],
        plan,
    )
    found: dict[int, list[Statement]] = {}
    journal = Journal(tmp_path / "calls.jsonl")

    async def hold() -> Counter[str]:
        async with Proxy(server, TROUBLES, share=0.3).running() as proxy:
            inner = OpenAIModel("small", endpoint_of(proxy.url))
            model = JournaledModel(inner, journal)
            cast = Cast(
                plan=plan,
                run_id="r",
                models={"debater": model},
                referee=PromptedReferee(model, plan.seed),
            )
            await hold_all(multirole, debates, cast, found.__setitem__)
            await inner.close()
            return proxy.made

    made = asyncio.run(hold())
    journal.close()
    print(f"troubles: {dict(made)}")
    assert set(made) == set(TROUBLES)
    rows = [statement for place in sorted(found) for statement in found[place]]
    places = [(s.debate_id, s.round, s.role) for s in rows]
    assert len(places) == len(set(places)) == 6 * 2 * 3
    assert all(s.text and s.generated_tokens > 0 for s in rows)
    assert all(s.score is not None and str(int(s.score)) in SCORES for s in rows)
