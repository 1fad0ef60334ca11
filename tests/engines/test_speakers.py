"""Who speaks: parts that share a model, one journal for all, and a budget that ends a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rldf_ray.cluster.placement import Resources, place
from rldf_ray.console import Progress
from rldf_ray.engines.plan_engines import at_once
from rldf_ray.engines.speakers import Speakers
from rldf_ray.models.base import BudgetSpentError, ChatRequest, Message
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.plan import Plan
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Statement
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.storage.run_folder import RunFolder
from tests.endpoint import Server, completion, serving
from tests.fakes import opinion, plan_with

MANY = Resources(cpus=16, gpus=0, memory_gib=64)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server()) as running:
        yield running


def speakers_of(plan: Plan, folder: Path) -> Speakers:
    return Speakers(
        plan=plan,
        folder=RunFolder(folder),
        placement=place(plan, MANY),
        progress=Progress(Console(quiet=True)),
    )


def endpoint_plan(server: Server, *overrides: str) -> Plan:
    return plan_with(f"endpoint.base_url={server.url}", "teacher=openai:big", *overrides)


def test_parts_with_the_same_model_share_it_and_others_have_their_own(
    server: Server, tmp_path: Path
) -> None:
    plan = endpoint_plan(server, "referee.model=openai:fair")
    speakers = speakers_of(plan, tmp_path)
    assert speakers.of("topics") is speakers.of("debate")
    assert speakers.of("referee") is not speakers.of("debate")
    assert [speakers.of(part).name for part in ("debate", "referee")] == ["big", "fair"]
    speakers.end()


@pytest.mark.parametrize(
    ("referee", "threads"), [("prompted", 16), ("trained", 8)], ids=["one engine", "two"]
)
def test_those_who_speak_at_once_share_the_cores(referee: str, threads: int) -> None:
    plan = plan_with("teacher=null", f"referee.kind={referee}")
    assert at_once(plan, place(plan, MANY)).engine_threads == threads


def test_every_part_is_asked_of_its_model_and_counted_once(server: Server, tmp_path: Path) -> None:
    plan = endpoint_plan(server, "referee.model=openai:fair")
    speakers = speakers_of(plan, tmp_path)

    async def ask() -> None:
        for part in ("debate", "referee"):
            message = Message("user", part)
            await speakers.of(part).complete(
                ChatRequest(messages=(message,), max_tokens=8, address=part)
            )  # type: ignore[arg-type]

    speakers.run(ask())
    asked = {r.body["messages"][0]["content"]: r.body["model"] for r in server.received}
    assert asked == {"debate": "big", "referee": "fair"}
    assert (speakers.usage.prompt, speakers.usage.generated) == (14, 10)
    speakers.end()
    assert (speakers.usage.prompt, speakers.usage.generated) == (14, 10)
    lines = (tmp_path / "journal/calls.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["address"] for line in lines] == ["debate", "referee"]


def test_what_other_weights_said_under_the_same_name_is_asked_anew(
    server: Server, tmp_path: Path
) -> None:
    plan = endpoint_plan(server)

    def ask(weights: str) -> int:
        speakers = replace(speakers_of(plan, tmp_path), weights=weights)
        request = ChatRequest(messages=(Message("user", "Hello"),), max_tokens=8, address="hello")
        speakers.run(speakers.of("debate").complete(request))
        speakers.end()
        return len(server.received)

    assert [ask(weights) for weights in ("a", "a", "b", "b")] == [1, 1, 2, 2]


def collect(plan: Plan, folder: Path) -> list[Statement]:
    speakers, found = speakers_of(plan, folder), dict[int, list[Statement]]()
    model = speakers.of("debate")
    cast = Cast(
        plan=plan,
        run_id="r",
        models={"debater": model},
        referee=PromptedReferee(speakers.of("referee"), plan.seed),
    )
    debates = multirole.items([opinion(1), opinion(2), opinion(3)], plan)
    try:
        speakers.run(hold_all(multirole, debates, cast, found.__setitem__))
    finally:
        speakers.end()
    return [statement for place in sorted(found) for statement in found[place]]


def test_a_spent_budget_keeps_what_was_paid_for_and_a_higher_one_continues(
    server: Server, tmp_path: Path
) -> None:
    server.otherwise = lambda body: completion("4")
    shape = ("bias_types=[age]", "debate.debates=3", "debate.in_flight=3")
    whole = collect(endpoint_plan(server, *shape), tmp_path / "whole")
    needed = len(server.received)
    server.received.clear()
    with pytest.raises(BudgetSpentError, match=r"endpoint\.budget_tokens"):
        # A reply takes 12 tokens, so about a third of the calls.
        collect(
            endpoint_plan(server, *shape, f"endpoint.budget_tokens={1000 + 4 * needed}"),
            tmp_path / "run",
        )
    paid = len(server.received)
    lines = (tmp_path / "run/journal/calls.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == paid and 0 < paid < needed
    found = collect(
        endpoint_plan(server, *shape, "endpoint.budget_tokens=1000000"), tmp_path / "run"
    )
    assert found == whole and len(server.received) == needed


def test_a_budget_is_one_for_all_models_and_all_starts(server: Server, tmp_path: Path) -> None:
    """A request is estimated at 2 + 8 tokens, and takes 12."""

    def ask(budget: int, *addresses: str) -> None:
        plan = endpoint_plan(
            server, "referee.model=openai:fair", f"endpoint.budget_tokens={budget}"
        )
        speakers = speakers_of(plan, tmp_path)

        async def each() -> None:
            for address in addresses:
                part, number = address.split("/")
                message = Message("user", number)
                await speakers.of(part).complete(
                    ChatRequest(messages=(message,), max_tokens=8, address=address)
                )  # type: ignore[arg-type]

        try:
            speakers.run(each())
        finally:
            speakers.end()

    ask(24, "debate/1", "referee/1")
    for part in ("debate", "referee"):
        with pytest.raises(BudgetSpentError, match="24 tokens are spent"):
            ask(30, f"{part}/2")
    with pytest.raises(BudgetSpentError, match="36 tokens are spent"):
        ask(40, "debate/2", "referee/2")
    assert len(server.received) == 3
    ask(48, "debate/1", "debate/2", "referee/1", "referee/2")
    assert len(server.received) == 4


def test_a_model_that_two_parts_need_is_placed_once_and_two_models_twice() -> None:
    one, two = (plan_with(*o) for o in ([], ["referee.model='vllm:other'"]))
    small = Resources(cpus=2, gpus=0, memory_gib=16)
    assert place(one, small).engine_cpus == 1
    three = plan_with("referee.model='vllm:a'", "topics.model='vllm:b'")
    assert place(two, small).engine_cpus == 1
    assert place(three, small).engine_cpus == pytest.approx(2 / 3)


@pytest.mark.parametrize("at", ["same", "another"])
def test_a_copied_journal_answers_for_the_endpoint_it_was_written_at(
    server: Server, tmp_path: Path, at: str
) -> None:
    request = ChatRequest(messages=(Message("user", "Hello"),), max_tokens=8, address="one")
    plan = endpoint_plan(server)
    speakers = speakers_of(plan, tmp_path / "first")
    speakers.run(speakers.of("debate").complete(request))
    speakers.end()
    shutil.copytree(tmp_path / "first/journal", tmp_path / "second/journal")
    with serving(Server()) as other:
        plan = endpoint_plan(server if at == "same" else other)
        speakers = speakers_of(plan, tmp_path / "second")
        speakers.run(speakers.of("debate").complete(request))
        assert speakers.of("debate").made == (0 if at == "same" else 1)
        speakers.end()


def test_calls_that_an_earlier_version_made_at_an_endpoint_are_not_made_again(
    server: Server, tmp_path: Path
) -> None:
    """It wrote them down by the model's name alone."""
    request = ChatRequest(messages=(Message("user", "Hello"),), max_tokens=8, address="one")
    speakers = speakers_of(endpoint_plan(server), tmp_path)
    model = speakers.of("debate")
    fields = speakers.plan.request_fields(speakers.plan.speaker_of("debate"))
    once = JournaledModel(model._model, speakers.journal, request_fields=fields)
    (said,) = speakers.run(once.complete(request))
    assert speakers.run(model.complete(request)) == (said,) and model.made == 0
    speakers.end()


def test_engines_of_another_precision_are_another_model(tmp_path: Path) -> None:
    known = [
        speakers_of(plan, tmp_path)._address(plan.speaker_of("debate"))
        for plan in (
            plan_with("teacher=null", f"engines.dtype={d}") for d in ("bfloat16", "float32")
        )
    ]
    assert known == [None, "float32"]
