"""An endpoint's model that an evaluation asks: its answers are kept, its budget holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from rldf_ray.console import Progress
from rldf_ray.engines.endpoint_answers import remembering
from rldf_ray.loops import complete
from rldf_ray.models.base import BudgetSpentError, ChatRequest, Message
from rldf_ray.models.journaled import settled
from rldf_ray.plan import Endpoint
from rldf_ray.storage.run_folder import RunFolder
from tests.endpoint import Server, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server()) as running:
        yield running


def ask(server: Server, out: Path, budget: int, number: int) -> int:
    """So many calls at once, of 12 tokens each; how many answers are from before."""
    endpoint = Endpoint(base_url=server.url, budget_tokens=budget)
    requests = [
        ChatRequest(messages=(Message("user", str(i)),), max_tokens=8, address=f"item/{i}")
        for i in range(number)
    ]
    with remembering("openai:m", endpoint, RunFolder(out), Progress(Console(quiet=True))) as model:

        async def all_of_them() -> None:
            await asyncio.gather(*map(model.complete, requests))

        complete(settled(all_of_them(), (model,)))
        return model.reused


def test_the_budget_is_that_of_all_starts(server: Server, tmp_path: Path) -> None:
    assert ask(server, tmp_path, 1000, 2) == 0
    with pytest.raises(BudgetSpentError, match=r"endpoint\.budget_tokens.* 24 tokens are spent"):
        ask(server, tmp_path, 30, 3)
    assert ask(server, tmp_path, 34, 3) == 2
    assert len(server.received) == 3


def test_what_is_under_way_when_the_budget_ends_is_kept(server: Server, tmp_path: Path) -> None:
    with pytest.raises(BudgetSpentError):
        ask(server, tmp_path, 25, 3)
    assert len(server.received) == 2
    assert ask(server, tmp_path, 1000, 3) == 2
