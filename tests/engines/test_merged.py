"""An adapter merged as an engine loads its base; against PEFT in train/ppo/test_shared_base.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rldf_ray.engines.merged import merged


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    layer = "model.layers.7.mlp.up_proj"
    parts = {f"base_model.model.{layer}.lora_{part}.weight": torch.ones(2, 2) for part in "AB"}
    save_file(parts, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text('{"r": 2, "lora_alpha": 4}', encoding="utf-8")
    (weight,) = merged([(f"{layer}.weight", torch.zeros(2, 2))], tmp_path, torch.float32)
    assert weight[1].tolist() == [[4, 4], [4, 4]]
    with pytest.raises(ValueError, match=r"no layer for base_model\.model\.model\.layers\.7"):
        list(merged([("model.norm.weight", torch.zeros(2))], tmp_path, torch.float32))
