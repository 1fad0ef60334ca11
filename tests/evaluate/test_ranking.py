"""Ranking with a shared prompt gives what reading every prompt and option anew gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rldf_ray.evaluate.bbq_data import load_bbq
from rldf_ray.evaluate.multiple_choice import SCENES
from rldf_ray.evaluate.ranking import best_option, prompt_of_item, rank_options
from rldf_ray.models.embedded import embedded_model_folder
from rldf_ray.models.reward_score import chat_ids


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_folder())
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_shared_prompts_equal_separate_ones(tiny_model: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    items = load_bbq(SCENES, None, 4, 0).items[:8]
    found: dict[int, Any] = {}
    for part in rank_options(tiny_model, items, device="cpu", dtype="float32", threads=2, batch=3):
        found |= part
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    for place, item in enumerate(items):
        prompt = chat_ids(tokenizer, prompt_of_item(item), generate=True)
        for option, score in zip(item.options, found[place], strict=True):
            answer = tokenizer.encode(option, add_special_tokens=False)
            with torch.no_grad():
                logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
            logprobs = logits.log_softmax(-1)[range(len(answer)), answer]
            assert score == pytest.approx(float(logprobs.mean()), abs=1e-4)


def test_the_most_likely_option_is_the_prediction() -> None:
    assert best_option((-2.0, -1.0, -3.0)) == 1
    assert best_option((-1.0, -1.0, -3.0)) == 0
