"""A run with prompts of its own: what models were sent, and what goes on with which run."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rldf_ray import pipeline
from rldf_ray.console import Progress
from rldf_ray.plan import Plan
from rldf_ray.plan.saved import saved_plan
from rldf_ray.preflight.estimate import estimate
from rldf_ray.prompts import own_prompts
from rldf_ray.referee.fit import fit_pairs, fit_statements
from rldf_ray.referee.trained import render as trained_prompt
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from tests.endpoint import Answer, Server, completion, serving
from tests.fakes import plan_with

TOPICS = "topics/prompts/system.txt"
DEBATER = "protocols/multirole/prompts/turn.txt"
REFEREE = "referee/prompts/system.txt"
OWN = {
    TOPICS: "OWN WRITER of {{ about }}",
    DEBATER: "OWN TURN {{ number }}: {{ identity.name }}, {{ kind }}.",
    REFEREE: "OWN REFEREE",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server(otherwise=by_part)) as running:
        yield running


def by_part(body: dict[str, Any]) -> Answer:
    """Topics that will not do, statements, and the same score for all of them."""
    return completion("3" if body["model"] == "fair" else "It is good, and it is bad.")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    for name, text in OWN.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "mine"


def plan_of(server: Server, *overrides: str) -> Plan:
    return plan_with(
        f"endpoint={{base_url: '{server.url}'}}",
        "teacher=openai:writer",
        "debate.model=openai:speaker",
        "referee.model=openai:fair",
        *overrides,
    )


def run(plan: Plan, out: Path) -> None:
    only = ("topics", "debates")
    pipeline.run(plan, out, Progress(Console(quiet=True)), only=only)


def sent(server: Server) -> dict[str, list[list[dict[str, str]]]]:
    """The messages that each model got; a model sees only its own calls."""
    found = defaultdict(list)
    for request in server.received:
        found[request.body["model"]].append(request.body["messages"])
    return found


def test_every_model_is_sent_the_own_prompts(server: Server, mine: Path, tmp_path: Path) -> None:
    run(plan_of(server, f"prompts={mine}"), tmp_path / "run")
    asked = sent(server)
    assert set(asked) == {"writer", "speaker", "fair"}
    assert all(m[0]["content"].startswith("OWN WRITER of ") for m in asked["writer"])
    assert all("OWN TURN " in m[-1]["content"] for m in asked["speaker"])
    assert not any("It is your turn" in m[-1]["content"] for m in asked["speaker"])
    assert all(m[0]["content"] == "OWN REFEREE" for m in asked["fair"])
    # The files that the folder does not have are the shipped ones.
    assert any("Topic: Should" in m[-1]["content"] for m in asked["speaker"])
    assert any("Answer with one number" in m[-1]["content"] for m in asked["fair"])


def test_a_run_goes_on_with_its_own_texts_and_an_edited_one_is_another_run(
    server: Server, mine: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    plan = plan_of(server, f"prompts={mine}")
    run(plan, out)
    kept = saved_plan(RunFolder(out))
    assert kept.prompts == OWN and kept.digest() == plan.digest()
    number = len(server.received)
    shutil.rmtree(mine / "topics")
    (mine / REFEREE).write_text("ANOTHER REFEREE", encoding="utf-8")
    run(kept, out)
    assert len(server.received) == number
    with pytest.raises(RunFolderError, match=r"differs in .*prompts\.referee/prompts/system\.txt"):
        run(plan_of(server, f"prompts={mine}"), out)
    with pytest.raises(RunFolderError, match="differs in prompts"):
        run(plan_of(server), out)
    # Without them, the prompts are the shipped ones again.
    server.received.clear()
    run(plan_of(server), tmp_path / "shipped")
    assert not any("OWN" in str(request.body) for request in server.received)


def test_what_a_trained_referee_is_fitted_to_has_the_own_prompt() -> None:
    statements = fit_statements(plan_with())
    with own_prompts({"referee/prompts/trained.txt": "OWN {{ context }}"}):
        rows = fit_pairs(statements[:2]).to_pylist()
        assert rows[0]["prompt"][-1]["content"] == trained_prompt(
            "trained", context=statements[0].context
        )
    assert rows[0]["prompt"][-1]["content"].startswith("OWN ")


def test_an_estimate_counts_the_own_prompts(mine: Path) -> None:
    def prompt(plan: Plan, name: str) -> int:
        return next(stage.prompt for stage in estimate(plan) if stage.name == name)

    (mine / REFEREE).write_text("word " * 4000, encoding="utf-8")
    plan = plan_with(f"prompts={mine}")
    for name in ("audit", "debates"):
        assert prompt(plan, name) > 2 * prompt(plan_with(), name)
