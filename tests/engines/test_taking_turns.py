"""Models that take turns: one is loaded at most, nobody's request is lost, few starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from rldf_ray.cluster.placement import NodeSize, PlacementError, Resources, place_speaking
from rldf_ray.console import Progress
from rldf_ray.engines.backend import SpeakerContext
from rldf_ray.engines.backends import vllm
from rldf_ray.engines.plan_engines import at_once
from rldf_ray.engines.speakers import Speakers
from rldf_ray.engines.taking_turns import TakingTurns
from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message, ModelError, Usage
from rldf_ray.plan import EnginesSection, Speaker
from rldf_ray.plan.study import StudyPlan
from rldf_ray.preflight.study import fits_together
from rldf_ray.storage.run_folder import RunFolder

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


PLAN = StudyPlan(models={"one": "vllm:a", "two": "vllm:b", "same": "vllm:a"})
CPUS = Resources(cpus=4, gpus=0, memory_gib=20)


def test_a_studys_local_models_are_loaded_in_turn_with_all_cores_and_journaled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    threads: list[int | None] = []

    @contextmanager
    def start(speaker: Speaker, context: SpeakerContext) -> Iterator[ChatModel]:
        placement = at_once(context.plan, context.placement, context.alone)
        threads.append(placement.engine_threads)
        loaded.append(speaker.model)
        yield Echo(speaker.model, loaded)
        loaded.remove(speaker.model)

    monkeypatch.setattr(vllm, "start", start)

    def speakers() -> Speakers:
        return Speakers(
            plan=PLAN,
            folder=RunFolder(tmp_path),
            placement=place_speaking(PLAN, CPUS, together=False),
            progress=Progress(Console(quiet=True)),
            taking_turns=True,
        )

    async def ask(who: Speakers) -> list[str]:
        replies = [await who.of(name).complete(request(name)) for name in PLAN.models]
        return [reply.text for (reply,) in replies]

    first = speakers()
    assert first.of("one") is first.of("same") and loaded == []
    assert first.run(ask(first)) == ["a one", "b two", "a same"]
    first.end()
    assert loaded == [] and threads == [4, 4, 4]
    # What was answered is remembered, and no model is loaded for it.
    again = speakers()
    assert again.run(ask(again)) == ["a one", "b two", "a same"]
    again.end()
    assert len(threads) == 3


def test_models_are_loaded_at_once_where_memory_or_gpus_suffice() -> None:
    small = StudyPlan(models={"one": "vllm:x-1b", "two": "vllm:y-1b"})
    assert fits_together(small, CPUS)[0]
    assert not fits_together(small, Resources(cpus=4, gpus=0, memory_gib=6))[0]
    assert fits_together(small, Resources(cpus=4, gpus=2, memory_gib=6))[0]
    fit, why = fits_together(small, Resources(cpus=4, gpus=1, memory_gib=64))
    assert not fit and why == "taking turns (2 GPUs for all, 1 there are)"
    assert fits_together(StudyPlan(models={"one": "openai:x"}), CPUS) == (
        True,
        "none is loaded here",
    )


def test_models_take_turns_where_no_node_holds_the_engines_of_all() -> None:
    wide = StudyPlan(
        models={"one": "vllm:x-1b", "two": "vllm:y-1b"}, engines=EnginesSection(tensor_parallel=4)
    )
    nodes = (NodeSize(64, 6), NodeSize(64, 2))
    reported = Resources(cpus=128, gpus=8, memory_gib=64, nodes=nodes)
    fit, why = fits_together(wide, reported)
    assert not fit and why.endswith(
        "(8 GPUs for all, 8 there are on nodes that hold 1 of 2 engines)"
    )
    assert place_speaking(wide, reported, together=fit).engine_gpus == 4
    with pytest.raises(PlacementError, match=r"the models need 2 engine\(s\) of 4 GPUs"):
        place_speaking(wide, reported, together=True)


def test_where_they_do_not_suffice_the_placement_says_what_to_do() -> None:
    gpu = Resources(cpus=4, gpus=1, memory_gib=64)
    assert place_speaking(PLAN, gpu, together=False).engine_gpus == 1
    with pytest.raises(PlacementError, match=r"need 2 GPUs .* take_turns=true, or add GPUs"):
        place_speaking(PLAN, gpu, together=True)
    assert place_speaking(PLAN, CPUS, together=True).engine_cpus == 1
