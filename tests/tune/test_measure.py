"""What trials are compared by."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rldf_ray.apps.tune.grids import sweep_of
from rldf_ray.apps.tune.measure import accuracies, pairs_by_type, trained_accuracy
from rldf_ray.evaluate.bbq.hub import CATEGORIES
from rldf_ray.evaluate.bbq.run_models import load_items
from rldf_ray.plan import load_plan
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import plan_with

SUMMARY = {
    "overall": {"accuracy": 0.4},
    "categories": {
        "Age": {"accuracy": 0.3},
        "Physical_appearance": {"accuracy": 0.5},
        "SES": {"accuracy": 0.6},
    },
}


@pytest.mark.parametrize(
    ("types", "names"),
    [
        ("[age, beauty]", ("age", "beauty", "ses")),
        ("[age, beauty, physical_appearance]", ("age", "physical_appearance", "ses")),
        ("[age, physical_appearance]", ("age", "physical_appearance", "ses")),
        ("[socioeconomic_status]", ("age", "physical_appearance", "socioeconomic_status")),
    ],
)
def test_categories_stand_for_the_plans_bias_types(types: str, names: tuple[str, ...]) -> None:
    expected = dict(zip(names, (0.3, 0.5, 0.6), strict=True))
    assert accuracies(plan_with(f"bias_types={types}"), SUMMARY) == {"overall": 0.4, **expected}


def test_every_bias_type_of_a_preset_has_a_point_where_bbq_has_its_category() -> None:
    categories = {category: {"accuracy": 0.5} for category in CATEGORIES}
    for name in ("bbq-small", "bbq-lora"):
        plan = load_plan(name)
        found = accuracies(plan, {"overall": {"accuracy": 0.5}, "categories": categories})
        absent = {"beauty", "institution", "profession"}
        assert {*plan.bias_types} - absent <= found.keys()


def test_the_policy_is_what_counts_after_evaluation(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    models = {"policy": {"multiple_choice": SUMMARY}, "base": {"multiple_choice": {}}}
    folder.finish("eval", "key", {"evaluation": {"models": models}})
    assert trained_accuracy(plan_with(), folder)["overall"] == pytest.approx(0.4)


def test_the_trials_of_a_repeat_are_measured_on_the_same_items() -> None:
    over = ["rounds=1,2", "bias_types=[age],[beauty]", "topics.per_bias_type=14,20"]
    sampled = sweep_of("smoke", ["evaluate.items_per_category=4"], over, repeats=2)
    items: dict[int, set[tuple[object, ...]]] = {}
    for trial in sampled.trials:
        keys = tuple(item.key for item in load_items(trial.plan).items)
        items.setdefault(trial.plan.seed, set()).add(keys)
    assert [len(sets) for sets in items.values()] == [1, 1] and items[0] != items[1]


def test_pairs_are_counted_by_bias_type(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    table = pa.table({"bias_type": ["age", "beauty", "age", "/types/height.yaml"]})
    folder.write_table("data/pairs.parquet", table)
    assert pairs_by_type(folder) == {"overall": 4, "age": 2, "beauty": 1, "height": 1}
