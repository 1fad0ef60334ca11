"""Weights in shared memory: the same file first and later, of tensors read one at a time."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from rldf_ray.train.ppo.weight_sync import write_in_place


def test_a_second_sync_leaves_the_second_weights(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        path = tmp_path / f"{dtype}.safetensors"
        for _ in range(3):
            weights = {
                "b": torch.randn(3, 5, generator=draw).to(dtype),
                "a": torch.randn(7, generator=draw).to(dtype),
                "norm.weight": torch.randn(3, generator=draw),
                "head.weight": torch.randn(5, 3, generator=draw).to(dtype).t().contiguous(),
            }
            write_in_place(weights, path)
            found = load_file(path)
            assert found.keys() == weights.keys()
            assert all(torch.equal(found[name], weights[name]) for name in weights)


class Computed(Mapping[str, Tensor]):
    """Weights that are made when they are read; counts how many of them are held at a time."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._made: list[weakref.ref[Tensor]] = []
        self.most_held = 0

    def __getitem__(self, name: str) -> Tensor:
        tensor = torch.full((4, 3), float(name))
        self._made.append(weakref.ref(tensor))
        self.most_held = max(self.most_held, sum(made() is not None for made in self._made))
        return tensor

    def __iter__(self) -> Iterator[str]:
        return (str(i) for i in range(self._count))

    def __len__(self) -> int:
        return self._count


def test_no_more_than_two_tensors_are_held_while_weights_are_written(tmp_path: Path) -> None:
    for _ in range(2):
        weights = Computed(12)
        write_in_place(weights, tmp_path / "model.safetensors")
        assert weights.most_held <= 2
    found = load_file(tmp_path / "model.safetensors")
    assert {name: tensor[0, 0].item() for name, tensor in found.items()} == {
        str(i): i for i in range(12)
    }
