"""Which plans a sweep compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.apps.tune.grids import axes_of, by_value, sweep_of
from rldf_ray.plan import PlanError, load_plan


def test_figure_8_is_eighteen_settings_and_fifteen_plans() -> None:
    sweep = sweep_of("paper-7b", [], ["figure8"], repeats=1)
    assert [len(axis.values) for axis in sweep.axes] == [4, 4, 5, 5]
    assert len(sweep.settings) == 18
    # The best setting is a point of all four panels and one plan.
    assert len(sweep.trials) == 15
    assert sweep.most_topics == 2500


def test_each_setting_changes_its_own_field_alone() -> None:
    sweep = sweep_of("smoke", [], ["rounds=1,4", "ppo.beta=0.01"], repeats=1)
    base = load_plan("smoke").model_dump()
    plans = {trial.key: trial.plan.model_dump() for trial in sweep.trials}
    for setting in sweep.settings:
        section, _, field = setting.field.partition(".")
        expected = {**base, section: {**base[section], field: setting.value}}
        assert plans[setting.trial] == expected


def test_repeats_have_seeds_of_their_own() -> None:
    sweep = sweep_of("smoke", ["seed=7"], ["rounds=1,2"], repeats=3)
    assert sorted(trial.plan.seed for trial in sweep.trials) == [7, 7, 8, 8, 9, 9]
    (axis,) = sweep.axes
    assert [(value, len(keys)) for value, keys in by_value(sweep, axis)] == [(1, 3), (2, 3)]


def test_teacher_compares_both_modes() -> None:
    plan = load_plan("smoke", ["teacher=scripted:0"])
    (axis,) = axes_of(["teacher"], plan)
    assert axis.values == (None, "scripted:0")
    (named,) = axes_of(["teacher=null,openai:some-model"], load_plan("smoke"))
    assert named.values == (None, "openai:some-model")


@pytest.mark.parametrize(
    ("over", "message"),
    [
        (["height"], "figure8, roles, rounds"),
        (["ppo.beta"], "give ppo.beta=V1,V2"),
        (["roles="], "no values"),
        (["roles", "debate.debaters=2"], "a field is named twice"),
        (["teacher"], "the plan has none"),
        (["roles=9"], "debate.debaters"),
        (["seed=1,2"], "--repeats N"),
        (["rounds=1,2,1"], "the value 1 is named twice"),
        (["ppo.beta=0.1,0.10"], "the value 0.1 is named twice"),
        (["bias_types=[age],[age]"], "is named twice"),
        (["debate.in_flight=1,2"], "all of its values are one trial"),
        (["evaluate.items_per_category=8,16"], "on which items a trial is measured"),
        (["evaluate.bbq=null,/bbq"], "on which items a trial is measured"),
    ],
)
def test_a_wrong_axis_is_named(over: list[str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        sweep_of("smoke", [], over, repeats=1)


@pytest.mark.parametrize(
    "over",
    ["rounds", "debate.top_p=0.5,0.9", "data.min_gap=0,1", "debate.show_marks=true,false"],
)
def test_what_a_protocol_does_not_read_is_no_axis(over: str) -> None:
    with pytest.raises(PlanError, match=r"is not read with debate\.protocol=mabrf"):
        sweep_of("smoke", ["debate.protocol=mabrf"], [over], repeats=1)
    assert len(sweep_of("smoke", ["debate.protocol=mabrf"], ["debate.debates=8,9"], 1).trials) == 2


def test_a_plan_file_will_do(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ndebate: {rounds: 2}\n", encoding="utf-8")
    sweep = sweep_of(str(path), [], ["roles=2,3"], repeats=1)
    assert {trial.plan.debate.rounds for trial in sweep.trials} == {2}
