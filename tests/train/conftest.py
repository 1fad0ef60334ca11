"""Training without Ray: a process group of this process alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """DeepSpeed wants a process group even where there is one process."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    import torch.distributed as dist

    from rldf_ray.train.worker import _without_inference_collectives

    _without_inference_collectives()
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    from tests.train.tiny import save_tiny_models

    return save_tiny_models(tmp_path)
