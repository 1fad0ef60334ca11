"""A frozen linear layer under a low-rank adapter, y = W x + s B A x, and its gradients.

PEFT computes the adapter's share, scales it and adds it in three passes over the output, and
autograd walks them back in as many. On a CPU these passes cost as much as the adapter itself. Here
both shares and both gradients are accumulated by the products that compute them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class AdaptedLinear(torch.autograd.Function):
    """y = x W^T + bias + scale (x A^T) B^T with gradients in x, A [r, K] and B [N, r]."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float
    ) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        low = rows @ a.t()
        y = nn.functional.linear(rows, weight, bias).addmm_(low, b.t(), alpha=scale)
        ctx.save_for_backward(rows, weight, a, b, low)
        ctx.scale = scale
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, a, b, low = ctx.saved_tensors
        (given,) = outputs
        wanted, scale = ctx.needs_input_grad, ctx.scale
        grad = given.reshape(-1, given.shape[-1])
        low_grad = (grad @ b).mul_(scale)
        x_grad = (grad @ weight).addmm_(low_grad, a) if wanted[0] else None
        a_grad = low_grad.t() @ rows if wanted[3] else None
        b_grad = (grad.t() @ low).mul_(scale) if wanted[4] else None
        x_grad = None if x_grad is None else x_grad.view(*given.shape[:-1], -1)
        return x_grad, None, None, a_grad, b_grad, None


def adapt_linears(model: nn.Module) -> None:
    """Let PEFT's plain LoRA layers in `model` compute by `AdaptedLinear`; their weights stay."""
    from peft.tuners.lora import Linear

    for layer in model.modules():
        if type(layer) is Linear:
            layer.forward = partial(_forward, layer)  # type: ignore[method-assign]


def _forward(layer: Any, x: Tensor) -> Tensor:
    (adapter,) = layer.active_adapters
    base = layer.get_base_layer()
    output: Tensor = AdaptedLinear.apply(  # type: ignore[no-untyped-call]
        x,
        base.weight,
        base.bias,
        layer.lora_A[adapter].weight,
        layer.lora_B[adapter].weight,
        layer.scaling[adapter],
    )
    return output
