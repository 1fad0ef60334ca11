"""Models that take turns: one is loaded at most, nobody's request is lost, few starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rldf_ray.engines.taking_turns import TakingTurns
from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message, ModelError, Usage
from rldf_ray.plan import Speaker

A, B, C = (Speaker("vllm", name) for name in "abc")


class Echo:
    def __init__(self, name: str, loaded: list[str]) -> None:
        self.name = name
        self._loaded = loaded

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        await asyncio.sleep(0)
        assert self._loaded == [self.name]
        text = f"{self.name} {request.address}"
        return (
            Completion(
                text=text, finish_reason="stop", usage=Usage(), model=self.name, revision=""
            ),
        )


def turns_of(loaded: list[str], broken: str = "") -> TakingTurns:
    @contextmanager
    def start(speaker: Speaker) -> Iterator[ChatModel]:
        if speaker.model == broken:
            raise ModelError(f"{broken} does not start")
        loaded.append(speaker.model)
        yield Echo(speaker.model, loaded)
        loaded.remove(speaker.model)

    return TakingTurns(start)


def request(address: str) -> ChatRequest:
    return ChatRequest(messages=(Message("user", "x"),), max_tokens=1, address=address)


def test_many_dialogues_between_three_models_need_few_starts() -> None:
    loaded: list[str] = []
    turns = turns_of(loaded)

    async def dialogue(number: int) -> list[str]:
        said = []
        for speaker in (A, B, A, C):
            (reply,) = await turns.model(speaker).complete(request(f"{number}/{len(said)}"))
            said.append(reply.text)
        return said

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(dialogue(number) for number in range(40)))

    said = asyncio.run(all_of_them())
    assert said[7] == ["a 7/0", "b 7/1", "a 7/2", "c 7/3"]
    assert turns.starts == 4
    turns.close()
    assert loaded == []


def test_a_model_that_does_not_start_fails_those_who_wait_for_it() -> None:
    turns = turns_of([], broken="b")

    async def both() -> str:
        with pytest.raises(ModelError, match="b does not start"):
            await turns.model(B).complete(request("one"))
        (reply,) = await turns.model(A).complete(request("two"))
        return reply.text

    assert asyncio.run(both()) == "a two"


def test_whoever_is_cancelled_while_waiting_holds_up_nobody() -> None:
    loaded: list[str] = []
    turns = turns_of(loaded)

    async def some() -> str:
        waits = asyncio.ensure_future(turns.model(B).complete(request("one")))
        await asyncio.sleep(0)
        waits.cancel()
        (reply,) = await turns.model(A).complete(request("two"))
        return reply.text

    assert asyncio.run(some()) == "a two"
    assert turns.starts == 1
