"""A LoRA adapter in the weights of its base, tensor by tensor, as an engine loads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor


def merged(
    base: Iterable[tuple[str, Tensor]], adapter: Path, dtype: torch.dtype
) -> Iterator[tuple[str, Tensor]]:
    """W + (alpha / rank) B A for each layer of the adapter, the others as they are.

    In float32 and rounded once, as PEFT merges on a CPU; one tensor is held at a time.

    Raises:
        ValueError: the adapter has a layer that the base does not.
    """
    saved = load_file(adapter / "adapter_model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    scale = config["lora_alpha"] / config["r"]
    for name, weight in base:
        layer = f"base_model.model.{name.removesuffix('.weight')}"
        down, up = (saved.pop(f"{layer}.lora_{part}.weight", None) for part in "AB")
        if down is None or up is None:
            yield name, weight
        else:
            yield name, weight.to(dtype) + (scale * (up.float() @ down.float())).to(dtype)
    if saved:
        raise ValueError(f"{adapter}: the base has no layer for {min(saved)}")
