"""Means, deviations, the best settings, the pages and what was reused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldf_ray.apps.tune.figures import write_pages
from rldf_ray.apps.tune.grids import Sweep, sweep_of
from rldf_ray.apps.tune.outcome import best_plan, names_of, outcome

PLAN = ("smoke", ["debate.rounds=2", "debate.debaters=3"])


def _sweep(repeats: int = 2) -> Sweep:
    return sweep_of(*PLAN, ["rounds=1,2", "roles=2,3"], repeats)


def _results(sweep: Sweep, measured: Any) -> dict[str, dict[str, Any]]:
    return {
        trial.key: {
            "measured": {"eval": measured(trial.plan)},
            "tokens": {"held": 100, "made": 40},
            "fetched": ["sft"],
        }
        for trial in sweep.trials
    }


def _accuracy(plan: Any) -> dict[str, float]:
    value = plan.debate.rounds / 10 - plan.debate.debaters / 100 + plan.seed / 1000
    return {"overall": value, "age": 1 - value}


def test_points_are_means_over_repeats_with_their_deviation() -> None:
    sweep = _sweep()
    found = outcome(sweep, _results(sweep, _accuracy), "eval")
    first, second = found["axes"]["rounds"]["points"]["overall"]
    assert (first["value"], first["n"]) == (1, 2)
    assert first["mean"] == pytest.approx(0.0705)
    assert first["sd"] == pytest.approx(0.001 / 2**0.5)
    assert second["mean"] == pytest.approx(0.1705)
    assert found["axes"]["rounds"]["best"] == {"overall": 2, "age": 1}
    assert found["axes"]["roles"]["best"] == {"overall": 2, "age": 3}
    assert found["stopped_early"] == found["not_run"] == found["incomplete"] == []


def test_what_was_reused_is_counted_against_every_setting_by_itself() -> None:
    sweep = _sweep(repeats=1)
    reuse = outcome(sweep, _results(sweep, _accuracy), "eval")["reuse"]
    # Two rounds and three debaters are a point of both axes: four settings, three plans.
    assert (reuse["settings"], reuse["trials"]) == (4, 3)
    assert (reuse["separately_tokens"], reuse["made_tokens"]) == (400, 120)
    assert reuse["share_made"] == pytest.approx(0.3)
    assert reuse["stages_from_store"] == {"sft": 3}


def test_trials_that_did_not_finish_are_in_no_figure() -> None:
    sweep = _sweep(repeats=1)
    results = _results(sweep, _accuracy)
    one, two, _ = results
    results[one]["measured"] = {"sft": {"overall": 0.9}}
    del results[two]
    found = outcome(sweep, results, "eval")
    assert (found["unfinished"], found["stopped_early"]) == ([one], [])
    assert found["not_run"] == [two]
    halved = outcome(sweep, results, "eval", stopped={one})
    assert (halved["unfinished"], halved["stopped_early"]) == ([], [one])
    assert sum(len(axis["points"]["overall"]) for axis in found["axes"].values()) == 1


def test_the_best_value_is_one_with_all_of_its_repeats() -> None:
    """Of two rounds' repeats the worse one has not finished: the mean is of the other alone."""
    sweep = _sweep()
    results = _results(sweep, _accuracy)
    worse = min(
        (t for t in sweep.trials if (t.plan.debate.rounds, t.plan.debate.debaters) == (2, 3)),
        key=lambda trial: trial.plan.seed,
    )
    results[worse.key]["measured"] = {"sft": {"overall": 0.1}}
    found = outcome(sweep, results, "eval")
    # Two rounds and three debaters are a point of both axes.
    assert found["incomplete"] == [
        {"axis": "rounds", "value": 2, "n": 1},
        {"axis": "roles", "value": 3, "n": 1},
    ]
    assert found["axes"]["rounds"]["best"] == {"overall": 1, "age": 1}
    assert found["axes"]["roles"]["best"] == {"overall": 2, "age": 2}
    assert [p["n"] for p in found["axes"]["rounds"]["points"]["overall"]] == [2, 1]
    plan = best_plan(*PLAN, sweep, results, "eval")
    assert (plan.debate.rounds, plan.debate.debaters) == (1, 2)


def test_without_a_whole_value_the_plans_own_stays() -> None:
    sweep = _sweep()
    results = {
        key: result
        for key, result in _results(sweep, _accuracy).items()
        if next(t for t in sweep.trials if t.key == key).plan.seed == 0
    }
    found = outcome(sweep, results, "eval")
    assert found["axes"]["rounds"]["best"] == {} and len(found["incomplete"]) == 4
    plan = best_plan(*PLAN, sweep, results, "eval")
    assert (plan.debate.rounds, plan.debate.debaters) == (2, 3)


def test_the_best_plan_has_every_axis_at_its_best() -> None:
    sweep = _sweep()
    plan = best_plan(*PLAN, sweep, _results(sweep, _accuracy), "eval")
    assert (plan.debate.rounds, plan.debate.debaters, plan.seed) == (2, 2, 0)


def test_pages_for_what_was_measured(tmp_path: Path) -> None:
    sweep = _sweep()
    found = outcome(sweep, _results(sweep, _accuracy), "eval")
    assert names_of(sweep) == ["overall", "age", "profession"]
    pages = write_pages(found["axes"], names_of(sweep), "accuracy", tmp_path)
    assert [page.name for page in pages] == ["overall.png", "figure-8-age.png"]
    assert all(page.read_bytes().startswith(b"\x89PNG") for page in pages)
    assert (tmp_path / "figures.pdf").stat().st_size > 1000
