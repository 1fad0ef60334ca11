"""Tiny random models in Hugging Face folders, and jobs on them that need no Ray."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rldf_ray.cluster.placement import Placement
from rldf_ray.train.ppo.metrics import Experience
from rldf_ray.train.ppo.rollout import Rollout
from rldf_ray.train.ppo.step import PPO
from rldf_ray.train.worker import TrainJob
from tests.fakes import plan_with

WORDS = tuple(f"w{i}" for i in range(40))
CPU = Placement(
    device="cpu",
    engines=1,
    engine_cpus=1,
    engine_gpus=0,
    workers=1,
    worker_cpus=1,
    worker_gpus=0,
    threads=1,
)
TEMPLATE = (
    "{% for m in messages %}<start> {{ m['role'] }} {{ m['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<start> assistant {% endif %}"
)


def prompt_rows(number: int) -> list[dict[str, Any]]:
    """Rows of data/prompts.parquet, each of a topic of its own."""
    return [
        {
            "prompt_id": f"p{i}",
            "topic_id": f"t{i}",
            "prompt": [{"role": "user", "content": f"w{i}"}],
        }
        for i in range(number)
    ]


def tiny_tokenizer() -> Any:
    """One token a word."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<start>", "<end>", "<unk>", "user", "assistant", *WORDS]
    inner = Tokenizer(WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unk>",
        chat_template=TEMPLATE,
    )


def tiny_config(**changes: Any) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        **{
            "vocab_size": 46,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 128,
            "pad_token_id": 0,
            "eos_token_id": 2,
            "bos_token_id": 1,
            "tie_word_embeddings": True,
            **changes,
        }
    )


def save_tiny_models(root: Path, seed: int = 0) -> dict[str, str]:
    """Folders of a language model ("sft", "model") and of a reward model ("reward")."""
    from transformers import LlamaForCausalLM, LlamaForSequenceClassification

    torch.manual_seed(seed)
    LlamaForCausalLM(tiny_config()).save_pretrained(root / "sft")
    LlamaForSequenceClassification(tiny_config(num_labels=1)).save_pretrained(root / "reward")
    for name in ("sft", "reward"):
        tiny_tokenizer().save_pretrained(root / name)
    return {name: str(root / name) for name in ("sft", "reward")} | {"model": str(root / "sft")}


def tiny_job(folders: dict[str, str], *overrides: str, **extra: Any) -> TrainJob:
    """A PPO job of 4 steps of 4 answers in float32, on one worker without Ray."""
    plan = plan_with(
        "train={workers: 1, zero_stage: 0}",
        "sft={batch_size: 4, micro_batch: 1}",
        "reward={batch_size: 4, micro_batch: 1}",
        "ppo={episodes: 16, rollout_batch: 4, batch_size: 4, micro_batch: 4, max_tokens: 6, "
        "dtype: float32, learning_rate: 1.0e-3, critic_learning_rate: 1.0e-3}",
        *overrides,
    )
    return TrainJob(plan, CPU, folders, extra)


def random_rollouts(number: int, seed: int = 0) -> list[Rollout]:
    """Rollouts of different lengths with made-up engine log-probabilities."""
    draw = random.Random(seed)
    found = []
    for _ in range(number):
        prompt = tuple(draw.randrange(4, 46) for _ in range(draw.randint(2, 5)))
        answer = tuple(draw.randrange(4, 46) for _ in range(draw.randint(1, 6)))
        logprobs = tuple(draw.uniform(-5, -3) for _ in answer)
        found.append(
            Rollout(
                prompt_ids=prompt,
                answer_ids=answer,
                engine_logprobs=logprobs,
                text="text",
                ended=draw.random() < 0.5,
            )
        )
    return found


def answers_to_each(prompts: int, answers: int, seed: int = 0) -> list[Rollout]:
    """Rollouts of different lengths, so many beside each other to every prompt."""
    rollouts = random_rollouts(prompts * answers, seed)
    asked = [rollouts[i - i % answers].prompt_ids for i in range(len(rollouts))]
    return [replace(r, prompt_ids=p * 4) for r, p in zip(rollouts, asked, strict=True)]


@torch.no_grad()
def sampled_rollouts(
    model: Any, prompt: Sequence[int], number: int, generator: torch.Generator
) -> list[Rollout]:
    """One-token answers of a model to one prompt, as an engine would return them."""
    logprobs = torch.log_softmax(model(torch.tensor([list(prompt)])).logits[0, -1], -1)
    ids = torch.multinomial(logprobs.exp(), number, replacement=True, generator=generator)
    return [
        Rollout(
            prompt_ids=tuple(prompt),
            answer_ids=(int(i),),
            engine_logprobs=(float(logprobs[i]),),
            text="",
            ended=False,
        )
        for i in ids
    ]


def scores_of(number: int) -> torch.Tensor:
    return torch.linspace(-1, 1, number)


def weights_of(ppo: PPO) -> dict[str, torch.Tensor]:
    models = {name: engine.module for name, engine in ppo.engines.items()}
    return {
        f"{name}.{key}": value.detach().clone()
        for name, model in models.items()
        for key, value in model.state_dict().items()
    }


def experience_of(
    ppo: PPO, rollouts: list[Rollout], rewards: torch.Tensor
) -> tuple[list[Experience], torch.Tensor]:
    batches = ppo._batches(rollouts)
    return ppo._experience(batches, ppo._passes(batches), rewards)
