"""The layers below the first adapter: alike under every adapter, so computed once for all of them.

Where only the upper layers have adapters, actor, critic and reference read the same hidden states
at the first of those. Sharing a frozen trunk and branching above it is the "hydra" of trlX
(Havrilla et al. 2023, its `num_layers_unfrozen`), here with adapters in the branches.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn


class Trunk:
    """Remembers what the layers below the first adapted one computed for the latest batches.

    Args:
        layers: the frozen ones, from the first on; their `forward` is wrapped.
        room: batches remembered.
    """

    def __init__(self, layers: nn.ModuleList, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._batch: bytes | None = None
        for place, layer in enumerate(layers):
            last = place == len(layers) - 1
            layer.forward = partial(self._forward, layer.forward, last)

    @contextmanager
    def of(self, ids: Tensor) -> Iterator[None]:
        """Inside, one forward pass over `ids` [B, T] reads what an earlier one left."""
        self._batch = repr(tuple(ids.shape)).encode() + ids.cpu().numpy().tobytes()
        try:
            yield
        finally:
            self._batch = None

    def _forward(
        self, forward: Callable[..., Any], last: bool, hidden: Tensor, *args: Any, **options: Any
    ) -> Any:
        batch = self._batch
        if batch is None:
            return forward(hidden, *args, **options)
        if batch in self._kept:
            # The decoder still calls every layer; those before the last hand on what they get.
            return self._kept[batch] if last else hidden
        output = forward(hidden, *args, **options)
        if last:
            self._kept[batch] = output
            while len(self._kept) > self._room:
                self._kept.popitem(last=False)
        return output


def layers_below_adapters(model: nn.Module) -> nn.ModuleList:
    """The decoder layers of a PEFT model below the first that has an adapter of any name."""
    adapted = [
        match
        for name, _ in model.named_parameters()
        if ".lora_" in name and (match := re.match(r"(.*\.layers)\.(\d+)\.", name))
    ]
    if not adapted:
        return nn.ModuleList()
    layers = model.get_submodule(adapted[0][1])
    assert isinstance(layers, nn.ModuleList)
    return layers[: min(int(match[2]) for match in adapted)]
