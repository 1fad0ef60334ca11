"""What vLLM's worker has besides its own: it loads new weights, and gives back a CPU's memory.

vLLM imports this module in the process of the worker, as the engine's arguments name
`WorkerExtension`; from then on the weight transfer is known there by its name.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor
from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.model_loader import get_model_loader
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)

from rldf_ray.cluster.memory import trim_heap
from rldf_ray.engines.merged import merged
from rldf_ray.engines.vllm_arguments import FOLDER_TRANSFER
from rldf_ray.storage.folders import visible


@dataclass
class Opened(WeightTransferInitInfo):
    """There is nothing to open: a folder is read as it is."""


@dataclass
class Weights(WeightTransferUpdateInfo):
    """Safetensors files in a folder of this machine, by the names that saved models use.

    Attributes:
        adapter: they are a LoRA adapter, as PEFT saves it, for the model the engine was started on.
    """

    folder: str
    adapter: bool


class FolderTransfer(WeightTransferEngine[Opened, Weights]):
    """New weights from a folder, as a rule in shared memory (`train/ppo/weight_sync.py`).

    On a CPU, vLLM prepacks linear weights, and loading in place leaves the packed copy behind a
    tied output head as it was, without a word; outputs are then plausible and wrong. The head is
    therefore packed again. `tests/train/ppo/test_weight_sync.py` compares an engine with a fresh
    one.
    """

    init_info_cls = Opened
    update_info_cls = Weights

    def init_transfer_engine(self, init_info: Opened) -> None:
        pass

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        if self.device.type != "cpu":
            super().update_weights(update_info)
            return
        # vLLM's own waits for an accelerator, and fails without one.
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: Weights) -> None:
        model: Any = self.model
        folder = Path(update_info.folder)
        tensors = self._with_adapter(folder) if update_info.adapter else _tensors(folder)
        model.load_weights(tensors)

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        self._pack_head()
        trim_heap()

    def shutdown(self) -> None:
        pass

    def _with_adapter(self, folder: Path) -> Iterator[tuple[str, Tensor]]:
        """The weights the engine was started with, read once more, the adapter merged into them."""
        started: Any = self.vllm_config
        loader: Any = get_model_loader(started.load_config)
        base = loader.get_all_weights(started.model_config, self.model)
        return merged(base, folder, started.model_config.dtype)

    def _pack_head(self) -> None:
        head = getattr(self.model, "lm_head", None)
        if head is None:
            return
        if hasattr(head, "_already_called_process_weights_after_loading"):
            del head._already_called_process_weights_after_loading
        head.quant_method.process_weights_after_loading(head)


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """All tensors of a folder.

    Raises:
        FileNotFoundError: it has none.
    """
    files = visible(folder, "*.safetensors")
    if not files:
        raise FileNotFoundError(f"no safetensors files in {folder}")
    for file in files:
        with safe_open(file, "pt") as weights:
            for name in weights.keys():  # noqa: SIM118 - it is no mapping
                yield name, weights.get_tensor(name)


class WorkerExtension:
    """Mixed into vLLM's worker: gives back a CPU's memory, which vLLM cannot."""

    def release_cache(self) -> None:
        """Give the pages of the KV cache back to the system; as zeros they return when written."""
        caches: list[Any] = self.model_runner.kv_caches  # type: ignore[attr-defined]
        memory = {c.untyped_storage().data_ptr(): c.untyped_storage().nbytes() for c in caches}
        for address, size in memory.items():
            begin, end = -(-address // mmap.PAGESIZE), (address + size) // mmap.PAGESIZE
            pages = begin * mmap.PAGESIZE, max(0, end - begin) * mmap.PAGESIZE
            ctypes.CDLL(None).madvise(
                ctypes.c_void_p(pages[0]), ctypes.c_size_t(pages[1]), mmap.MADV_DONTNEED
            )

    def release_weights(self) -> None:
        """Drop the packed weights of linear layers; before an answer new ones have to be loaded."""
        for layer in self.model_runner.get_model().modules():  # type: ignore[attr-defined]
            if hasattr(layer, "cpu_linear"):
                layer.cpu_linear = _without_weights
        trim_heap()


def _without_weights(*_: Any) -> Any:
    raise RuntimeError("asked for an answer before weights were loaded again")


WeightTransferEngineFactory.register_engine(FOLDER_TRANSFER, FolderTransfer)
