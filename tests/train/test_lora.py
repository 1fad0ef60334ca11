"""Adapters that begin as trained ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rldf_ray.plan import LoraSection
from rldf_ray.train.lora import begin_as, lora_config


def scoring(adapters: dict[str, str], section: LoraSection) -> Any:
    """A reward model as its trainer makes it: a new adapter and a new head on the base."""
    from peft import get_peft_model
    from transformers import AutoModelForSequenceClassification

    base = AutoModelForSequenceClassification.from_pretrained(adapters["model"], num_labels=1)
    return get_peft_model(base, lora_config(section, 2, scores=True))


def test_a_reward_models_adapter_begins_as_that_of_sft(adapters: dict[str, str]) -> None:
    folder = Path(adapters["sft"]).parent / "adapter"
    model = scoring(adapters, LoraSection(rank=4, alpha=8))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    begin_as(model, folder)
    after = model.state_dict()
    trained = load_file(folder / "adapter_model.safetensors")
    assert trained
    for name, value in trained.items():
        place = name.replace(".weight", ".default.weight")
        assert torch.equal(after[place], value)
        assert not torch.equal(before[place], value)
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert len(changed) == len(trained)


def test_an_adapter_of_other_layers_is_refused(adapters: dict[str, str]) -> None:
    folder = Path(adapters["sft"]).parent / "adapter"
    model = scoring(adapters, LoraSection(rank=4, alpha=8, layers=0.5))
    with pytest.raises(ValueError, match=r"does not fit the model's.*train\.lora"):
        begin_as(model, folder)
