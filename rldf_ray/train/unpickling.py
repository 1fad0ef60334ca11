"""Files of `torch.save`: what they hold is built, and nothing that they name is called.

A pickle may name any function and what to call it with. These may come from another machine or a
bucket, so only plain values, tensors, generators' states and the few classes here are let in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rldf_ray.errors import UserError


class UnsafeFileError(UserError):
    """A checkpoint's file is torn, or holds more than a checkpoint does; the message names it."""


def load_values(path: Path, classes: tuple[type, ...] = ()) -> Any:
    """What `torch.save` wrote, on the CPU.

    Args:
        classes: that the values may be of, besides the usual ones.

    Raises:
        UnsafeFileError: it is no such file, or names something else.
    """
    return _loaded(path, classes, mapped=False)


def check_files(folder: Path) -> None:
    """Nothing where every `.pt` file below `folder` holds values alone: others may unpickle them.

    Raises:
        UnsafeFileError: one is no such file, or names something else.
    """
    for path in sorted(folder.rglob("*.pt")):
        # Mapped, as the tensors themselves need not be read.
        _loaded(path, _deepspeeds(), mapped=True)


def _loaded(path: Path, classes: tuple[type, ...], *, mapped: bool) -> Any:
    allowed = [*classes, *_numpys()]
    try:
        with torch.serialization.safe_globals(allowed):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except OSError:
        raise
    except Exception as error:
        # Torch has no class of its own for it; the reason stands in one of many lines of advice.
        said = " ".join(str(error).split())[:300]
        raise UnsafeFileError(
            f"{path} holds something that no checkpoint of ours does, or is torn ({said}): find "
            "out who wrote it; without its checkpoint folder the job begins again"
        ) from error


def _numpys() -> list[Any]:
    """What the state of numpy's generator is made of."""
    return [
        np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
        np.ndarray,
        np.dtype,
        type(np.dtype(np.uint32)),
    ]


def _deepspeeds() -> tuple[type, ...]:
    """What DeepSpeed's states are made of, besides tensors."""
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler, LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    return (DynamicLossScaler, LossScaler, ZeroStageEnum, fragment_address)
