"""A run folder's plan.yaml is the plan of its stages, or no command goes on with the folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rldf_ray import cli
from rldf_ray.apps.serve.settings_sources import settings_for
from rldf_ray.commands.doctor import measured
from rldf_ray.commands.publish import publish
from rldf_ray.plan import Plan, load_plan
from rldf_ray.plan.saved import check_stages, saved_plan, settle_plan
from rldf_ray.records import STATEMENT_SCHEMA
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.storage.stages import PIPELINE

PLAN, OTHER = load_plan("smoke"), load_plan("smoke", ["seed=7"])


def run_of(path: Path, plan: Plan, *stages: str) -> RunFolder:
    folder = RunFolder(path)
    folder.write_text("plan.yaml", plan.to_yaml())
    for stage in stages:
        folder.finish(stage, plan.digest(), {"seconds": 1.0, "peak_pss_gib": 1.0})
    return folder


def test_a_runs_own_plan_is_taken(tmp_path: Path) -> None:
    folder = run_of(tmp_path, PLAN, *PIPELINE)
    assert saved_plan(folder) == PLAN
    settle_plan(PLAN, folder)


def test_what_shapes_no_result_may_change(tmp_path: Path) -> None:
    folder = run_of(tmp_path, PLAN, *PIPELINE)
    faster = load_plan("smoke", ["engines.count=2"])
    settle_plan(faster, folder)
    assert saved_plan(folder) == faster


PAID = ["referee.below_min_auc=stop", "endpoint.api_key_env=KEY", "endpoint.prompt_price=1"]


@pytest.mark.parametrize(
    "later",
    [
        ["referee.below_min_auc=warn"],
        ["endpoint.api_key_env=OTHER"],
        ["endpoint={prompt_price: 2, generated_price: 3, budget_usd: 5}"],
    ],
)
def test_what_messages_advise_after_paid_debates_can_be_changed(
    later: list[str], tmp_path: Path
) -> None:
    plan, changed = load_plan("smoke", PAID), load_plan("smoke", [*PAID, *later])
    folder = run_of(tmp_path, plan, "topics", "debates")
    settle_plan(changed, folder)
    assert saved_plan(folder) == changed
    check_stages(plan, folder)


def test_a_run_of_an_earlier_version_that_had_prices_in_its_digest_goes_on(tmp_path: Path) -> None:
    plan = load_plan("smoke", PAID)
    folder = run_of(tmp_path, plan)
    for stage in ("topics", "debates"):
        folder.finish(stage, plan.earlier_digest(), {})
    settle_plan(plan, folder)
    assert saved_plan(folder) == plan
    # A plan that leaves them as they are has the digest that it had.
    assert load_plan("quickstart").digest() == load_plan("quickstart").earlier_digest()


def test_another_plan_is_answered_with_how_to_keep_what_was_asked(tmp_path: Path) -> None:
    folder = run_of(tmp_path, PLAN, "topics")
    with pytest.raises(RunFolderError, match=r"differs in seed.*another --out; .*journal/"):
        settle_plan(OTHER, folder)


@pytest.mark.parametrize(
    "field", ["endpoint.base_url=http://127.0.0.1:2/v1", "engines.dtype=float32"]
)
def test_a_journal_of_models_elsewhere_is_not_advised(tmp_path: Path, field: str) -> None:
    folder = run_of(tmp_path, PLAN, "topics")
    with pytest.raises(RunFolderError, match=f"differs in {field.partition('=')[0]}.*") as refused:
        settle_plan(load_plan("smoke", [field]), folder)
    assert "journal/" not in str(refused.value)


@pytest.mark.parametrize("left", ["logs/run.log", "journal/calls.jsonl"])
def test_a_plan_that_failed_before_anything_was_done_gives_way(tmp_path: Path, left: str) -> None:
    folder = run_of(tmp_path, PLAN)
    folder.write_text(left, "" if left.startswith("journal") else "it failed")
    settle_plan(OTHER, folder)
    assert saved_plan(folder) == OTHER


def test_a_stage_that_was_taken_and_an_evaluation_may_be_of_another_plan(tmp_path: Path) -> None:
    folder = run_of(tmp_path, PLAN, "topics", "debates")
    folder.finish("topics", OTHER.digest(), {"taken_from": "other"})
    folder.finish("eval", OTHER.digest(), {})
    check_stages(PLAN, folder)


def test_an_edited_plan_is_refused_with_file_stages_and_what_to_do(tmp_path: Path) -> None:
    folder = run_of(tmp_path, PLAN, "topics", "debates")
    folder.write_text("plan.yaml", OTHER.to_yaml())
    with pytest.raises(RunFolderError) as refused:
        saved_plan(folder)
    parts = (
        str(tmp_path / "plan.yaml"), "topics, debates were done with", PLAN.digest(),
        OTHER.digest(), "put that plan back", "--out DIR",
    )  # fmt: skip
    assert [part for part in parts if part not in str(refused.value)] == []


def test_a_run_does_not_go_on_with_stages_of_another_plan(tmp_path: Path) -> None:
    folder = run_of(tmp_path, PLAN, "topics")
    folder.remove("plan.yaml")
    with pytest.raises(RunFolderError, match="is not the plan that topics was done with"):
        settle_plan(OTHER, folder)
    assert not (tmp_path / "plan.yaml").exists()


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_plan_is_no_plan_of_defaults(tmp_path: Path, content: str) -> None:
    folder = run_of(tmp_path, PLAN)
    folder.write_text("plan.yaml", content)
    for use in (lambda: saved_plan(folder), lambda: settle_plan(PLAN, folder)):
        with pytest.raises(RunFolderError, match=r"plan\.yaml is empty: put the plan back"):
            use()


def rldf(*arguments: str) -> Callable[[], object]:
    return lambda: cli.app(list(arguments), prog_name="rldf", standalone_mode=False)


@pytest.mark.parametrize("content", ["", OTHER.to_yaml()], ids=["empty", "edited"])
def test_no_command_opens_a_run_whose_plan_was_changed(tmp_path: Path, content: str) -> None:
    folder = run_of(tmp_path / "run", PLAN, "topics", "debates", "data")
    folder.write_table("data/transcripts.parquet", pa.Table.from_pylist([], STATEMENT_SCHEMA))
    folder.write_text("data/README.md", "card")
    folder.write_text("model/config.json", "{}")
    folder.write_text("plan.yaml", content)
    run, target = str(folder.root), str(tmp_path / "target")
    commands: list[Callable[[], object]] = [
        rldf("report", run),
        rldf("show", run),
        rldf("eval", run),
        rldf("data", run),
        rldf("data", "export", run, target, "--to", "jsonl"),
        rldf("train", "sft", run),
        rldf("eval", "judge", run, "--judge", "openai:m"),
        lambda: measured(folder.root),
        lambda: settings_for(run, ("policy",), {}),
        lambda: publish(str(run), store=tmp_path / "store"),
    ]
    for command in commands:
        with pytest.raises(RunFolderError, match=r"is empty|is not the plan that topics"):
            command()
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
