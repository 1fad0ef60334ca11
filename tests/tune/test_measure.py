"""What trials are compared by."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rldf_ray.apps.tune.measure import accuracies, pairs_by_type, trained_accuracy
from rldf_ray.storage.run_folder import RunFolder

SUMMARY = {
    "overall": {"accuracy": 0.4},
    "categories": {"Age": {"accuracy": 0.3}, "Physical_appearance": {"accuracy": 0.5}},
}


def test_categories_stand_for_bias_types() -> None:
    assert accuracies(SUMMARY) == {"overall": 0.4, "age": 0.3, "beauty": 0.5}


def test_the_policy_is_what_counts_after_evaluation(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    models = {"policy": {"multiple_choice": SUMMARY}, "base": {"multiple_choice": {}}}
    folder.finish("eval", "key", {"evaluation": {"models": models}})
    assert trained_accuracy(folder)["overall"] == pytest.approx(0.4)


def test_pairs_are_counted_by_bias_type(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    table = pa.table({"bias_type": ["age", "beauty", "age", "/types/height.yaml"]})
    folder.write_table("data/pairs.parquet", table)
    assert pairs_by_type(folder) == {"overall": 4, "age": 2, "beauty": 1, "height": 1}
