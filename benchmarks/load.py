"""Streams of chat completions against an OpenAI-compatible server, and what became of each."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np

PROMPTS = (
    "Describe a morning in a small town for somebody who has never seen one.",
    "Explain how bread is made, step by step, and why each step matters.",
    "Write about a long train journey through mountains in winter.",
    "Say what makes a good neighbour, and give three examples from daily life.",
    "Explain to a child why the sky changes its colour in the evening.",
    "Write a letter to a friend about a garden in late summer.",
    "Describe how a library works and who comes there during a day.",
    "Tell how a bridge is planned, built and looked after over the years.",
)


@dataclass(kw_only=True)
class Outcome:
    """One request; times are seconds, `began` by the clock of the process.

    Attributes:
        first_s: to the first piece of the answer, None if none came.
        error: what went wrong, None if the answer is whole.
        clean: an error that the server told in so many words.
    """

    began: float
    seconds: float = 0.0
    first_s: float | None = None
    tokens: int = 0
    version: str = ""
    error: str | None = None
    clean: bool = False


async def ask(session: aiohttp.ClientSession, url: str, model: str, i: int, tokens: int) -> Outcome:
    """One streamed answer of at most `tokens` tokens."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"{PROMPTS[i % len(PROMPTS)]} ({i})"}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    outcome = Outcome(began=time.monotonic())
    try:
        async with session.post(f"{url}/v1/chat/completions", json=body) as reply:
            outcome.version = reply.headers.get("x-rldf-version", "")
            if reply.status != 200:
                outcome.error = f"status {reply.status}: {(await reply.text())[:200]}"
            else:
                await _read(reply, outcome)
    except (aiohttp.ClientError, TimeoutError) as error:
        outcome.error = f"{type(error).__name__}: {error}"
    outcome.seconds = time.monotonic() - outcome.began
    return outcome


async def _read(reply: aiohttp.ClientResponse, outcome: Outcome) -> None:
    outcome.error = "the stream ended without [DONE]"
    async for line in reply.content:
        if not line.startswith(b"data: "):
            continue
        if line.startswith(b"data: [DONE]"):
            outcome.error = None
            return
        if b'"error"' in line[:20]:
            outcome.error, outcome.clean = line.decode()[:200], True
            return
        # Which role speaks is an event of its own; the first word counts.
        if outcome.first_s is None and b'"role"' not in line:
            outcome.first_s = time.monotonic() - outcome.began
        if b'"usage":{' in line:
            found: dict[str, Any] = json.loads(line[6:])
            outcome.tokens = found["usage"]["completion_tokens"]


async def streams(
    url: str,
    model: str,
    at_once: int,
    tokens: int,
    more: Callable[[int], bool],
) -> list[Outcome]:
    """Keep `at_once` requests under way for as long as `more(number begun)` says so."""
    outcomes: list[Outcome] = []
    begun = 0

    async def one_after_another(session: aiohttp.ClientSession) -> None:
        nonlocal begun
        while more(begun):
            i, begun = begun, begun + 1
            outcomes.append(await ask(session, url, model, i, tokens))

    timeout = aiohttp.ClientTimeout(total=300)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        await asyncio.gather(*(one_after_another(session) for _ in range(at_once)))
    return outcomes


def figures(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Throughput over the whole, and latencies of the answers that are whole."""
    good = [outcome for outcome in outcomes if outcome.error is None]
    end = max(outcome.began + outcome.seconds for outcome in outcomes)
    seconds = end - min(outcome.began for outcome in outcomes)
    totals = [outcome.seconds for outcome in good]
    firsts = [outcome.first_s for outcome in good if outcome.first_s is not None]
    return {
        "requests": len(outcomes),
        "failed": len(outcomes) - len(good),
        "requests_per_s": len(good) / seconds,
        "tokens_per_s": sum(outcome.tokens for outcome in good) / seconds,
        "p50_s": float(np.percentile(totals, 50)),
        "p95_s": float(np.percentile(totals, 95)),
        "first_token_p50_s": float(np.percentile(firsts, 50)),
        "first_token_p95_s": float(np.percentile(firsts, 95)),
    }
