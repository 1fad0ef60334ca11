"""PPO's models on random weights, as the product builds them and as PEFT alone would.

ours    one frozen base, an adapter for each model            rldf_ray/train/ppo/shared_base.py
peft    two frozen bases under PEFT's own LoRA layers: actor, and reference with the adapter
        switched off, on one; critic and reward model on the other; every prompt in every row
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from benchmarks.gpu_flops import Size
from rldf_ray.cluster.placement import Placement
from rldf_ray.models.reward_score import ExactHead, RewardModel, last_states
from rldf_ray.plan import load_plan
from rldf_ray.train.lora import ADAPTER, lora_config
from rldf_ray.train.ppo.models import PPOModels
from rldf_ray.train.ppo.shared_base import shared_models
from rldf_ray.train.worker import TrainJob, dtype_of

TEMPLATE = (
    "{% for m in messages %}<start> {{ m['role'] }} {{ m['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<start> assistant {% endif %}"
)
TOKENS = ("<pad>", "<start>", "<end>", "<unk>", "user", "assistant")
RANK = 16


@dataclass(frozen=True, kw_only=True)
class Case:
    """A PPO step that is measured.

    Attributes:
        answers: to a prompt; with one there is a critic, with more none.
        layers: share of the layers that get adapters, from the last one down.
    """

    name: str
    answers: int
    layers: float

    def adapted(self, size: Size) -> int:
        """How many layers have adapters."""
        return max(1, round(size.layers * self.layers))


# The defaults of a plan, and what the preset `bbq-lora` sets.
CASES = (
    Case(name="critic, all layers", answers=1, layers=1.0),
    Case(name="4 answers, upper half", answers=4, layers=0.5),
)


def job_of(case: Case, size: Size, device: str, dtype: str, folder: Path) -> TrainJob:
    """A PPO job of one micro-batch a step, with tokenizer and adapters in `folder`."""
    batches = ("episodes", "rollout_batch", "batch_size", "micro_batch")
    plan = load_plan(
        "one-80gb",
        [
            *(f"ppo.{name}={size.rollouts}" for name in batches),
            f"ppo.answers_per_prompt={case.answers}",
            f"ppo.dtype={dtype}",
            f"train.lora={{rank: {RANK}, layers: {case.layers}}}",
            "train.gradient_checkpointing=false",
        ],
    )
    placement = Placement(
        device=device,
        engines=0,
        engine_cpus=0,
        engine_gpus=0,
        workers=1,
        worker_cpus=1,
        worker_gpus=float(device == "cuda"),
        threads=torch.get_num_threads(),
    )
    folders = {name: str(folder / name / "model") for name in ("sft", "reward")}
    job = TrainJob(plan, placement, folders)
    tokenizer().save_pretrained(folders["reward"])
    _save_adapters(size, job)
    return job


def random_model(size: Size, dtype: torch.dtype, device: str) -> Any:
    """A Qwen2 language model with the same random weights at every call."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(_config(size), dtype=dtype)
    return model.eval().requires_grad_(False)


def _config(size: Size) -> Any:
    from transformers import Qwen2Config

    return Qwen2Config(
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        vocab_size=size.words,
        tie_word_embeddings=size.tied,
        max_position_embeddings=32768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )


def tokenizer() -> Any:
    """One token a word, with a chat template: a reward model needs no more for ids it is given."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(WordLevel({w: i for i, w in enumerate(TOKENS)}, unk_token="<unk>"))
    inner.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unk>",
        chat_template=TEMPLATE,
    )


def _save_adapters(size: Size, job: TrainJob) -> None:
    """What SFT and the reward model leave: the first changes nothing yet, the second is random."""
    from peft import get_peft_model, get_peft_model_state_dict
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        bare = AutoModelForCausalLM.from_config(_config(size))
    config = lora_config(job.plan.train.lora, size.layers, scores=False)
    shapes = get_peft_model_state_dict(get_peft_model(bare, config))
    draw = torch.Generator().manual_seed(1)
    for name, out in (("sft", 0.0), ("reward", 0.02)):
        tensors = {
            key: (out if ".lora_B." in key else 0.02) * torch.randn(like.shape, generator=draw)
            for key, like in shapes.items()
        }
        if name == "reward":
            score = 0.02 * torch.randn(1, size.hidden, generator=draw)
            tensors["base_model.model.score.weight"] = score
        folder = Path(job.folders[name]).parent / ADAPTER
        folder.mkdir(parents=True)
        config.save_pretrained(folder)
        save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})


class PlainEngine:
    """What DeepSpeed's engine does for one worker without sharding.

    DeepSpeed keeps float32 copies of what it trains in bfloat16; this does not.
    """

    def __init__(self, job: TrainJob, module: nn.Module, learning_rate: float) -> None:
        self.module = module
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        self._largest = job.plan.ppo.max_grad_norm
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=learning_rate, weight_decay=0.0, fused=True
        )

    def __call__(self, **inputs: Any) -> Any:
        return self.module(**inputs)

    def backward(self, loss: Tensor) -> None:
        torch.autograd.backward(loss)

    def step(self) -> None:
        nn.utils.clip_grad_norm_(self._parameters, self._largest)
        self._optimizer.step()
        self._optimizer.zero_grad()


Engine = Callable[[TrainJob, nn.Module, float], Any]


def ours(job: TrainJob, size: Size, engine: Engine = PlainEngine) -> PPOModels:
    """The product's models."""
    model = random_model(size, dtype_of(job.plan.ppo), job.placement.device)
    return shared_models(job, model, engine)


class PeftBase:
    """A frozen base of its own, under PEFT's LoRA layers with one adapter or more."""

    def __init__(self, base: Any, saved: Path, adapters: tuple[str, ...], device: str) -> None:
        from peft import PeftConfig, get_peft_model, set_peft_model_state_dict
        from safetensors.torch import load_file

        config, first = PeftConfig.from_pretrained(str(saved)), adapters[0]
        tensors = load_file(saved / "adapter_model.safetensors")
        self.score = tensors.pop("base_model.model.score.weight", None)
        self.peft: Any = get_peft_model(base, config, first, autocast_adapter_dtype=False)
        for name in adapters[1:]:
            self.peft.add_adapter(name, config, autocast_adapter_dtype=False)
        for name in adapters:
            set_peft_model_state_dict(self.peft, tensors, adapter_name=name)
        self.peft.to(device)
        self.peft.set_adapter(first)
        self.dtype: torch.dtype = base.dtype

    def parameters_of(self, adapter: str) -> list[nn.Parameter]:
        return [p for name, p in self.peft.named_parameters() if f".{adapter}." in name]

    def language(self, **inputs: Any) -> Any:
        return self.peft(use_cache=False, **inputs)

    def hidden(self, **inputs: Any) -> Tensor:
        states: Tensor = self.peft.get_base_model().model(use_cache=False, **inputs)[0]
        return states


class PeftActor(nn.Module):
    """The actor; its adapter's parameters and no others are this module's."""

    def __init__(self, base: PeftBase) -> None:
        super().__init__()
        self._base = (base,)
        self.adapter = nn.ParameterList(base.parameters_of("actor"))

    def forward(self, **inputs: Any) -> Any:
        return self._base[0].language(**inputs)

    def without_adapter(self, **inputs: Any) -> Any:
        """The reference."""
        with self._base[0].peft.disable_adapter():
            return self._base[0].language(**inputs)


class PeftValues(nn.Module):
    """The critic, and the reward model under an adapter of its own on the same base."""

    def __init__(self, base: PeftBase, device: str) -> None:
        super().__init__()
        assert base.score is not None
        self._base = (base,)
        self._score = (ExactHead(base.score.to(device)).requires_grad_(False),)
        self.adapter = nn.ParameterList(base.parameters_of("critic"))
        self.head = nn.Linear(base.score.shape[1], 1, dtype=base.dtype, device=device)
        self.head.weight.data.copy_(base.score)
        nn.init.zeros_(self.head.bias)

    def forward(self, **inputs: Any) -> Any:
        return SimpleNamespace(logits=self.head(self._base[0].hidden(**inputs)))

    def rewards(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """The score of each row's last token."""
        base = self._base[0]
        base.peft.set_adapter("reward")
        hidden = base.hidden(input_ids=input_ids, attention_mask=attention_mask)
        base.peft.set_adapter("critic")
        return SimpleNamespace(logits=self._score[0](last_states(hidden, attention_mask)))


def peft(job: TrainJob, size: Size, engine: Engine = PlainEngine) -> PPOModels:
    """The same models without the product's shared base, adapter layers and shared prompts."""
    section, device = job.plan.ppo, job.placement.device

    def base(saved: str, *adapters: str) -> PeftBase:
        model = random_model(size, dtype_of(section), device)
        return PeftBase(model, Path(job.folders[saved]).parent / ADAPTER, adapters, device)

    actor = PeftActor(base("sft", "actor"))
    values = PeftValues(base("reward", "critic", "reward"), device)

    def unused(*_: Any) -> Any:
        raise NotImplementedError("a benchmark's policy goes nowhere")

    return PPOModels(
        actor=engine(job, actor, section.learning_rate),
        critic=engine(job, values, section.critic_learning_rate) if section.has_critic else None,
        reference=actor.without_adapter,
        reward=RewardModel(
            job.folders["reward"], device, job.plan.reward.max_length, model=values.rewards
        ),
        policy=unused,
        export=unused,
        save=unused,
    )
