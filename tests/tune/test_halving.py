"""The same trials end whatever the order of the grid, and a sweep that is cut off goes on alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.apps.tune import ablations
from rldf_ray.apps.tune import sweep as sweeps
from rldf_ray.apps.tune.grids import Sweep, Trial, sweep_of
from rldf_ray.apps.tune.halving import halve
from rldf_ray.apps.tune.measure import items_drawn
from rldf_ray.apps.tune.sweep import SweepError, SweepSettings, carry_out, halved
from rldf_ray.plan import Plan
from rldf_ray.storage.json_text import json_text

PLAN = ("smoke", ["debate.rounds=3"])


def sweep_over(rounds: Sequence[int], repeats: int = 1, *others: str) -> Sweep:
    return sweep_of(*PLAN, [f"rounds={','.join(map(str, rounds))}", *others], repeats)


def rounds_of(sweep: Sweep, keys: frozenset[str]) -> set[int]:
    return {trial.plan.debate.rounds for trial in sweep.trials if trial.key in keys}


@settings(deadline=None, max_examples=40)
@given(st.permutations([1, 2, 3, 4, 5]), st.lists(st.integers(0, 4), min_size=5, max_size=5))
def test_the_same_values_end_in_whatever_order_of_the_grid(
    order: list[int], figures: list[int]
) -> None:
    sweep = sweep_over(order)
    found = halve(sweep, {t.key: figures[t.plan.debate.rounds - 1] / 4 for t in sweep.trials})
    third = sorted(figures)[2]
    assert rounds_of(sweep, found.kept) == {i + 1 for i, f in enumerate(figures) if f >= third}
    assert rounds_of(sweep, found.stopped) == {i + 1 for i, f in enumerate(figures) if f < third}


@pytest.mark.parametrize(
    ("figures", "kept"),
    [
        ((0.4, 0.3), {1}),
        ((0.3, 0.4), {2}),
        ((0.3, 0.3), {1, 2}),
        ((0.1, 0.2, 0.3), {2, 3}),
        ((0.4, 0.3, 0.2, 0.1), {1, 2}),
        ((0.4, 0.3, 0.3, 0.1), {1, 2, 3}),
        ((0.3,), {1}),
    ],
)
def test_the_better_half_goes_on_and_what_equals_its_least(
    figures: Sequence[float], kept: set[int]
) -> None:
    sweep = sweep_over(range(1, len(figures) + 1))
    found = halve(sweep, {t.key: figures[t.plan.debate.rounds - 1] for t in sweep.trials})
    assert rounds_of(sweep, found.kept) == kept
    assert len(found.kept | found.stopped) == len(figures)


def test_a_repeat_whose_items_are_easier_decides_nothing_by_that() -> None:
    """Of the first repeat, on easier items, every figure is above all of the second's."""
    sweep = sweep_over([1, 2, 3, 4], repeats=2)
    value = {1: 0.10, 2: 0.14, 3: 0.12, 4: 0.13}
    easier = {0: 0.5, 1: 0.0}

    def figure(plan: Plan) -> float:
        # Two rounds are the worst of the first repeat, and go on for being best over both.
        unlucky = {(2, 0): -0.05, (2, 1): 0.07}.get((plan.debate.rounds, plan.seed), 0.0)
        return value[plan.debate.rounds] + easier[plan.seed] + unlucky

    found = halve(sweep, {trial.key: figure(trial.plan) for trial in sweep.trials})
    assert rounds_of(sweep, found.kept) == {2, 4} and len(found.kept) == 4
    assert rounds_of(sweep, found.stopped) == {1, 3} and len(found.stopped) == 4


def test_axes_are_halved_by_themselves_and_the_plan_goes_on_where_one_keeps_it() -> None:
    sweep = sweep_over([1, 2, 3, 4], 1, "roles=2,3", "ppo.beta=0.1,0.2")
    # More debaters are worse than any number of rounds, and beta acts after SFT.
    figures = {t.key: t.plan.debate.rounds / 10 - t.plan.debate.debaters for t in sweep.trials}
    found = halve(sweep, figures)
    ended = [t.plan for t in sweep.trials if t.key in found.stopped]
    assert [(p.debate.rounds, p.debate.debaters) for p in ended] == [(1, 3), (2, 3)]


def test_an_axis_waits_for_all_of_its_trials() -> None:
    sweep = sweep_over([1, 2, 3], 2, "roles=2,3")
    figures = {trial.key: trial.plan.debate.rounds / 10 for trial in sweep.trials}
    missing = next(t for t in sweep.trials if (t.plan.debate.rounds, t.plan.seed) == (1, 1))
    del figures[missing.key]
    found = halve(sweep, figures)
    # The other axis is compared: both of its values are of three rounds.
    assert rounds_of(sweep, found.kept) == {3} and not found.stopped
    assert halve(sweep, {}) == halve(sweep_over([1, 2]), {})


# ---- carried out


class Measures:
    """Stands in for trials: figures by plan, and what was measured at which rung, in order."""

    def __init__(self, figure: Callable[[Plan, str], float]) -> None:
        self.figure = figure
        self.did: list[tuple[str, int, int]] = []
        self.killed_after: int | None = None

    def measure(
        self, trials: Sequence[Trial], rung: str, sweep: Sweep, settings: SweepSettings
    ) -> None:
        for trial in trials:
            folder = settings.folder(trial.key)
            result = sweeps.result_of(folder) or {"measured": {}}
            if rung in result["measured"]:
                continue
            if len(self.did) == self.killed_after:
                raise KeyboardInterrupt
            self.did.append((rung, trial.plan.debate.rounds, trial.plan.seed))
            measured = {**result["measured"], rung: {"overall": self.figure(trial.plan, rung)}}
            tokens = {"held": 2, "made": 1}
            about = {"measured": measured, "items": items_drawn(trial.plan)}
            folder.write_json(
                "result.json", {**about, "tokens": tokens, "fetched": [], "seconds": 1.0}
            )


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> Measures:
    @contextmanager
    def cluster(logs: Path) -> Iterator[None]:
        yield

    stood_in = Measures(lambda plan, rung: plan.debate.rounds / 10)
    monkeypatch.setattr(sweeps, "ray_cluster", cluster)
    monkeypatch.setattr(sweeps, "clear_ended_trials", lambda: None)
    monkeypatch.setattr(sweeps, "_quiet_tune", lambda: None)
    monkeypatch.setattr(sweeps, "_measure", stood_in.measure)
    return stood_in


def settings_in(out: Path, **changes: Any) -> SweepSettings:
    return SweepSettings(
        out=out, store="/store", rungs=("sft", "eval"), scheduler="halving", **changes
    )


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)])
def test_every_trial_is_measured_after_sft_before_any_goes_on(
    order: Sequence[int], measures: Measures, tmp_path: Path
) -> None:
    sweep = sweep_over(order, repeats=2)
    carry_out(sweep, settings_in(tmp_path))
    assert [rung for rung, *_ in measures.did] == ["sft"] * 8 + ["eval"] * 4
    assert {rounds for rung, rounds, _ in measures.did if rung == "eval"} == {3, 4}
    assert rounds_of(sweep, halved(sweep, settings_in(tmp_path), "sft").stopped) == {1, 2}
    did = [*measures.did]
    carry_out(sweep, settings_in(tmp_path))
    assert measures.did == did


@pytest.mark.parametrize("after", range(12))
def test_a_sweep_that_is_killed_goes_on_as_if_it_had_not_been(
    after: int, measures: Measures, tmp_path: Path
) -> None:
    sweep = sweep_over((4, 1, 3, 2), repeats=2)
    carry_out(sweep, settings_in(tmp_path / "whole"))
    whole, measures.did = measures.did, []
    measures.killed_after = after
    with pytest.raises(KeyboardInterrupt):
        carry_out(sweep, settings_in(tmp_path / "killed"))
    measures.killed_after = None
    carry_out(sweep, settings_in(tmp_path / "killed"))
    assert measures.did == whole


def test_trials_measured_on_other_items_are_not_compared(
    measures: Measures, tmp_path: Path
) -> None:
    """An earlier version drew another sample by the same seed."""
    sweep = sweep_over((1, 2))
    carry_out(sweep, settings_in(tmp_path, budget_trials=1))
    folder = settings_in(tmp_path).folder(sweep.trials[0].key)
    folder.write_json("result.json", {**folder.read_json("result.json"), "items": "others"})
    with pytest.raises(SweepError, match="measured on other items than are drawn now"):
        carry_out(sweep, settings_in(tmp_path))


def test_values_that_a_budget_leaves_out_keep_the_others_waiting(
    measures: Measures, tmp_path: Path
) -> None:
    sweep = sweep_over((1, 2, 3))
    carry_out(sweep, settings_in(tmp_path, budget_trials=2))
    assert measures.did == [("sft", 1, 0), ("sft", 2, 0)]
    carry_out(sweep, settings_in(tmp_path))
    assert measures.did[2:] == [("sft", 3, 0), ("eval", 2, 0), ("eval", 3, 0)]


def test_a_report_says_which_trials_were_stopped_and_which_value_is_best(
    measures: Measures,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # What is best after SFT is not best in the end, but among those that were not stopped.
    figures = {"sft": {1: 0.3, 2: 0.1, 3: 0.2}, "eval": {1: 0.4, 2: 0.9, 3: 0.5}}
    measures.figure = lambda plan, rung: figures[rung][plan.debate.rounds] + plan.seed / 10
    given: dict[str, Any] = {"over": ["rounds=2,3,1"], "repeats": 2, "scheduler": "halving"}
    part = ablations.ablate(*PLAN, **given, out=tmp_path, budget_trials=5)
    assert (part["stopped_early"], len(part["unfinished"]), len(part["not_run"])) == ([], 5, 1)
    assert part["axes"]["rounds"]["best"] == {}
    ablations.show(part, tmp_path)
    told = capsys.readouterr().out
    assert "rounds=2 has finished none of its 2 repeats: it has no figure, and is no best" in told
    assert "rounds: no value has all of its repeats, so best.yaml has the plan's own" in told

    report = ablations.ablate(*PLAN, **given, out=tmp_path)
    stopped = {trial.key for trial in sweep_over([2], 2).trials}
    assert report["stopped_early"] == sorted(stopped)
    assert report["unfinished"] == report["not_run"] == []
    assert report["incomplete"] == [{"axis": "rounds", "value": 2, "n": 0}]
    assert report["axes"]["rounds"]["best"] == {"overall": 3}
    ablations.show(report, tmp_path)
    told = capsys.readouterr().out
    assert "stopped early, in the lower half after SFT: 2 trial(s)" in told
    assert "the plan's own" not in told and "0.55" in json_text(report)


def test_the_option_names_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="allowed are none, halving"):
        ablations.ablate(*PLAN, over=["rounds=1,2"], out=tmp_path, scheduler="asha")
    with pytest.raises(Exception, match="--metric pairs has no rungs"):
        ablations.ablate(
            *PLAN, over=["rounds=1,2"], out=tmp_path, scheduler="halving", metric="pairs"
        )
