"""Which stages a command does, and what it forgets: no engine, no training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldf_ray import pipeline as whole
from rldf_ray.console import Progress
from rldf_ray.engines.checks import PreflightError
from rldf_ray.plan import Plan, load_plan
from rldf_ray.stages.order import (
    GOES_ON_FROM,
    audited_on_given,
    check_order,
    forget,
    freed_gib,
    unfinished,
    with_referee,
)
from rldf_ray.stages.run import Run, StageError
from rldf_ray.stages.table import STAGES
from rldf_ray.storage.results import DataResult
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import (
    PIPELINE,
    begins_as,
    depending_on,
    needed_by,
    pipeline,
    whole_run,
)
from tests.fakes import plan_with

PPO = tuple(pipeline(("ppo",)))
AFTER = (("ppo",), ("dpo",), ("kto",), ("dpo", "ppo"), ("kto", "dpo"))
PROMPTED, TRAINED = plan_with(), plan_with("referee={kind: trained}")


def folder_with(path: Path, *finished: str) -> RunFolder:
    folder = RunFolder(path)
    for stage in finished:
        folder.finish(stage, "key", {})
    return folder


def test_a_trained_referee_is_fitted_before_the_first_stage_that_asks_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert with_referee(TRAINED, folder, ("audit",)) == ["referee", "audit"]
    speaking = ("topics", "audit", "debates")
    assert with_referee(TRAINED, folder, speaking) == ["referee", *speaking]
    assert with_referee(TRAINED, folder, tuple(PIPELINE))[0] == "referee"


def test_nobody_fits_a_referee_that_is_not_asked(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert with_referee(TRAINED, folder, ("topics",)) == ["topics"]
    assert "referee" not in with_referee(PROMPTED, folder, tuple(PIPELINE))
    held = folder_with(tmp_path, "topics", "debates")
    assert with_referee(TRAINED, held, ("topics", "debates", "data")) == [
        "topics",
        "debates",
        "data",
    ]


def test_later_stages_do_not_wait_for_audit_or_referee(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "topics", "debates")
    check_order(PROMPTED, folder, ("data",))
    with pytest.raises(StageError, match="sft needs data"):
        check_order(PROMPTED, folder, ("sft",))


def test_another_audit_leaves_everything_else_as_it_is(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, *PPO)
    forget(folder, depending_on(["audit"]))
    left = [name for name in PPO if folder.manifest(name) is not None]
    assert left == [name for name in PPO if name != "audit"]


@pytest.mark.parametrize("file", [None, "/data/mine.jsonl"])
def test_an_audit_on_given_statements_is_none_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str | None
) -> None:
    """The next run audits its referee on its own statements, and does nothing else again."""
    done: list[tuple[list[str], list[str]]] = []
    monkeypatch.setattr(whole, "check_inputs", lambda *_: [])
    monkeypatch.setattr(whole, "_do", lambda todo, anew, *_: done.append((list(todo), list(anew))))
    plan = plan_with()
    folder = RunFolder(tmp_path)
    folder.write_text("plan.yaml", plan.to_yaml())
    found = {"verdict": "v", "distinct_said_scores": 2, "by_bias_type": {}, "file": file}
    facts = {"referee": found, "seconds": 1, "peak_pss_gib": 1}
    for name in ("topics", "audit"):
        folder.finish(name, plan.digest(), {**facts, "topics": {}})
    assert audited_on_given(folder) == bool(file)
    for only in (("audit",), ("topics", "audit"), ("topics",)):
        whole.run(plan, tmp_path, Progress(), only=only)
    assert done == ([(["audit"], ["audit"])] * 2 if file else [])


def test_a_stage_done_again_takes_what_depends_on_it_along(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, *PPO)
    forget(folder, depending_on(["data"]))
    left = [name for name in PPO if folder.manifest(name) is not None]
    assert left == ["referee", "topics", "audit", "debates"]


class KilledError(Exception):
    """What the run is ended by."""


def test_a_redo_that_is_killed_as_it_empties_the_first_folder_leaves_nothing_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path, *PPO)

    def killed(*given: Any) -> Path:
        raise KilledError

    monkeypatch.setattr(RunFolder, "fresh_folder", killed)
    anew = depending_on(["sft"])
    with pytest.raises(KilledError):
        forget(folder, anew)
    assert unfinished(folder, PPO) == anew == ["sft", "reward", "ppo", "eval"]


@pytest.mark.parametrize("after", AFTER, ids="-".join)
@pytest.mark.parametrize("first", ["referee", "topics", "data", "sft", "reward"])
def test_whatever_a_killed_redo_leaves_is_of_what_is_still_there(
    monkeypatch: pytest.MonkeyPatch, first: str, after: tuple[str, ...]
) -> None:
    """Before each of its removals, of manifests or of what training goes on from."""
    removed: list[str] = []
    for does in ("remove", "fresh_folder"):
        monkeypatch.setattr(RunFolder, does, lambda _, name: removed.append(name))
    forget(RunFolder(Path("run")), depending_on([first], after))
    stages = pipeline(after)
    manifests = [f"stages/{name}.json" for name in stages]
    kept = [f"{n}/{file}" for n in stages for file in GOES_ON_FROM if stages[n].trains]
    for gone in (removed[:place] for place in range(len(removed) + 1)):
        there = {*manifests, *kept} - {*gone}
        for cause in stages:
            if f"stages/{cause}.json" in there:
                continue
            for later in depending_on([cause], after):
                assert later == cause or f"stages/{later}.json" not in there
                assert later == cause or not [n for n in there if n.startswith(f"{later}/")]


def test_what_is_done_anew_has_not_finished(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, *PPO)
    assert unfinished(folder, PPO) == []
    anew = depending_on(["topics"])
    assert unfinished(folder, PPO, anew) == anew
    assert with_referee(TRAINED, folder, ("debates",), anew) == ["referee", "debates"]
    assert with_referee(TRAINED, folder, ("debates",)) == ["debates"]
    with pytest.raises(StageError, match="sft needs debates"):
        check_order(PROMPTED, folder, ("topics", "sft"), anew)
    check_order(PROMPTED, folder, ("topics", "sft"))


def run_with(path: Path, plan: Plan) -> RunFolder:
    """A run of the plan in which every stage has finished and every model has 2 MiB."""
    folder = RunFolder(path)
    for stage in whole_run(plan.train.after):
        folder.finish(stage, plan.digest(), {})
    folder.write_text("plan.yaml", plan.to_yaml())
    for name in ("sft", "reward", "ppo"):
        weights = folder.path(f"{name}/model/model.safetensors")
        weights.parent.mkdir(parents=True, exist_ok=True)
        weights.write_bytes(b"0" * 2**21)
    return folder


def left_of(folder: RunFolder) -> dict[str, bool]:
    """Every stage and model of `run_with`, and whether it is still there."""
    files = [f"{name}/model/model.safetensors" for name in ("sft", "reward", "ppo")]
    return {name: folder.manifest(name) is not None for name in whole_run(("ppo",))} | {
        name: (folder.root / name).exists() for name in files
    }


def test_what_cannot_be_done_again_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    plan = plan_with("teacher=openai:some-model")
    folder = run_with(tmp_path / "run", plan)
    with pytest.raises(PreflightError, match=r"evaluate\.bbq.*typo"):
        whole.run(plan, folder.root, Progress(), only=("eval",), bbq=tmp_path / "typo")
    with pytest.raises(PreflightError, match="OPENAI_API_KEY"):
        whole.run(plan, folder.root, Progress(), redo=True)
    with pytest.raises(StageError, match="dpo is no stage of this run"):
        whole.run(plan, folder.root, Progress(), only=("data", "dpo"), redo=True)
    with pytest.raises(StageError, match="sft needs debates"):
        whole.run(plan, folder.root, Progress(), only=("topics", "sft"), redo=True)
    with pytest.raises(OSError, match=r"none\.jsonl"):
        whole.run(
            plan, folder.root, Progress(), only=("audit",), statements=tmp_path / "none.jsonl"
        )
    assert all(left_of(folder).values())


def test_room_that_models_done_again_give_back_is_counted(tmp_path: Path) -> None:
    folder = run_with(tmp_path, PROMPTED)
    assert freed_gib(folder, ["data", "sft", "ppo"]) == 2 * 2**21 / 2**30
    assert freed_gib(folder, ["topics", "kto"]) == 0


def test_every_stage_of_the_table_has_a_function_and_stands_after_what_it_needs() -> None:
    assert list(STAGES) == list(PIPELINE)
    for after in AFTER:
        stages = pipeline(after)
        for place, stage in enumerate(stages.values()):
            assert {*stage.needs, *stage.reads} <= {*list(stages)[:place]}


def test_a_topic_written_anew_changes_all_but_the_referee() -> None:
    assert depending_on(["topics"]) == [n for n in PPO if n not in ("referee", "audit")]
    assert depending_on(["referee"]) == [n for n in PPO if n != "topics"]
    assert depending_on(["topics", "audit", "debates"]) == list(PPO)[1:]


def test_a_run_is_of_the_stages_that_its_plan_names_after_sft() -> None:
    training = {after: whole_run(after)[5:] for after in AFTER}
    assert training == {
        ("ppo",): ("sft", "reward", "ppo", "eval"),
        ("dpo",): ("sft", "dpo", "eval"),
        ("kto",): ("sft", "kto", "eval"),
        ("dpo", "ppo"): ("sft", "reward", "dpo", "ppo", "eval"),
        ("kto", "dpo"): ("sft", "kto", "dpo", "eval"),
    }


def test_each_policy_begins_as_the_one_before_it_and_the_last_is_evaluated() -> None:
    assert begins_as("dpo", ("dpo", "ppo")) == "sft"
    assert begins_as("ppo", ("dpo", "ppo")) == "dpo"
    assert needed_by("ppo", ("dpo", "ppo")) == [
        "topics", "debates", "data", "sft", "reward", "dpo",
    ]  # fmt: skip
    assert "dpo" in needed_by("eval", ("kto", "dpo"))
    assert "reward" not in needed_by("eval", ("kto", "dpo"))
    # What an evaluation has read of a reward model that somebody trained is of that one.
    assert depending_on(["reward"], ("dpo",)) == ["reward", "eval"]


def test_without_ppo_an_evaluation_needs_no_reward_model(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "topics", "debates", "data", "sft", "dpo")
    check_order(plan_with("train.after=[dpo]"), folder, ("eval",))
    with pytest.raises(StageError, match="eval needs reward"):
        check_order(PROMPTED, folder, ("eval",))


def test_a_stage_that_the_plan_does_not_have_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "topics", "debates", "data", "sft")
    with pytest.raises(StageError, match=r"train\.after=\[ppo\]; begin another .*after=\[dpo\]"):
        check_order(PROMPTED, folder, ("dpo",))


def test_stages_that_compute_nothing_here_need_no_machine_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debates at an endpoint, from a head or a laptop, of a plan that trains on eight GPUs."""
    seen: list[str] = []

    def stage(run: Run) -> DataResult:
        seen.append(run.placement.describe())
        return DataResult(sft=1, pairs=1, ppo_prompts=1, eval_prompts=1, bytes=1, quality={})

    monkeypatch.setattr(whole, "check_inputs", lambda *_: [])
    monkeypatch.setattr(whole, "write_report", lambda *_: None)
    monkeypatch.setattr(whole, "stage_notes", lambda *_: [])
    # The process may use Ray for another run meanwhile.
    monkeypatch.setattr(whole, "ray_cluster", None)
    plan = load_plan("paper-7b", ["teacher=openai:m", "engines.count=64"])
    for name in ("topics", "debates"):
        RunFolder(tmp_path).finish(name, plan.digest(), {})
    whole.run(plan, tmp_path, Progress(), only=("data",), stages_of={"data": stage})
    assert len(seen) == 1 and "nothing is computed here" in seen[0]
