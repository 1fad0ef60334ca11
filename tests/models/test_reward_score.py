"""The reward model reads the same ids in training, in PPO and in evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.embedded import embedded_model_folder
from rldf_ray.models.reward_score import (
    RewardModel,
    padded,
    score_last_token,
)

MESSAGES = [{"role": "user", "content": "Who should lead the team?"}]
ANSWER = "The one who knows the work best."


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(embedded_model_folder())


def test_what_an_engine_said_is_scored_as_the_finished_conversation(tokenizer: Any) -> None:
    template = ChatTemplate(tokenizer)
    prompt = template.prompt_ids(MESSAGES)
    answer = tokenizer.encode(ANSWER, add_special_tokens=False)
    whole = tokenizer.apply_chat_template(
        [*MESSAGES, {"role": "assistant", "content": ANSWER}], tokenize=True, return_dict=False
    )
    assert template.answered(MESSAGES, ANSWER).ids == whole
    assert template.finished(prompt, answer).ids == whole
    # An answer that the engine ended carries the end-of-turn token already.
    assert template.finished(prompt, [*answer, tokenizer.eos_token_id]).ids == whole


def test_padding_is_on_the_right() -> None:
    ids, attention = padded([[1, 2, 3], [4]], 0)
    assert ids.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert attention.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_scores_do_not_depend_on_what_shares_a_batch(tokenizer: Any, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForSequenceClassification

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = RewardModel(tmp_path, "cpu", 128)
    prompt = model.template.prompt_ids(MESSAGES)
    answers = [tokenizer.encode(text, add_special_tokens=False) for text in (ANSWER, "Nobody.")]
    together = model.score([prompt, prompt], answers)
    alone = torch.cat([model.score([prompt], [answer]) for answer in answers])
    assert together.tolist() == pytest.approx(alone.tolist(), abs=1e-5)
    assert together[0] != together[1]


def test_a_bfloat16_model_gives_fine_rewards(tmp_path: Path) -> None:
    from tests.train.tiny import save_tiny_models

    model = RewardModel(save_tiny_models(tmp_path)["reward"], "cpu", 64)
    model.model.to(torch.bfloat16)
    prompt = [{"role": "user", "content": "w1 w2"}]
    answers = [f"w{i} w{j}" for i in range(3, 8) for j in range(3, 8)]
    rewards = torch.tensor([model.score_answer(prompt, answer)[0] for answer in answers])
    assert len(set(rewards.tolist())) > len(set(rewards.bfloat16().tolist()))


def test_the_last_token_counts_where_padding_is_the_end_of_sequence(tmp_path: Path) -> None:
    """As in Llama after TRL: by their ids, an answer's end would be taken for padding."""
    from tests.train.tiny import save_tiny_models

    folder = save_tiny_models(tmp_path)["reward"]
    prompt, answers = [7, 8, 9], [[10, 11], [12, 13, 14, 15]]
    usual = RewardModel(folder, "cpu", 64)
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    ends = usual.tokenizer.eos_token_id
    (Path(folder) / "config.json").write_text(
        json.dumps({**config, "pad_token_id": ends}), encoding="utf-8"
    )
    found = RewardModel(folder, "cpu", 64).score([prompt] * 2, answers)
    whole = [torch.tensor([[*prompt, *answer, ends]]) for answer in answers]
    states = [usual.model.base_model(input_ids=ids)[0][0, -1] for ids in whole]
    expected = [float(usual.model.score(state)) for state in states]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    assert found.tolist() == pytest.approx(usual.score([prompt] * 2, answers).tolist(), abs=1e-6)


def test_the_head_that_is_trained_is_the_one_that_is_saved(tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    from tests.train.tiny import save_tiny_models

    folder = save_tiny_models(tmp_path)["reward"]
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.bfloat16)
    weight = model.score.weight
    score_last_token(model)
    ids, attention = padded([[5, 6, 7], [8, 9]], 0)
    logits = model(input_ids=ids, attention_mask=attention, use_cache=False).logits
    logits.sum().backward()
    assert model.score.weight is weight and weight.grad is not None
    assert logits.dtype == torch.float32 and logits.shape == (2, 1)
    assert "score.weight" in model.state_dict()
