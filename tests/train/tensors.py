"""Small tensors to hold PPO's arithmetic against plain Python loops."""

from __future__ import annotations

import math

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

Row = list[float]
quick = settings(max_examples=60, deadline=None)


def randn(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


def f64(values: object) -> Tensor:
    """Not torch.tensor(...).double(), which rounds to float32 on the way."""
    return torch.as_tensor(values, dtype=torch.float64)


def close(a: Tensor, b: object, tol: float = 1e-12) -> None:
    torch.testing.assert_close(a, torch.as_tensor(b, dtype=a.dtype), rtol=tol, atol=tol)


@st.composite
def masks(draw: st.DrawFn, max_rows: int = 4, max_len: int = 9) -> Tensor:
    """Any bool mask: gaps, all-False rows, leading holes, no columns."""
    rows, length = draw(st.integers(1, max_rows)), draw(st.integers(0, max_len))
    flat = draw(st.lists(st.booleans(), min_size=rows * length, max_size=rows * length))
    return torch.tensor(flat, dtype=torch.bool).reshape(rows, length)


def picked(x: Tensor, mask: Tensor) -> Row:
    """The unmasked entries, row after row."""
    rows = zip(x.tolist(), mask.tolist(), strict=True)
    return [v for row, keep in rows for v, k in zip(row, keep, strict=True) if k]


def poison(x: Tensor, mask: Tensor, value: float = math.nan) -> Tensor:
    return torch.where(mask, x, value)


seeds = st.integers(0, 2**31)
GAPPY = torch.tensor([[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()
