"""Weights that go over an earlier sync's pages are the file a first sync would have written."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from rldf_ray.train.weight_sync import write_in_place


def test_a_second_sync_leaves_the_second_weights(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        path = tmp_path / f"{dtype}.safetensors"
        for _ in range(3):
            weights = {
                "b": torch.randn(3, 5, generator=draw).to(dtype),
                "a": torch.randn(7, generator=draw).to(dtype),
                "head.weight": torch.randn(5, 3, generator=draw).to(dtype).t().contiguous(),
            }
            write_in_place(weights, path)
            found = load_file(path)
            assert found.keys() == weights.keys()
            assert all(torch.equal(found[name], weights[name]) for name in weights)
