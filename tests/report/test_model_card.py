"""model/ is the policy that PPO left, whatever the clock said when it was written."""

from __future__ import annotations

import os
from pathlib import Path

from rldf_ray.plan import load_plan
from rldf_ray.report.model_card import export_model
from rldf_ray.storage.run_folder import RunFolder

AHEAD_S = 4_000_000_000


def trained(folder: RunFolder, weights: str) -> None:
    folder.write_text("ppo/model/config.json", "{}")
    folder.write_text("ppo/model/model.safetensors", weights)
    folder.finish("ppo", "key", {"history": [{"step": 1, "reward": len(weights)}]})


def exported(folder: RunFolder) -> str:
    export_model(folder, load_plan("smoke"))
    return (folder.root / "model/model.safetensors").read_text(encoding="utf-8")


def test_the_policy_of_another_training_takes_the_place_of_one_written_in_the_future(
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "old")
    assert exported(folder) == "old"
    os.utime(tmp_path / "model/README.md", (AHEAD_S, AHEAD_S))
    trained(folder, "newer")
    assert exported(folder) == "newer"


def test_what_was_exported_is_not_exported_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "old")
    exported(folder)
    (tmp_path / "model/model.safetensors").write_text("as people left it", encoding="utf-8")
    os.utime(tmp_path / "model/README.md", (0, 0))
    assert exported(folder) == "as people left it"


def test_a_card_that_an_earlier_version_or_a_kill_left_is_no_sign(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    folder.write_text("model/README.md", "a card")
    folder.write_text("model/model.safetensors", "old")
    assert exported(folder) == "new"
