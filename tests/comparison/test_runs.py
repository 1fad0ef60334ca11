"""Runs behind a comparison: what is shared, what is done again after a kill (nothing)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.comparison import runs
from rldf_ray.comparison.method import Method, methods_of
from rldf_ray.comparison.runs import (
    carry_out,
    data_runs,
    debate_runs,
    fewest_pairs,
    training_runs,
)
from rldf_ray.console import Progress
from rldf_ray.plan import Plan
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.storage.stages import PIPELINE
from tests.fakes import plan_with


class Pipeline:
    """Stands in for `pipeline.run`: finishes stages, remembers which, and can be killed."""

    def __init__(self, die_at: str | None = None) -> None:
        self.done: list[tuple[str, str]] = []
        self.die_at = die_at

    def run(self, plan: Plan, out: Path, progress: Progress, only: Any, stages_of: Any) -> None:
        folder = RunFolder(out)
        for stage in only:
            if folder.manifest(stage) is not None:
                continue
            if f"{out.parent.name}/{stage}" == self.die_at:
                raise KeyboardInterrupt
            self.done.append((out.name, stage))
            for name in PIPELINE[stage].files:
                folder.write_text(name, f"{out.name} {stage}")
            pairs = 9 if "rlaif" in plan.name else 12
            folder.finish(stage, plan.digest(), {"pairs": pairs, "seconds": 1.0})
        if self.die_at == f"{out.parent.name}/report":
            raise KeyboardInterrupt
        folder.write_text("plan.yaml", plan.to_yaml())
        folder.write_json("report.json", {})


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    stand_in = Pipeline()
    monkeypatch.setattr(runs, "pipeline", stand_in)
    return stand_in


@pytest.fixture
def methods() -> list[Method]:
    return methods_of(plan_with(), None, ("openai:a",))


def everything(methods: list[Method], out: Path, repeats: int = 3) -> None:
    for planned in (*debate_runs(methods, out), *data_runs(methods)):
        carry_out(planned, out, Progress())
    for planned in training_runs(methods, repeats, fewest_pairs(methods, out)):
        carry_out(planned, out, Progress())


def test_shared_stages_are_computed_once(
    pipeline: Pipeline, methods: list[Method], tmp_path: Path
) -> None:
    everything(methods, tmp_path)
    # Sources: self (also SFT's), RLAIF, teacher; the first two have the same referee.
    assert Counter(stage for _, stage in pipeline.done) == {
        "topics": 1,
        "audit": 2,
        "debates": 3,
        "data": 3 + 2 * 3 * 3,
        "sft": 9,
        "reward": 9,
        "ppo": 9,
    }


def test_sft_alone_stops_after_stage_one(pipeline: Pipeline, tmp_path: Path) -> None:
    everything(methods_of(plan_with(), ["default", "sft"], ()), tmp_path, repeats=2)
    assert Counter(stage for _, stage in pipeline.done) == {
        "topics": 1, "audit": 1, "debates": 1, "data": 3, "sft": 2,
    }  # fmt: skip


def test_a_method_added_later_finds_what_the_others_did(pipeline: Pipeline, tmp_path: Path) -> None:
    everything(methods_of(plan_with(), ["sft", "rldf_self"], ()), tmp_path)
    before = len(pipeline.done)
    everything(methods_of(plan_with(), ["sft", "rldf_self", "cot"], ()), tmp_path)
    assert len(pipeline.done) == before


@pytest.mark.parametrize("later", [None, ["rldf_self", "rlaif"]])
def test_topics_are_written_and_a_referee_audited_once_whichever_method_came_first(
    later: list[str] | None, pipeline: Pipeline, tmp_path: Path
) -> None:
    plan = plan_with("referee.model=openai:judge")
    everything(methods_of(plan, ["rlaif"], ()), tmp_path)
    everything(methods_of(plan, later, ()), tmp_path)
    assert Counter(stage for _, stage in pipeline.done)["topics"] == 1
    assert Counter(stage for _, stage in pipeline.done)["audit"] == 1


@pytest.mark.parametrize("first", ["rldf_self", "rlaif", "rldf_teacher"])
def test_methods_that_are_given_one_after_another_have_the_topics_of_the_first(
    first: str, pipeline: Pipeline, tmp_path: Path
) -> None:
    others = [name for name in ("rldf_self", "rlaif", "rldf_teacher") if name != first]
    for name in (first, *others):
        everything(
            methods_of(plan_with(), [name], ("openai:a",) * (name == "rldf_teacher")), tmp_path
        )
    # The teacher referees its own debates; the other two have the same referee.
    stages = Counter(stage for _, stage in pipeline.done)
    assert (stages["topics"], stages["audit"], stages["debates"]) == (1, 2, 3)
    texts = {
        path.read_text(encoding="utf-8")
        for path in (tmp_path / "runs/debates").glob("*/data/topics.parquet")
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    "changed", ["topics.per_bias_type=4", "seed=3", "bias_types=[age, nationality]"]
)
def test_topics_of_another_plan_are_not_taken(
    changed: str, pipeline: Pipeline, tmp_path: Path
) -> None:
    everything(methods_of(plan_with(), ["rldf_self"], ()), tmp_path)
    everything(methods_of(plan_with(changed), ["rlaif"], ()), tmp_path)
    assert Counter(stage for _, stage in pipeline.done)["topics"] == 2


def test_a_plan_of_other_debates_has_the_topics_and_audits_for_itself(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    for changed in ("debate.rounds=2", "debate.rounds=3"):
        everything(methods_of(plan_with(changed), ["rldf_self"], ()), tmp_path)
    stages = Counter(stage for _, stage in pipeline.done)
    assert (stages["topics"], stages["audit"], stages["debates"]) == (1, 2, 2)


def test_a_folder_whose_plan_cannot_be_read_gives_no_topics(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    everything(methods_of(plan_with(), ["rldf_self"], ()), tmp_path)
    for path in (tmp_path / "runs/debates").glob("*/plan.yaml"):
        path.write_text("[", encoding="utf-8")
    everything(methods_of(plan_with(), ["rlaif"], ()), tmp_path)
    assert Counter(stage for _, stage in pipeline.done)["topics"] == 2


@pytest.mark.parametrize(
    "die_at",
    [
        "debates/debates",
        "debates/audit",
        "data/data",
        "trained/reward",
        "trained/sft",
        "trained/report",
    ],
)
def test_a_killed_comparison_repeats_nothing(
    die_at: str, pipeline: Pipeline, methods: list[Method], tmp_path: Path
) -> None:
    pipeline.die_at = die_at
    with pytest.raises(KeyboardInterrupt):
        everything(methods, tmp_path)
    pipeline.die_at = None
    everything(methods, tmp_path)
    assert set(Counter(pipeline.done).values()) == {1}
    for planned in (
        *debate_runs(methods, tmp_path),
        *data_runs(methods),
        *training_runs(methods, 3, 9),
    ):
        assert (tmp_path / "runs" / planned.name / "report.json").exists()
    before = len(pipeline.done)
    everything(methods, tmp_path)
    assert len(pipeline.done) == before


def test_every_reward_model_is_given_as_many_pairs(
    pipeline: Pipeline, methods: list[Method], tmp_path: Path
) -> None:
    everything(methods, tmp_path)
    pairs = fewest_pairs(methods, tmp_path)
    assert pairs == 9
    rewards = [p for p in training_runs(methods, 3, pairs) if "reward" in p.stages]
    assert {p.plan.data.max_pairs for p in rewards} == {9}
    assert fewest_pairs([m for m in methods if m.name in ("default", "sft")], tmp_path) is None


def test_seeds_differ_between_repeats_and_debates_do_not(
    pipeline: Pipeline, methods: list[Method], tmp_path: Path
) -> None:
    everything(methods, tmp_path)
    planned = training_runs(methods, 3, 9)
    assert sorted({p.plan.seed for p in planned}) == [0, 1, 2]
    for run in planned:
        folder = RunFolder(tmp_path / "runs" / run.name)
        source = run.taken["debates"].partition("/")[2]
        assert (folder.root / "data/transcripts.parquet").read_text(
            encoding="utf-8"
        ) == f"{source} debates"
        manifest = folder.manifest("debates")
        assert manifest is not None and manifest["taken_from"] == source


def test_another_comparisons_seed_is_not_taken_for_a_repeat(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """Seed 0's second repeat trains with seed 1, but on the debates of seed 0."""
    for seed in (0, 1):
        methods = methods_of(plan_with(f"seed={seed}"), ["sft", "rldf_self"], ())
        everything(methods, tmp_path, repeats=2)
        (debates,) = debate_runs(methods, tmp_path)
        for planned in training_runs(methods, 2, fewest_pairs(methods, tmp_path)):
            manifest = RunFolder(tmp_path / "runs" / planned.name).manifest("debates")
            assert manifest is not None
            assert f"debates/{manifest['taken_from']}" == debates.name


@pytest.mark.parametrize(
    ("changed", "more"),
    [
        ("data.pairs_per_topic=3", {"data": 9, "sft": 3, "reward": 3, "ppo": 3}),
        ("sft.epochs=5", {"data": 6, "sft": 3, "reward": 3, "ppo": 3}),
        ("reward.centre=0.1", {"data": 3, "reward": 3, "ppo": 3}),
        ("ppo.beta=0.3", {"ppo": 3}),
    ],
)
def test_what_comes_before_a_changed_setting_serves_another_comparison(
    changed: str, more: dict[str, int], pipeline: Pipeline, tmp_path: Path
) -> None:
    everything(methods_of(plan_with(), None, ("openai:a",)), tmp_path, repeats=1)
    before = Counter(stage for _, stage in pipeline.done)
    again = methods_of(plan_with(changed), None, ("openai:a",))
    everything(again, tmp_path, repeats=1)
    assert Counter(stage for _, stage in pipeline.done) - before == more


def test_sft_stands_where_a_source_with_fewer_pairs_is_added(
    pipeline: Pipeline, methods: list[Method], tmp_path: Path
) -> None:
    everything(methods_of(plan_with(), ["sft"], ()), tmp_path, repeats=1)
    everything(methods_of(plan_with(), ["sft", "rldf_self"], ()), tmp_path, repeats=1)
    everything(methods_of(plan_with(), ["sft", "rldf_self", "rlaif"], ()), tmp_path, repeats=1)
    # 12 pairs of one's own, then 9 as RLAIF has; and RLAIF's.
    stages = Counter(stage for _, stage in pipeline.done)
    assert (stages["sft"], stages["reward"], stages["ppo"]) == (2, 3, 3)


def test_a_model_is_taken_without_room_of_its_own(tmp_path: Path) -> None:
    source, folder = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b")
    source.write_text("sft/model/weights", "new")
    source.finish("sft", "key", {"seconds": 1.0})
    folder.write_text("sft/model/weights", "half of it, as it was killed")
    runs.take("sft", source, folder)
    weights = [f.root / "sft/model/weights" for f in (source, folder)]
    assert weights[1].read_text(encoding="utf-8") == "new"
    assert weights[0].samefile(weights[1])
    folder.fresh_folder("sft")  # as --redo does
    assert weights[0].read_text(encoding="utf-8") == "new"


def test_a_fitted_referee_is_taken_whole_by_the_next_run_that_asks_it(tmp_path: Path) -> None:
    methods = methods_of(plan_with("referee.kind=trained"), None, ("openai:a",))
    planned = debate_runs(methods, tmp_path)
    first, *others = planned
    assert "referee" not in first.taken
    assert {run.taken["referee"] for run in others} == {first.name}
    source, folder = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b")
    source.write_text("referee/model/config.json", "{}")
    source.write_text("referee/calibration.json", "[]")
    source.finish("referee", "key", {"seconds": 1.0})
    runs.take("referee", source, folder)
    assert (folder.root / "referee/model/config.json").read_text(encoding="utf-8") == "{}"
    assert (folder.root / "referee/calibration.json").read_text(encoding="utf-8") == "[]"
    assert folder.manifest("referee") is not None


def test_a_stage_is_taken_once_it_has_finished(tmp_path: Path) -> None:
    source, folder = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "b")
    source.write_text("data/topics.parquet", "half")
    runs.take("topics", source, folder)
    assert folder.manifest("topics") is None
    with pytest.raises(RunFolderError):
        folder.read_table("data/topics.parquet")
