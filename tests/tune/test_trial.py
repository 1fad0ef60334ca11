"""A trial from rung to rung, its stages stood in for: what it runs, keeps, counts and leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray.apps.tune import trainable
from rldf_ray.apps.tune import trial as trials
from rldf_ray.apps.tune.grids import sweep_of
from rldf_ray.apps.tune.sweep import SweepError, SweepSettings, carry_out
from rldf_ray.apps.tune.trial import out_of_budget, result_of
from rldf_ray.models.base import BudgetSpentError
from rldf_ray.models.limits import Budget
from rldf_ray.plan import Plan
from rldf_ray.plan.saved import settle_plan
from rldf_ray.records import PAIR_SCHEMA, TOPIC_SCHEMA, table_of
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE
from tests.fakes import opinion, plan_with

ACCURACY = {"overall": {"accuracy": 0.5}, "categories": {"Age": {"accuracy": 0.5}}}
FACTS: dict[str, Any] = {
    "seconds": 10.0,
    "peak_pss_gib": 0.1,
    "versions": {},
    "tokens": {"prompt": 1, "cached": 0, "generated": 7},
    "topics": {"age": {}, "profession": {}},
    "evaluation": {"models": {"policy": {"multiple_choice": ACCURACY}}},
}


class Stages:
    """Stands in for `pipeline.run`: every stage finishes at once, unless one is to fail."""

    def __init__(self) -> None:
        self.did: list[tuple[str, str]] = []
        self.fails: dict[str, BaseException] = {}

    def run(
        self, plan: Plan, out: Path, progress: object, only: Sequence[str], earlier: Any = None
    ) -> None:
        folder = RunFolder(out)
        settle_plan(plan, folder)
        for name in only:
            if folder.manifest(name) is None:
                if name in self.fails:
                    raise self.fails[name]
                self.did.append((folder.root.parent.name, name))
                for file in PIPELINE[name].files:
                    self._write(folder, name, file)
                folder.finish(name, plan.digest(), FACTS)

    def _write(self, folder: RunFolder, name: str, file: str) -> None:
        if file == "data/topics.parquet":
            topics = [opinion(i, kind) for kind in ("age", "profession") for i in range(20)]
            folder.write_table(file, table_of(topics, TOPIC_SCHEMA))
        elif file == "data/pairs.parquet":
            folder.write_table(file, PAIR_SCHEMA.empty_table())
        elif PIPELINE[name].trains:
            folder.write_text(f"{file}/model/config.json", name)
        else:
            folder.write_table(file, pa.table({"file": [file]}))


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    stood_in = Stages()
    monkeypatch.setattr(trials, "run", stood_in.run)
    monkeypatch.setattr(trials, "end_with_parent", lambda: None)
    monkeypatch.setattr(trials, "sft_accuracy", lambda plan, folder: {"overall": 0.4})
    return stood_in


def go(sweep: Path, until: str, *overrides: str) -> RunFolder:
    """The program of a trial that the sweep has."""
    plan = plan_with("referee.kind=prompted", "topics.judgement_share=0", *overrides)
    folder = RunFolder(sweep / "trials" / plan.digest())
    path = folder.write_text("trial.yaml", plan.to_yaml())
    trials.main(str(path), out=folder.root, store=str(sweep / "store"), most_topics=14, until=until)
    return folder


def test_seconds_are_of_what_was_done_here_at_any_rung(stages: Stages, tmp_path: Path) -> None:
    go(tmp_path, "sft")
    folder = go(tmp_path, "sft", "ppo.beta=0.5")
    result = result_of(folder)
    assert result is not None and result["fetched"] == ["debates", "sft"]
    assert result["seconds"] == 10  # data
    go(tmp_path, "eval", "ppo.beta=0.5")
    result = result_of(folder)
    assert result is not None and result["seconds"] == 40  # and reward, ppo, eval
    assert {*result["measured"]} == {"sft", "eval"}


def test_a_trial_that_is_killed_after_its_last_stage_leaves_no_model(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: RunFolder, name: str, value: object) -> Path:
        if name == "result.json":
            raise KeyboardInterrupt
        return written(self, name, value)

    written = RunFolder.write_json
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path, "eval")
    did = [*stages.did]
    folder = go(tmp_path, "eval")
    assert stages.did == did
    result = result_of(folder)
    assert result is not None and result["measured"]["eval"]["overall"] == 0.5
    assert not list(folder.root.rglob("config.json"))


def test_topics_that_another_trial_began_are_gone_on_with(stages: Stages, tmp_path: Path) -> None:
    stages.fails["topics"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, "data")
    stages.fails = {}
    go(tmp_path, "data", "debate.rounds=1")
    assert stages.did.count(("topics", "topics")) == 1


def test_topics_that_had_finished_and_were_not_kept_are_not_written_again(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(trials.Store, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path, "data")
    go(tmp_path, "data", "debate.rounds=1")
    assert stages.did.count(("topics", "topics")) == 1


def test_pairs_can_be_counted_once_the_models_are_gone(stages: Stages, tmp_path: Path) -> None:
    go(tmp_path, "eval")
    did = [*stages.did]
    folder = go(tmp_path, "data")
    result = result_of(folder)
    assert stages.did == did and result is not None and result["measured"]["data"] == {"overall": 0}


def test_trials_have_one_budget_and_the_sweep_hears_that_it_is_spent(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets: list[Budget] = []
    run = stages.run

    def debating(plan: Plan, out: Path, *given: Any, **more: Any) -> None:
        journal = Journal(out / "journal/calls.jsonl")
        budgets.append(Budget.of(plan.endpoint, ("m",), journal))
        sample = {
            "text": "", "finish_reason": "stop", "model": "m", "revision": "",
            "usage": {"generated": 10},
        }  # fmt: skip
        journal.append(str(out), {"request": "aa", "samples": [sample]})
        run(plan, out, *given, **more)

    monkeypatch.setattr(trials, "run", debating)
    shape = ("teacher=openai:m", "endpoint.budget_tokens=100")
    go(tmp_path, "data", *shape)
    go(tmp_path, "data", *shape, "debate.rounds=1")
    # The topics, the first trial, the second.
    assert [budget.spent.generated for budget in budgets] == [0, 10, 20]
    assert out_of_budget(tmp_path) is None
    stages.fails["debates"] = BudgetSpentError("the budget of 100 tokens is spent")
    with pytest.raises(BudgetSpentError):
        go(tmp_path, "data", *shape, "debate.rounds=3")
    assert out_of_budget(tmp_path) == "the budget of 100 tokens is spent"


def test_a_trial_that_has_its_debates_goes_on_though_their_tokens_are_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(trainable, "_run", lambda command, folder: ran.append(command[-1]))
    monkeypatch.setattr("ray.tune.report", lambda found: None)
    begun = {"measured": {"sft": {"overall": 0.5}}, "tokens": {"made": 7}}
    RunFolder(tmp_path / "trials/begun").write_json("result.json", begun)
    trial = {"sweep": str(tmp_path), "store": "", "most_topics": 1, "budget_tokens": 7}

    def go_to(name: str, rung: str) -> None:
        folder = str(tmp_path / "trials" / name)
        trainable.trainable_of({"trial": {**trial, "folder": folder, "rung": rung}})

    go_to("new", "sft")
    go_to("begun", "sft")
    assert ran == []
    # What the program would have measured is not there.
    with pytest.raises(KeyError):
        go_to("begun", "eval")
    assert ran == ["eval"]


def test_a_trials_program_ends_as_the_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    def spent() -> None:
        raise BudgetSpentError("the budget is spent")

    with pytest.raises(SystemExit) as end:
        trials.program(spent)
    assert end.value.code == 3 and capsys.readouterr().err == "stopped: the budget is spent\n"


def test_trials_without_a_figure_at_a_rung_and_without_a_model_are_told_before_anything_starts(
    tmp_path: Path,
) -> None:
    sweep = sweep_of("smoke", [], ["rounds=1,2"], 1)
    settings = SweepSettings(
        out=tmp_path, store="/store", rungs=("sft", "eval"), scheduler="halving"
    )
    settings.folder(sweep.trials[0].key).write_json("result.json", {"measured": {"eval": {}}})
    with pytest.raises(SweepError, match=r"1 of this sweep were finished .* --scheduler none"):
        carry_out(sweep, settings)
    for trial in sweep.trials:
        settings.folder(trial.key).write_json("result.json", {"measured": {"eval": {}}})
    carry_out(sweep, settings)
