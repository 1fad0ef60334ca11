"""docs/extending.md is true: its files, in folders of their own, are found and run."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
import typer

import rldf_ray
from rldf_ray import cli, evaluate, pipeline, protocols
from rldf_ray.cluster.placement import Resources, place
from rldf_ray.commands.evaluations import add_evaluations
from rldf_ray.comparison import methods
from rldf_ray.comparison.method import methods_of
from rldf_ray.console import Progress
from rldf_ray.engines import backends
from rldf_ray.engines.backend import SpeakerContext
from rldf_ray.engines.backends import scripted
from rldf_ray.engines.speakers import Speakers
from rldf_ray.models import openai_http
from rldf_ray.models.base import ChatModel, ChatRequest, Message
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan import PlanError, Speaker
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.known import ProtocolError, protocol_named, protocol_names, study_names
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Statement, statements_of, topics_of
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.studies import holding
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from rldf_ray.topics.bias_type import bias_type
from tests.fakes import RecordingModel, opinion, plan_with

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
BLOCK = re.compile(
    r"^```\w+\n(?:# |\{# )(rldf_ray/\S+?)(?: #\})?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
SPEAKING = ("topics", "debates", "data")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Path]:
    """The page's files, in a folder that is not the package's; their modules go with the test."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert blocks
    for name, text in blocks:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    yield tmp_path / "rldf_ray"
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs have the script instead of engines, and no Ray."""

    @contextmanager
    def cluster(logs: Path) -> Iterator[Resources]:
        yield Resources(4, 0, 64)

    def start(speaker: Speaker, context: SpeakerContext) -> AbstractContextManager[ChatModel]:
        return nullcontext(ScriptedModel())

    monkeypatch.setattr(pipeline, "ray_cluster", cluster)
    monkeypatch.setattr(holding, "ray_cluster", cluster)
    monkeypatch.setattr(scripted, "start", start)


def also_in(package: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's modules are in this folder, too."""
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])


def test_a_protocol_is_a_folder(
    files: Path, tmp_path: Path, spoken: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    also_in(protocols, files / "protocols", monkeypatch)
    assert protocol_names() == ["multirole", "silent"]
    plan = plan_with("debate.protocol=silent", "teacher=scripted:0")
    pipeline.run(plan, tmp_path / "run", Progress(), only=SPEAKING)
    run = RunFolder(tmp_path / "run")
    statements = statements_of(run.read_table("data/transcripts.parquet"))
    assert len(statements) == plan.debate.debates * plan.debate.debaters * plan.debate.rounds
    assert {statement.debater_model for statement in statements} == {"scripted"}
    assert run.read_table("data/pairs.parquet").num_rows > 0


def test_a_study_is_a_file_of_a_protocols_folder(
    files: Path, tmp_path: Path, spoken: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    also_in(protocols, files / "protocols", monkeypatch)
    assert "twice" in study_names() and "twice" not in protocol_names()
    plan = tmp_path / "twice.yaml"
    plan.write_text("models: {a: 'scripted:0'}\nsettings: {speakers: [a]}\n", encoding="utf-8")
    found = run_study("twice", load_study("twice", str(plan)), tmp_path / "out", Progress())
    assert found.facts == {"same": {"a": "0.00"}}
    assert "| a | 0.00 |" in (tmp_path / "out/tables/same.md").read_text(encoding="utf-8")


def test_nobody_reads_another_debaters_statement(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    also_in(protocols, files / "protocols", monkeypatch)

    def own_place(request: ChatRequest) -> str | None:
        return f"said in {request.address}" if "/role/" in request.address else None

    model, plan = RecordingModel(own_place), plan_with("debate.debates=1", "debate.rounds=3")
    protocol = protocol_named("silent")
    kept: dict[int, list[Statement]] = {}
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=PromptedReferee(model, 0))
    items = protocol.items([opinion(1), opinion(1, "profession")], plan)
    asyncio.run(hold_all(protocol, items, cast, kept.__setitem__))
    assert [statement.round for statement in kept[0]] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    for request in model.asked("/role/"):
        seat = request.address[-1]
        read = re.findall(r"said in \S+/role/(\d)", request.messages[-1].content)
        assert set(read) <= {seat}


def test_a_protocol_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ProtocolError, match=r"debate\.protocol=duel.*allowed: evince, .*multirole"):
        protocol_named("duel")


def test_a_backend_is_a_file(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    also_in(backends, files / "engines" / "backends", monkeypatch)
    speakers = Speakers(
        plan=plan_with("teacher=parrot:hello"),
        folder=RunFolder(tmp_path / "run"),
        placement=place(plan_with(), Resources(4, 0, 64)),
        progress=Progress(),
    )
    request = ChatRequest(messages=(Message("user", "Hi."),), max_tokens=8, address="a")
    (answer,) = asyncio.run(speakers.of("debate").complete(request))
    speakers.end()
    assert answer.text == "hello"
    with pytest.raises(PlanError, match="after 'parrot:' comes one word"):
        plan_with("teacher=parrot:7")


def test_a_method_is_a_file(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    also_in(methods, files / "comparison" / "methods", monkeypatch)
    (method,) = methods_of(plan_with("debate.rounds=3"), ["one_round"], ())
    assert method.training is not None
    assert method.training.source.debate.rounds == 1


def test_an_evaluation_is_a_folder(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    also_in(evaluate, files / "evaluate", monkeypatch)
    monkeypatch.setattr(openai_http, "OpenAIModel", lambda *_, **__: ScriptedModel())
    # The command line is made when its module is imported: here once more, then as it was.
    monkeypatch.setattr(rldf_ray, "cli", cli)
    monkeypatch.delitem(sys.modules, "rldf_ray.cli")
    again = importlib.import_module("rldf_ray.cli")
    with pytest.raises(SystemExit) as end:
        again.app(["eval", "first-place", "openai:any", str(tmp_path / "out")], prog_name="rldf")
    summary = json.loads(capsys.readouterr().out)
    assert end.value.code == 0
    assert summary == RunFolder(tmp_path / "out").read_json("eval/first_place.json")
    assert summary["n"] == 12 and 0 < summary["first"] < 12 and summary["failures"] == []


def test_two_evaluations_of_one_name_are_an_error() -> None:
    class Other:
        __name__ = "other"
        PLACE = 0
        COMMANDS: ClassVar = {"bbq": print}

    with pytest.raises(ValueError, match=r"`rldf eval bbq` is defined by both other and .*bbq"):
        add_evaluations(typer.Typer(), [Other()])


def test_a_bias_type_is_a_file(files: Path, tmp_path: Path, spoken: None) -> None:
    path = files / "topics" / "bias_types" / "residence.yaml"
    assert len(bias_type(str(path)).judgement_topics) == 4
    plan = plan_with(f"bias_types=[{path}]", "teacher=scripted:0")
    pipeline.run(plan, tmp_path / "run", Progress(), only=SPEAKING)
    topics = topics_of(RunFolder(tmp_path / "run").read_table("data/topics.parquet"))
    assert {topic.kind for topic in topics if topic.origin == "seed"} == {"opinion", "judgement"}
