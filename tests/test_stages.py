"""What a training stage is given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray import stages
from rldf_ray.console import Story
from rldf_ray.placement import Placement
from rldf_ray.stages import Run
from rldf_ray.storage import RunFolder
from tests.fakes import plan_with


@pytest.mark.parametrize(
    ("overrides", "begins_as"),
    [
        ((), {"model": "sft/model"}),
        (("reward.start=model",), {"model": "embedded"}),
        (("train.lora.rank=4",), {"model": "embedded", "adapter": "sft/adapter"}),
        (("train.lora.rank=4", "reward.start=model"), {"model": "embedded"}),
    ],
    ids=["pi_SFT", "the model", "pi_SFT, adapters", "the model, adapters"],
)
def test_the_reward_model_begins_as_the_plan_says(
    overrides: tuple[str, ...],
    begins_as: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Mapping[str, str]] = []

    def train_in_folder(run: Run, name: str, train: Any, folders: Mapping[str, str]) -> Any:
        given.append(folders)
        return {"history": []}

    monkeypatch.setattr(stages, "train_in_folder", train_in_folder)
    folder = RunFolder(tmp_path)
    folder.write_table("data/pairs.parquet", pa.table({"topic_id": ["a", "b"]}))
    plan = plan_with("model=embedded", *overrides)
    placement = Placement("cpu", 1, 1, 0, 1, 1, 0, 1)
    speakers: Any = None
    assert stages.reward(Run(plan, folder, placement, Story(), "id", speakers))["pairs"] == 2
    inside = {name: found.removeprefix(f"{tmp_path}/") for name, found in given[0].items()}
    assert inside == begins_as
