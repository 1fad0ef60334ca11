"""A server without Ray over scripted engines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rldf_ray.apps.serve.api import build_guarded, with_cors
from rldf_ray.apps.serve.engines import EngineGoneError, Engines
from rldf_ray.apps.serve.guard import Guard
from rldf_ray.apps.serve.keys import KeyRing
from rldf_ray.apps.serve.metrics import Metrics
from rldf_ray.apps.serve.referees import trained_referee
from rldf_ray.apps.serve.routes import Routes
from rldf_ray.apps.serve.scripted import ScriptedEngines
from rldf_ray.apps.serve.service import Service
from rldf_ray.apps.serve.settings import read_settings


class LengthScorer:
    """A reward model whose reward is minus the number of words."""

    async def score(self, prompt: str, texts: Sequence[str]) -> list[float]:
        return [-float(len(text.split())) for text in texts]


class WordRewards:
    """A trained referee's model: a reward of 2 without the word "never", of -2 with it."""

    async def reward(self, prompt: Sequence[dict[str, str]], text: str) -> tuple[float | None, int]:
        if text == "gone":
            raise EngineGoneError("the trained referee is gone")
        return (None, 0) if not text.strip() else (-2.0 if "never" in text else 2.0, 7)


@dataclass
class Server:
    client: TestClient
    guard: Guard
    engines: Any
    service: Service


Start = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server; keyword arguments are settings."""
    with ExitStack() as stack:

        def start(engines: Engines | None = None, **values: Any) -> Server:
            models = {"policy": {"folder": "p"}, "base": {"folder": "b"}}
            settings = read_settings({"models": models, **values})
            chosen = engines or ScriptedEngines(settings.engine.scripted_delay_s)
            folder = settings.trained_referee
            trained = trained_referee(Path(folder), WordRewards(), 5) if folder else None
            service = Service(
                settings=settings,
                engines=chosen,
                routes=Routes(settings),
                scorer=LengthScorer(),
                metrics=Metrics(),
                trained=trained,
            )
            keys = KeyRing(Path(settings.keys)) if settings.keys else None
            guard = build_guarded(service, keys)
            client = stack.enter_context(
                TestClient(with_cors(guard, settings), "http://127.0.0.1:8000")
            )
            return Server(client, guard, chosen, service)

        yield start


def events(text: str) -> list[Any]:
    """The data of server-sent events."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@pytest.fixture
def fitted(tmp_path: Path) -> str:
    """A trained referee's folder; P(biased) is 1 / (1 + exp(reward))."""
    fitted = {"slope": 1.0, "intercept": 0.0, "statements": 10, "revision": "abc"}
    (tmp_path / "calibration.json").write_text(json.dumps(fitted), encoding="utf-8")
    return str(tmp_path)
