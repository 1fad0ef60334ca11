"""Addresses of object stores: taken where a run is read or worked on, refused where a path is."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import rldf_ray
from rldf_ray import cli, pipeline
from rldf_ray.plan import load_plan
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.journal_segments import JOURNAL
from rldf_ray.storage.object_store import ObjectStoreError, local_path
from rldf_ray.storage.run_folder import RunFolder
from tests.commands.conftest import Rldf
from tests.s3_server import Buckets, as_environment, s3_server

RUN = "s3://bucket/runs/one"


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Buckets]:
    with s3_server("bucket") as (url, buckets):
        for name, value in as_environment(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
        yield buckets


def commands(app: typer.Typer) -> Iterator[Callable[..., Any]]:
    for command in app.registered_commands:
        assert command.callback is not None
        yield command.callback
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance)


def paths_of(command: Callable[..., Any]) -> list[tuple[str, bool]]:
    """The arguments of a command that are paths, and whether each is several."""
    known = inspect.signature(command, eval_str=True).parameters.values()
    kinds = {str(one.annotation): one.name for one in known}
    return [(name, "list[" in kind) for kind, name in kinds.items() if "pathlib.Path" in kind]


PATHS = [
    pytest.param(command, name, several, id=f"{command.__module__}.{command.__name__}-{name}")
    for command in commands(cli.app)
    for name, several in paths_of(command)
]


@pytest.mark.parametrize(("command", "name", "several"), PATHS)
def test_whatever_is_a_path_is_no_address(
    command: Callable[..., Any], name: str, several: bool
) -> None:
    address = Path("s3://bucket/there")
    with pytest.raises(ObjectStoreError, match=r"^s3://bucket/there is an address, and only"):
        command(**{name: [address] if several else address})


def test_most_commands_have_such_a_path() -> None:
    assert len(PATHS) > 20


@given(st.from_regex(r"[a-zA-Z][a-z0-9+.-]+://[a-z]+(/[a-z]*)*", fullmatch=True))
def test_an_address_is_known_as_a_text_and_as_a_path(address: str) -> None:
    for given_as in (address, Path(address)):
        with pytest.raises(ObjectStoreError):
            local_path(given_as)


@pytest.mark.parametrize("path", ["runs/one", "/a:/b", "a b:/c", "C:/runs", "1:/a", "~/x", "."])
def test_paths_are_paths(path: str) -> None:
    assert local_path(path) == Path(path)


@pytest.mark.parametrize(
    "command",
    [
        ["sweep", "smoke", "--over", "rounds", "--out", RUN],
        ["eval", "compare", "smoke", "--out", RUN],
        ["study", "rows", "runs/one", "--out", RUN],
        ["data", "export", "run", RUN, "--to", "jsonl"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_no_folder_is_made_of_an_address(command: list[str], rldf: Rldf, tmp_path: Path) -> None:
    if command[0] == "data":
        (tmp_path / "run").mkdir()
        (tmp_path / "run/plan.yaml").write_text(load_plan("smoke").to_yaml(), encoding="utf-8")
    status, _, err = rldf(*command)
    assert status == 1 and err.startswith(f"error: {RUN} is an address")
    assert not (tmp_path / "s3:").exists()


def test_an_audit_of_several_seeds_is_in_the_bucket(
    rldf: Rldf, buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = {"auc": 0.7, "verdict": "It separates.", "bag_of_words": None}
    asked: list[str] = []

    def run(plan: Any, where: str, progress: Any, **options: Any) -> None:
        folder = RunFolder.at(where)
        with folder.locked():
            folder.write_text("plan.yaml", plan.to_yaml())
            journal = Journal(folder.path(JOURNAL))
            if journal.get("audit/1") is None:
                asked.append(where)
                journal.append("audit/1", {})
            journal.close()
            row = {"context": "c", "text": "t", "score": 1.0, "expected_score": 1.0}
            folder.write_table("eval/referee.parquet", pa.Table.from_pylist([row]))
            folder.write_json("audit.json", found)

    monkeypatch.setattr(pipeline, "run", run)
    command = ("referee", "audit", "smoke", "--out", RUN, "--seeds", "2", "--json")
    # Once more here, and where nothing of it is.
    for cache in ("cache", "cache", "elsewhere"):
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / cache))
        status, out, err = rldf(*command)
        assert status == 0, err
        assert json.loads(out)["seeds"]["aucs"] == [0.7, 0.7]
    assert len(asked) == 2
    objects = buckets.objects["bucket"]
    assert json.loads(objects["runs/one/audit.json"][0])["seeds"]["aucs"] == [0.7, 0.7]
    seed = load_plan("smoke").seed + 1
    assert json.loads(objects[f"runs/one/seeds/{seed}/audit.json"][0]) == found
    assert not (tmp_path / "s3:").exists()


def in_bucket(write: Callable[[RunFolder], None]) -> None:
    folder = RunFolder.at(RUN)
    with folder.locked():
        write(folder)


def test_figures_are_drawn_of_what_is_in_a_bucket(
    rldf: Rldf, buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared = {"bias_type": "age", "prompt_id": "age-1", "prompt": "Q?"}
    answers = [{**shared, "method": name, "answer": name} for name in ("base", "policy")]

    def write(folder: RunFolder) -> None:
        folder.write_table("eval/answers.parquet", pa.Table.from_pylist(answers))

    in_bucket(write)
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "elsewhere"))
    status, _, err = rldf("eval", "figures", RUN)
    assert status == 1 and "give --out" in err
    status, out, err = rldf("eval", "figures", RUN, "--out", "drawn")
    assert status == 0, err
    assert str(Path("drawn")) in out and list((tmp_path / "drawn").iterdir())
    status, out, err = rldf("eval", "human", "export", RUN, "--out", "sheet")
    assert status == 0, err
    assert "2 answers" in out


def test_a_run_in_a_bucket_is_published_to_a_store_and_not_served_whole(
    rldf: Rldf, buckets: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def write(folder: RunFolder) -> None:
        folder.write_text("plan.yaml", load_plan("smoke").to_yaml())
        folder.write_text("model/config.json", "{}")
        folder.write_text("model/model.safetensors", "weights")

    in_bucket(write)
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "elsewhere"))
    status, _, err = rldf("publish", RUN, "--store", "store")
    assert status == 0, err
    assert (tmp_path / "store/policy/versions/v0001/config.json").exists()
    status, _, err = rldf("serve", RUN)
    assert status == 1 and f"its model alone can be served: {RUN}/model" in err


def test_functions_write_into_folders_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[Callable[[], object]] = [
        lambda: rldf_ray.compare("smoke", RUN, methods=["default"]),
        lambda: rldf_ray.bbq("embedded", bbq="hub", out=RUN),
        lambda: rldf_ray.judge("answers.jsonl", "openai:judge", out=RUN),
        lambda: rldf_ray.export("runs/one", RUN, to="inspect"),
    ]
    for call in calls:
        with pytest.raises(ObjectStoreError, match="is an address, and only"):
            call()
    assert not list(tmp_path.iterdir())
