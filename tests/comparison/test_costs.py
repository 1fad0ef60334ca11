"""What rows were given and cost, by the manifests of their runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray.comparison.costs import Cost, learned_from, mean_cost
from rldf_ray.comparison.method import Last
from rldf_ray.comparison.writing import cost_rows
from rldf_ray.records import SFT_SCHEMA
from rldf_ray.storage.run_folder import RunFolder

GIVEN = 20
STAGES: Mapping[Last, str] = {"ppo": "reward", "dpo": "dpo", "kto": "kto"}


def trained(out: Path, **stages: Mapping[str, Any]) -> RunFolder:
    """A run that was given 20 rows for SFT and 30 pairs; what each stage records."""
    folder = RunFolder(out)
    rows = [dict.fromkeys(SFT_SCHEMA.names) for _ in range(GIVEN)]
    folder.write_table("data/sft.parquet", pa.Table.from_pylist(rows, SFT_SCHEMA))
    whole = {"data": {"pairs": 30}, **stages}
    for stage, facts in whole.items():
        folder.finish(stage, "plan", {"seconds": 1.0, "peak_pss_gib": 1.0, **facts})
    return folder


@pytest.mark.parametrize("last", STAGES)
def test_rows_are_those_that_were_learned_from(last: Last, tmp_path: Path) -> None:
    sft = {"examples": 16, "held_out": 4, "passes": 3}
    stages = {"sft": sft, STAGES[last]: {"pairs": 25, "held_out_pairs": 5}}
    found = learned_from(trained(tmp_path, **stages), last)
    assert found == {"sft_rows": 16, "sft_pass": 3, "pairs": 25}


def test_sft_alone_learns_from_no_pairs(tmp_path: Path) -> None:
    folder = trained(tmp_path, sft={"examples": 16, "held_out": 0, "passes": None})
    assert learned_from(folder, "sft") == {"sft_rows": 16, "sft_pass": None, "pairs": 0}


@pytest.mark.parametrize("last", ["sft", *STAGES])
def test_of_an_older_folder_the_rows_that_were_handed_over_are_known(
    last: Last, tmp_path: Path
) -> None:
    stages: dict[str, Mapping[str, Any]] = {"sft": {}}
    stages |= {STAGES[last]: {}} if last != "sft" else {}
    found = learned_from(trained(tmp_path, **stages), last)
    assert found == {"sft_rows": GIVEN, "sft_pass": None, "pairs": 0 if last == "sft" else 30}


def test_the_pass_that_was_kept_is_shown_as_the_mean_of_the_repeats() -> None:
    repeats = [Cost(sft_rows=16, sft_pass=2, pairs=25), Cost(sft_rows=17, sft_pass=3, pairs=25)]
    cost = mean_cost(repeats)
    assert (cost.sft_rows, cost.sft_pass, cost.pairs) == (16, 2.5, 25)
    assert mean_cost([Cost(), Cost()]).sft_pass is None
    head, row, bare = cost_rows({"sft": cost, "default": Cost()}, {"sft": "S", "default": "D"})
    assert (row[head.index("SFT pass kept")], bare[head.index("SFT pass kept")]) == ("2.5", "")
