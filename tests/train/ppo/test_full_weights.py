"""All weights of a model leave the trainer, whether or not its output head is tied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rldf_ray.train.ppo.weight_sync import full_weights, save_model
from tests.train.tiny import tiny_config, tiny_tokenizer

TIED = pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])


def _model(family: str, tied: bool) -> Any:
    from transformers import LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(3)
    config = tiny_config(tie_word_embeddings=tied)
    if family == "llama":
        return LlamaForCausalLM(config)
    return Qwen2ForCausalLM(Qwen2Config(**{**config.to_dict(), "model_type": "qwen2"}))


@TIED
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_head_is_handed_on_where_it_is_a_weight_of_its_own(family: str, tied: bool) -> None:
    weights = full_weights(_model(family, tied))
    assert "model.embed_tokens.weight" in weights
    assert ("lm_head.weight" in weights) is not tied


@TIED
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_saved_model_answers_as_the_trained_one(family: str, tied: bool, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = _model(family, tied)
    save_model(model, tiny_tokenizer(), full_weights(model), tmp_path)
    read, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    ids = torch.tensor([[1, 20, 21, 5]])
    with torch.no_grad():
        assert torch.equal(read(ids).logits, model(ids).logits)
