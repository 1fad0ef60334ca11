"""Perplexity of a model that can be worked out by hand, and the text it is measured on."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from rldf_ray.evaluate.perplexity.perplexity import TEXT, perplexity
from rldf_ray.models.embedded import embedded_model_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All weights 0 but the final norm's: every token is equally likely."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("even")
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_folder())
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    llama = LlamaForCausalLM(config)
    with torch.no_grad():
        llama.lm_head.weight.zero_()
    llama.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_model_that_knows_nothing_has_the_size_of_its_vocabulary(model: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    found = perplexity(model, device="cpu", dtype="float32", threads=1)
    assert found.value == pytest.approx(len(tokenizer), rel=1e-4)
    ids = tokenizer.encode(TEXT.read_text(encoding="utf-8"), add_special_tokens=False)
    # The first token of each window of 512 is given.
    assert found.tokens == len(ids) - -(-len(ids) // 512)


@pytest.mark.parametrize("mean", [800.0, math.inf, math.nan])
def test_a_mean_too_large_for_a_float_or_no_number_ends_nothing(
    model: Path, mean: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    nats = lambda model, window: mean * (len(window) - 1)  # noqa: E731
    monkeypatch.setattr(f"{perplexity.__module__}._nats", nats)
    found = perplexity(model, device="cpu", dtype="float32", threads=1)
    assert not math.isfinite(found.value)


def test_a_text_of_one_token_is_an_error(model: Path) -> None:
    with pytest.raises(ValueError, match="needed: two or more"):
        perplexity(model, device="cpu", dtype="float32", threads=1, text="a")


def test_the_neutral_text_is_about_1500_words_and_names_no_group_of_people() -> None:
    words = TEXT.read_text(encoding="utf-8").lower().split()
    assert 1300 < len(words) < 1700
    assert not {"woman", "women", "muslim", "immigrant", "elderly", "ugly"} & set(words)
