"""A model for each seat of the debates: who is asked for what, and what records say of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rldf_ray import pipeline
from rldf_ray.cluster.placement import Resources, place
from rldf_ray.comparison.costs import remarks_on
from rldf_ray.comparison.method import methods_of
from rldf_ray.console import Progress
from rldf_ray.engines.checks import PreflightError, check_endpoint
from rldf_ray.engines.speakers import Speakers
from rldf_ray.evaluate.judge.judging_model import judge_plan, same_model
from rldf_ray.plan import Plan, PlanError, load_plan
from rldf_ray.plan.saved import saved_plan, settle_plan
from rldf_ray.preflight.checks import check_protocol
from rldf_ray.preflight.estimate import estimate
from rldf_ray.records import Statement, statements_of
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from tests.endpoint import Answer, Server, completion, serving
from tests.fakes import plan_with

SEATS = "debate.seats=['openai:calm', 'openai:loud', 'openai:calm']"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server(otherwise=by_name)) as running:
        yield running


def by_name(body: dict[str, Any]) -> Answer:
    """Every model says its name; the referee gives scores and, as it must choose, any ranking."""
    said = "3" if body["model"] == "fair" else f"I am the {body['model']} one."
    return completion(said, model=f"{body['model']}-0101")


def seated(server: Server, *overrides: str) -> Plan:
    return plan_with(
        "topics.per_bias_type=12",
        "teacher=openai:fair",
        f"endpoint={{base_url: '{server.url}'}}",
        SEATS,
        *overrides,
    )


def debated(plan: Plan, out: Path, redo: bool = False) -> list[Statement]:
    only = ("topics", "debates")
    pipeline.run(plan, out, Progress(Console(quiet=True)), only=only, redo=redo)
    return statements_of(RunFolder(out).read_table("data/transcripts.parquet"))


def test_every_seat_is_asked_of_its_own_model_and_recorded_with_it(
    server: Server, tmp_path: Path
) -> None:
    plan = seated(server)
    statements = debated(plan, tmp_path)
    asked = {request.body["seed"]: request.body for request in server.received}
    assert Counter(statement.role for statement in statements) == {0: 12, 1: 12, 2: 12}
    for statement in statements:
        own = ("calm", "loud", "calm")[statement.role]
        assert asked[statement.seed]["model"] == own
        assert statement.text == f"I am the {own} one."
        assert (statement.debater_model, statement.debater_revision) == (own, f"{own}-0101")
        assert (statement.referee_model, statement.referee_revision) == ("fair", "fair-0101")
    models = Counter(request.body["model"] for request in server.received)
    assert models["calm"] == 24 and models["loud"] == 12
    lines = (tmp_path / "journal/calls.jsonl").read_text(encoding="utf-8").splitlines()
    spoken = {
        call["address"]: call["samples"][0]["model"]
        for call in map(json.loads, lines)
        if "/role/" in call["address"]
    }
    assert {(address[-1], model) for address, model in spoken.items()} == {
        ("0", "calm"), ("1", "loud"), ("2", "calm"),
    }  # fmt: skip


def test_a_debate_begun_goes_on_without_asking_anything_twice(
    server: Server, tmp_path: Path
) -> None:
    first = debated(seated(server), tmp_path)
    asked = len(server.received)
    assert debated(seated(server), tmp_path, redo=True) == first
    assert len(server.received) == asked
    with pytest.raises(RunFolderError, match=r"differs in debate\.seats"):
        debated(seated(server, SEATS.replace("loud", "new")), tmp_path)


def test_equal_models_share_what_serves_them(server: Server, tmp_path: Path) -> None:
    plan = seated(server)
    speakers = Speakers(
        plan=plan,
        folder=RunFolder(tmp_path),
        placement=place(plan, Resources(4, 0, 64)),
        progress=Progress(Console(quiet=True)),
    )
    first, second, third = (speakers.of(part) for part in plan.debate_parts())
    assert first is third and first is not second
    assert (first.name, second.name) == ("calm", "loud")
    speakers.end()


# ---- the plan


def test_seats_are_speakers_once_each_and_nobody_else_debates() -> None:
    plan = plan_with("teacher=vllm:t", "debate.seats=['vllm:a', 'openai:b', 'vllm:a']")
    assert [str(speaker) for speaker in plan.debaters()] == ["vllm:a", "openai:b", "vllm:a"]
    assert [str(speaker) for speaker in plan.speakers()] == ["vllm:t", "vllm:a", "openai:b"]
    without = plan_with("teacher=vllm:t", "debate.model=vllm:a")
    assert [str(speaker) for speaker in without.debaters()] == ["vllm:a"] * 3
    assert place(plan, Resources(2, 0, 16)) == place(without, Resources(2, 0, 16))
    three = plan_with("teacher=vllm:t", "debate.seats=['vllm:a', 'vllm:b', 'vllm:a']")
    assert place(three, Resources(2, 0, 16)).engine_cpus == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (
            ["debate.seats=['vllm:a', 'vllm:b']"],
            ["debate.seats", "names 2 models", "debaters=3", "one for each debater", "null"],
        ),
        (["debate.seats=[]"], ["debate.seats", "names 0 models"]),
        (
            ["debate.debaters=2", SEATS],
            ["debate.seats", "names 3 models", "debaters=2"],
        ),
        (
            ["debate.seats=['vllm:a', gpt, 'vllm:a']"],
            ["debate.seats", "allowed: '", "'openai:MODEL'", "found 'gpt'"],
        ),
        (["debate.model=vllm:a", SEATS], ["debate.seats", "model=vllm:a", "leave one"]),
    ],
)
def test_seats_that_do_not_fit_the_table_are_refused(
    overrides: list[str], parts: list[str]
) -> None:
    with pytest.raises(PlanError) as refused:
        load_plan("smoke", ["debate.debaters=3", *overrides])
    assert [part for part in parts if part not in str(refused.value)] == []


def test_a_plan_without_seats_is_written_and_known_as_before() -> None:
    plan = plan_with()
    assert "seats" not in plan.to_yaml()
    assert plan.digest() == plan_with("debate.seats=null").digest()
    one, other = (plan_with(f"debate.seats={seats}") for seats in (["vllm:a"] * 3, ["vllm:b"] * 3))
    assert len({plan.digest(), one.digest(), other.digest()}) == 3


def test_a_saved_plan_keeps_its_seats(tmp_path: Path) -> None:
    plan, folder = plan_with(SEATS), RunFolder(tmp_path)
    settle_plan(plan, folder)
    assert saved_plan(folder) == plan


# ---- what else looks at who debates


def test_an_endpoint_that_one_seat_needs_is_looked_at_and_paid_for_that_seat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    one = plan_with("debate.seats=['vllm:embedded', 'openai:b', 'vllm:embedded']")
    with pytest.raises(PreflightError, match="openai:b: the environment variable OPENAI_API_KEY"):
        check_endpoint(one)
    prices = "endpoint={prompt_price: 2, generated_price: 10, base_url: 'http://localhost:1'}"

    def usd(*overrides: str) -> float:
        (stage,) = (s for s in estimate(plan_with(prices, *overrides)) if s.name == "debates")
        assert stage.usd is not None
        return stage.usd

    whole = usd("debate.model=openai:b")
    assert usd("debate.seats=['vllm:embedded', 'openai:b', 'vllm:embedded']") == pytest.approx(
        whole / 3
    )


def test_a_protocol_without_seats_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_with(SEATS)
    assert check_protocol(plan) == "multirole"
    monkeypatch.delattr("rldf_ray.protocols.multirole.SEATED")
    with pytest.raises(PreflightError, match=r"debate\.seats with debate\.protocol=multirole"):
        check_protocol(plan)


def test_a_judge_that_sits_in_the_debates_is_named() -> None:
    plan = plan_with("teacher=openai:fair", "endpoint={base_url: 'http://localhost:1'}", SEATS)
    assert same_model("openai:loud", plan) == ["one of the debaters"]
    assert same_model("openai:fair", plan) == ["topic writer", "referee"]
    assert set(map(str, judge_plan(plan, "openai:judge").speakers())) == {"openai:judge"}


def test_a_comparison_has_the_seats_in_the_plans_own_mode_and_in_no_other() -> None:
    plan = plan_with("teacher=openai:fair", SEATS)
    seats = {
        method.name: method.training.source.debate.seats is not None
        for method in methods_of(plan, None, (), controls=True)
        if method.training
    }
    assert seats == {
        "sft": True, "gold_sft": True, "rlaif": False, "rlaif_instructed": False,
        "rldf_unheard": True, "rldf_unmarked": True, "rldf_self": False, "rldf_teacher-seats": True,
    }  # fmt: skip
    (named,) = methods_of(plan, ["rldf_teacher"], ("openai:big",))
    assert named.training is not None and named.training.source.debate.seats is None
    (row,) = methods_of(plan_with("referee.model=openai:loud", SEATS), ["rldf_teacher"], ())
    assert row.training is not None
    assert remarks_on(row.training) == ("teacher and referee are one model",)
