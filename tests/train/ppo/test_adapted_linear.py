"""The adapter's arithmetic and its gradients, against autograd's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rldf_ray.train.ppo.adapted_linear import AdaptedLinear


def parts(bias: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)

    def random(*shape: int, trained: bool = True) -> Tensor:
        made = torch.randn(*shape, generator=draw, dtype=torch.float64)
        return made.requires_grad_(trained)

    x, weight = random(2, 3, 5), random(7, 5, trained=False)
    return x, weight, random(7, trained=False) if bias else None, random(2, 5), random(7, 2)


@pytest.mark.parametrize("bias", [False, True])
def test_output_and_gradients_are_those_of_the_formula(bias: bool) -> None:
    x, weight, shift, a, b = parts(bias)
    found = AdaptedLinear.apply(x, weight, shift, a, b, 0.5)
    torch.testing.assert_close(
        found, torch.nn.functional.linear(x, weight, shift) + 0.5 * x @ a.t() @ b.t()
    )
    assert torch.autograd.gradcheck(
        lambda x, a, b: AdaptedLinear.apply(x, weight, shift, a, b, 0.5), (x, a, b)
    )


def test_a_frozen_adapter_and_a_frozen_input_get_no_gradient() -> None:
    x, weight, _, a, b = parts(False)
    AdaptedLinear.apply(x.detach(), weight, None, a, b.detach(), 0.5).sum().backward()
    assert a.grad is not None and x.grad is None and b.grad is None
