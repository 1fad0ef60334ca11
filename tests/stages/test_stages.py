"""What a training stage is given."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from msgspec import UNSET

from rldf_ray.cluster.placement import Placement
from rldf_ray.console import Progress
from rldf_ray.dataset.preference_data import prompts_table
from rldf_ray.engines import plan_engines
from rldf_ray.engines.vllm_actor import EngineSettings
from rldf_ray.models.base import Usage
from rldf_ray.models.embedded import located, resolve_model
from rldf_ray.records import TOPIC_SCHEMA, table_of
from rldf_ray.stages import referee as referee_stage
from rldf_ray.stages import reward as reward_stage
from rldf_ray.stages import sft as sft_stage
from rldf_ray.stages import training as training_stages
from rldf_ray.stages.ppo import ASKED
from rldf_ray.stages.run import Run, tokens_since
from rldf_ray.stages.training import train_in_folder
from rldf_ray.storage.object_store import ObjectStore
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.train.diverged import DivergedError
from rldf_ray.train.worker import BEGAN, TrainJob, note_begun
from tests.fakes import plan_with
from tests.s3_server import as_environment, s3_server

PLACEMENT = Placement(
    device="cpu",
    engines=1,
    engine_cpus=1,
    engine_gpus=0,
    workers=1,
    worker_cpus=1,
    worker_gpus=0,
    threads=1,
)
SPEAKERS: Any = None  # nobody speaks in these stages


class BegunError(Exception):
    """Training would begin now."""


def test_a_referee_in_a_bucket_is_fitted_to_pairs_that_workers_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_in_folder(run: Run, *given: Any) -> Any:
        _, _, folders, _ = given
        found = ObjectStore(folders["data"]).list()
        assert list(found) == ["pairs.parquet"]
        raise BegunError

    monkeypatch.setattr(referee_stage, "train_in_folder", train_in_folder)
    with s3_server("bucket") as (url, _):
        for name, value in (as_environment(url) | {"RLDF_CACHE": str(tmp_path)}).items():
            monkeypatch.setenv(name, value)
        folder = RunFolder.at("s3://bucket/run")
        run = Run(
            plan=plan_with("referee.kind=trained"),
            folder=folder,
            placement=PLACEMENT,
            progress=Progress(),
            run_id="id",
            speakers=SPEAKERS,
        )
        with folder.locked(), pytest.raises(BegunError):
            referee_stage.referee(run)


@pytest.mark.parametrize(
    ("overrides", "begins_as"),
    [
        ((), {"model": "sft/model"}),
        (("reward.start=model",), {"model": "embedded"}),
        (("train.lora.rank=4",), {"model": "embedded", "adapter": "sft/adapter"}),
        (("train.lora.rank=4", "reward.start=model"), {"model": "embedded"}),
    ],
    ids=["pi_SFT", "the model", "pi_SFT, adapters", "the model, adapters"],
)
def test_the_reward_model_begins_as_the_plan_says(
    overrides: tuple[str, ...],
    begins_as: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Mapping[str, str]] = []

    def train_in_folder(run: Run, name: str, train: Any, folders: Mapping[str, str]) -> Any:
        given.append(folders)
        return []

    monkeypatch.setattr(reward_stage, "train_in_folder", train_in_folder)
    folder = RunFolder(tmp_path)
    folder.write_table("data/pairs.parquet", pa.table({"topic_id": ["a", "b"]}))
    folder.write_table("data/sft.parquet", pa.table({"topic_id": ["a", "c"]}))
    folder.write_table("data/topics.parquet", table_of([], TOPIC_SCHEMA))
    folder.write_table("data/prompts.parquet", prompts_table([]))
    plan = plan_with("model=embedded", *overrides)
    run = Run(
        plan=plan,
        folder=folder,
        placement=PLACEMENT,
        progress=Progress(),
        run_id="id",
        speakers=SPEAKERS,
    )
    assert reward_stage.reward(run).pairs == 2
    inside = {name: found.removeprefix(f"{tmp_path}/") for name, found in given[0].items()}
    assert inside == begins_as


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_a_training_that_had_ended_in_a_killed_stage_is_not_done_again(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    starts: list[float] = []

    def train(job: TrainJob, on_progress: Any) -> list[dict[str, Any]]:
        trained.append(job.folders["out"])
        time.sleep(0.2)
        (tmp_path / BEGAN).unlink(missing_ok=True)
        note_begun(tmp_path)
        if where == "bucket":
            ObjectStore(job.folders["out"]).upload(tmp_path / BEGAN, BEGAN)
        else:
            (tmp_path / BEGAN).rename(Path(job.folders["out"]) / BEGAN)
        return [{"loss": len(trained)}]

    with s3_server("bucket") as (url, _):
        for name, value in (as_environment(url) | {"RLDF_CACHE": str(tmp_path / "a")}).items():
            monkeypatch.setenv(name, value)
        folder = RunFolder.at(tmp_path / "run" if where == "folder" else "s3://bucket/run")

        def history() -> Any:
            with folder.locked():
                run = Run(
                    plan=plan_with(),
                    folder=folder,
                    placement=PLACEMENT,
                    progress=Progress(),
                    run_id="id",
                    speakers=SPEAKERS,
                )
                history = training_stages.train_in_folder(run, "sft", train, {})
                starts.append(run.clock.lap().start_seconds)
                assert not folder.fetched(f"sft/{BEGAN}").exists()
                return history

        assert history() == [{"loss": 1}]
        if where == "bucket":  # and not on another machine either
            monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "b"))
            folder = RunFolder.at("s3://bucket/run")
        assert history() == [{"loss": 1}]
        with folder.locked():
            folder.fresh_folder("sft")  # as --redo does
        assert history() == [{"loss": 2}]
    assert len(trained) == 2
    assert starts[0] >= 0.2 and starts[1] == 0.0 and starts[2] >= 0.2


def test_a_training_that_begins_again_keeps_what_it_has_paid_for(tmp_path: Path) -> None:
    run = Run(
        plan=plan_with("train.checkpoint_every=null"),
        folder=RunFolder(tmp_path),
        placement=PLACEMENT,
        progress=Progress(),
        run_id="id",
        speakers=SPEAKERS,
    )
    for name in ("rewards-mine-0.jsonl", "progress.jsonl"):
        run.folder.write_text(f"ppo/{name}", "{}")
    there: list[str] = []

    def train(job: TrainJob, on_progress: object) -> list[dict[str, Any]]:
        there.extend(path.name for path in Path(job.folders["out"]).iterdir() if path.is_file())
        return []

    training_stages.train_in_folder(run, "ppo", train, {}, kept=ASKED)
    assert there == ["rewards-mine-0.jsonl"]


@pytest.mark.parametrize("figure", ["loss", "train_loss", "reward", "kl"])
def test_a_training_that_diverged_is_an_error_that_names_the_step(
    tmp_path: Path, figure: str
) -> None:
    logged = [{"step": 1, figure: 0.5}, {"step": 2, figure: None}]
    run = Run(
        plan=plan_with(),
        folder=RunFolder(tmp_path),
        placement=PLACEMENT,
        progress=Progress(),
        run_id="id",
        speakers=SPEAKERS,
    )
    with pytest.raises(DivergedError, match=rf"ppo: {figure} is not a finite number at step 2"):
        training_stages.train_in_folder(run, "ppo", lambda job, on_progress: logged, {})
    assert not (tmp_path / "ppo/trained.json").exists()


def test_manifests_tell_tokens_counted_by_characters_where_there_are_any() -> None:
    run: Any = SimpleNamespace(
        speakers=SimpleNamespace(usage=Usage(70, 16, 30, 12), paid_usage=Usage(7, 0, 3, 5))
    )
    assert tokens_since(run, (Usage(20, 6, 10, 2), Usage(1, 0, 1, 5))) == {
        "tokens": {"prompt": 50, "cached": 10, "generated": 20, "by_characters": 10},
        "paid_tokens": {"prompt": 6, "cached": 0, "generated": 2},
    }


def test_what_was_too_long_to_learn_from_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_in_folder(run: Run, name: str, *given: Any) -> Any:
        rows = {"used": 5, "held_out": 1, "too_long": 2}
        run.folder.write_json(f"{name}/rows.json", rows)
        return []

    for stage in (reward_stage, sft_stage):
        monkeypatch.setattr(stage, "train_in_folder", train_in_folder)
    folder = RunFolder(tmp_path)
    folder.write_table("data/pairs.parquet", pa.table({"topic_id": ["a", "b"]}))
    folder.write_table("data/sft.parquet", pa.table({"topic_id": ["a", "c"]}))
    folder.write_table("data/topics.parquet", table_of([], TOPIC_SCHEMA))
    folder.write_table("data/prompts.parquet", prompts_table([]))
    run = Run(
        plan=plan_with("model=embedded"),
        folder=folder,
        placement=PLACEMENT,
        progress=Progress(),
        run_id="id",
        speakers=SPEAKERS,
    )
    examples, pairs = sft_stage.sft(run), reward_stage.reward(run)
    assert (examples.examples, examples.too_long) == (5, 2)
    assert (pairs.pairs, pairs.held_out_pairs, pairs.too_long) == (5, 1, 2)


@pytest.mark.parametrize(
    ("overrides", "taught"),
    [
        ((), 4),
        # Both stages keep the topics with the smallest hashes aside.
        (("sft={epochs: 2, held_out_share: 0.5}",), 0),
        (("sft={epochs: 2, held_out_share: 0.25}",), 2),
        (("reward.start=model",), UNSET),
    ],
)
def test_how_many_held_out_topics_sft_has_learned_from_is_counted(
    overrides: tuple[str, ...], taught: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reward_stage, "train_in_folder", lambda *_: [])
    topics = [f"t{number}" for number in range(8)]
    folder = RunFolder(tmp_path)
    for name in ("pairs", "sft"):
        folder.write_table(f"data/{name}.parquet", pa.table({"topic_id": topics}))
    folder.write_table("data/topics.parquet", table_of([], TOPIC_SCHEMA))
    folder.write_table("data/prompts.parquet", prompts_table([]))
    run = Run(
        plan=plan_with("model=embedded", "reward.held_out_share=0.5", *overrides),
        folder=folder,
        placement=PLACEMENT,
        progress=Progress(),
        run_id="id",
        speakers=SPEAKERS,
    )
    assert reward_stage.reward(run).held_out_taught == taught


def test_workers_find_a_model_that_the_plan_names_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "models/mine"
    model.mkdir(parents=True)
    (model / "config.json").touch()
    monkeypatch.chdir(tmp_path)
    plan = plan_with("model=models/mine")
    started: dict[str, Any] = {}

    def train(job: TrainJob, on_progress: object) -> None:
        started.update(job.folders)
        raise BegunError

    @contextmanager
    def pool(plan: Any, placement: Any, settings: EngineSettings, *_: Any) -> Iterator[None]:
        started["engine"] = settings
        yield

    monkeypatch.setattr(plan_engines, "engine_pool", pool)
    run = Run(
        plan=plan,
        folder=RunFolder.at(tmp_path / "run"),
        placement=PLACEMENT,
        progress=Progress(),
        run_id="id",
        speakers=SPEAKERS,
    )
    (tmp_path / "run/data").mkdir(parents=True)
    with run.folder.locked(), pytest.raises(BegunError):
        train_in_folder(run, "sft", train, {"model": plan.model})  # type: ignore[arg-type]
    with plan_engines.policy_engines(plan, PLACEMENT, Progress(), plan.model, "base", "float32"):
        pass
    monkeypatch.chdir(tmp_path / "run")
    assert started["model"] == resolve_model(started["engine"].weights) == str(model)
    # Records name it as the plan does.
    assert started["engine"].model == "models/mine"


def test_names_that_are_no_folders_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "embedded").mkdir()
    for name in ("embedded", "org/name", "s3://bucket/model"):
        assert located(name) == name
