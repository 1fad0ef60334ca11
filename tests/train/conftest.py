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


@pytest.fixture
def adapters(folders: dict[str, str]) -> dict[str, str]:
    """Adapters with weights of their own, trained as it were on the base in `folders`."""
    return with_adapters(folders, layers=1.0)


def with_adapters(folders: dict[str, str], layers: float) -> dict[str, str]:
    """`folders` with an SFT and a reward stage that trained adapters on that share of layers."""
    import torch
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    from rldf_ray.plan import LoraSection
    from rldf_ray.train.lora import lora_config
    from tests.train.tiny import tiny_tokenizer

    section = LoraSection(rank=4, alpha=8, layers=layers)
    torch.manual_seed(7)
    kinds = {"sft": AutoModelForCausalLM, "reward": AutoModelForSequenceClassification}
    for name, kind in kinds.items():
        options = {"num_labels": 1} if name == "reward" else {}
        model = kind.from_pretrained(folders["model"], **options)
        number = model.config.num_hidden_layers
        model = get_peft_model(model, lora_config(section, number, scores=name == "reward"))
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if "lora_B" in key:
                    parameter.normal_(std=0.2)
        root = Path(folders["model"]).parent / f"{name}-stage"
        model.save_pretrained(root / "adapter")
        model.merge_and_unload().save_pretrained(root / "model")
        tiny_tokenizer().save_pretrained(root / "model")
        folders[name] = str(root / "model")
    return folders
