"""What trials share is the same afterwards, and whole or not there at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rldf_ray.apps.tune.store import Store, generated_tokens
from rldf_ray.models.base import ChatRequest, Message
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan.saved import settle_plan
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import RecordingModel, plan_with
from tests.s3_server import as_environment, s3_server


def _request(text: str, address: str) -> ChatRequest:
    return ChatRequest(messages=(Message("user", text),), max_tokens=32, address=address)


@pytest.fixture(params=["folder", "address", "bucket"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    if request.param == "folder":
        yield Store.at(str(tmp_path / "a store"))
    elif request.param == "address":
        yield Store.at((tmp_path / "a store").as_uri())
    else:
        # Calls are copied before they are read.
        with s3_server("bucket") as (url, _):
            for name, value in as_environment(url).items():
                monkeypatch.setenv(name, value)
            yield Store.at("s3://bucket/sweeps")


async def test_calls_of_one_run_answer_another_and_are_counted_once(
    store: Store, tmp_path: Path
) -> None:
    requests = [_request(f"Say {i}", f"debate-{i}/round/1/role/0") for i in range(5)]
    first = tmp_path / "first.jsonl"
    with closing(Journal(first)) as journal:
        model = JournaledModel(ScriptedModel(), journal)
        said = [await model.complete(request) for request in requests]
    store.keep_calls("one", first)

    second, engine = tmp_path / "second.jsonl", RecordingModel()
    engine.name = "scripted"
    with closing(Journal(second)) as journal, closing(store.calls(tmp_path / "cache")) as calls:
        model = JournaledModel(engine, journal, calls)
        again = [await model.complete(request) for request in requests]
        await model.complete(_request("Something else", "debate-0/round/1/role/0"))
    assert [a[0].text for a in again] == [s[0].text for s in said]
    assert [r.messages[0].content for r in engine.requests] == ["Something else"]
    new = model.usage.generated - sum(s[0].usage.generated for s in said)
    assert generated_tokens(second) == new > 0


def test_a_store_without_calls_knows_none(store: Store, tmp_path: Path) -> None:
    store.keep_calls("nothing", tmp_path / "no-such.jsonl")
    with closing(store.calls(tmp_path / "cache")) as calls:
        assert calls.samples("0123456789abcdef") is None


def test_calls_without_a_manifest_are_not_there(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path / "store"))
    path = tmp_path / "store/calls/cut-off.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"address":"01/23","samples":[]}\n', encoding="utf-8")
    with closing(store.calls(tmp_path / "cache")) as calls:
        assert calls.samples("0123") is None


def test_a_stage_comes_back_with_its_files_and_manifest(store: Store, tmp_path: Path) -> None:
    run, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "other")
    run.write_text("sft/model/weights", "1 2 3")
    run.write_text("sft/progress.jsonl", "{}\n")
    run.finish("sft", "key", {"seconds": 2.0})
    assert not store.fetch("sft", "key", other)
    store.keep("sft", "key", run)
    assert store.fetch("sft", "key", other)
    assert not store.fetch("sft", "another key", RunFolder(tmp_path / "third"))
    assert (other.root / "sft/model/weights").read_text(encoding="utf-8") == "1 2 3"
    assert other.manifest("sft") == {**(run.manifest("sft") or {}), "taken_from": "sft-key"}


def test_a_trial_goes_on_with_a_stage_of_another_trials_plan(store: Store, tmp_path: Path) -> None:
    theirs, ours = plan_with("seed=1"), plan_with("seed=2")
    run, other = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "other")
    run.finish("sft", theirs.digest(), {"seconds": 2.0})
    store.keep("sft", "key", run)
    store.fetch("sft", "key", other)
    settle_plan(ours, other)


def test_an_unfinished_stage_is_not_kept(store: Store, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.write_text("sft/model/weights", "half")
    store.keep("sft", "key", run)
    assert not store.fetch("sft", "key", RunFolder(tmp_path / "other"))
