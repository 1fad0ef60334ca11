"""New policy weights from the trainer into the engines, through shared memory of its machine.

Where that has no room, they go through a file in the folder for temporary ones. Engines on other
machines are sent a copy (`engines/sent.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from rldf_ray.cluster.shared_memory import passing_folder, places, remove_left_behind
from rldf_ray.storage.json_text import json_text

if TYPE_CHECKING:
    from rldf_ray.engines.pool import EnginePool

# As safetensors names them.
DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


@dataclass(frozen=True)
class Policy:
    """What engines need to become the trainer's policy.

    Attributes:
        weights: tensors on the CPU by the names that saved models or saved adapters use.
        adapter: PEFT's configuration where `weights` is an adapter; None for a whole model.
    """

    weights: Mapping[str, Tensor]
    adapter: Any = None

    def save(self, folder: Path) -> None:
        """A safetensors file, and for an adapter the folder that PEFT and vLLM load."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.adapter is not None:
            self.adapter.save_pretrained(folder)
        name = "model" if self.adapter is None else "adapter_model"
        save_file(dict(self.weights), folder / f"{name}.safetensors", metadata={"format": "pt"})


def full_weights(model: torch.nn.Module) -> dict[str, Tensor]:
    """All weights of a model on the CPU, gathered parameter by parameter where ZeRO-3 split them.

    A collective: every rank calls it. Tied weights appear once, under the name saved models use.
    """
    import deepspeed

    weights: dict[str, Tensor] = {}
    # A tied head is listed once, as the embedding that comes before it.
    for name, parameter in model.named_parameters():
        if hasattr(parameter, "ds_id"):
            with deepspeed.zero.GatheredParameters([parameter]):
                weights[name] = parameter.detach().cpu().clone()
        else:
            weights[name] = parameter.detach().cpu().contiguous()
    return weights


def write_in_place(weights: Mapping[str, Tensor], path: Path) -> None:
    """A safetensors file of `weights`, over the pages of the one an earlier call wrote.

    New pages of shared memory cost several times what the copy into them does. Tensors are read one
    at a time.
    """
    if not path.exists():
        _make_room(weights, path)
    header_bytes = int.from_bytes(path.open("rb").read(8), "little")
    header = json.loads(path.open("rb").read(8 + header_bytes)[8:])
    # Unmapped again at the end, as these pages would count as this process's memory.
    file = torch.from_file(str(path), shared=True, size=path.stat().st_size, dtype=torch.uint8)
    tensors = file[8 + header_bytes :]
    for name, weight in weights.items():
        begin, end = header[name]["data_offsets"]
        tensors[begin:end].view(weight.dtype).view(weight.shape).copy_(weight)


def _make_room(weights: Mapping[str, Tensor], path: Path) -> None:
    """A safetensors file with a place for every tensor (`save_file` would copy them all first)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    tensors = [(name, w.dtype, list(w.shape), w.nbytes) for name, w in weights.items()]
    end = 0
    # The widest first, so that all are aligned.
    for name, dtype, shape, size in sorted(tensors, key=lambda tensor: -tensor[1].itemsize):
        begin, end = end, end + size
        header[name] = {"dtype": DTYPES[dtype], "shape": shape, "data_offsets": [begin, end]}
    text = json_text(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        # All pages now: one that finds no room when it is written to would end this process.
        os.posix_fallocate(file.fileno(), 0, 8 + len(text) + end)
        file.write(len(text).to_bytes(8, "little") + text)


class SharedMemorySync:
    """Writes the weights once into memory, where the engines of this machine read them."""

    def __init__(self, pool: EnginePool, opened: ExitStack) -> None:
        self._pool = pool
        self._opened = opened
        self._folder: Path | None = None

    def sync(self, policy: Policy, revision: str) -> None:
        """Returns when every engine answers with this policy; ModelError if one does not.

        Raises:
            NoRoomError: there is no room for the weights.
        """
        if self._folder is None:
            size = sum(weight.nbytes for weight in policy.weights.values())
            self._folder = passing_folder(size, self._opened)
        if policy.adapter is None:
            write_in_place(policy.weights, self._folder / "model.safetensors")
            self._pool.sync_weights(str(self._folder), revision, everywhere=False)
        else:
            policy.save(self._folder)
            self._pool.sync_adapter(str(self._folder), revision, everywhere=False)


@contextmanager
def shared_memory_sync(pool: EnginePool) -> Iterator[SharedMemorySync]:
    """A `SharedMemorySync` whose memory is given back at the end."""
    for place in places():
        remove_left_behind(place)
    with ExitStack() as opened:
        yield SharedMemorySync(pool, opened)


def save_model(model: Any, tokenizer: Any, weights: Mapping[str, Tensor], folder: Path) -> None:
    """A Hugging Face folder of `weights`, which plain transformers and plain vLLM load."""
    model.save_pretrained(folder, state_dict=dict(weights), safe_serialization=True)
    tokenizer.save_pretrained(folder)
