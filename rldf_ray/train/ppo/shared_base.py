"""PPO's four models on one frozen base in memory ("hydra"), each an adapter and its head.

    base (frozen) --+-- actor      the SFT adapter, trained        -> next-token logits
                    +-- reference  the SFT adapter, frozen         -> next-token logits
                    +-- critic     the reward adapter, trained     -> value head
                    +-- reward     the reward adapter, frozen      -> score head

Sharing the base among actor, critic and others: Santacroce et al. 2023 (arXiv:2309.00754).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from rldf_ray.models.reward_score import ExactHead, RewardModel, last_states
from rldf_ray.train.lora import ADAPTER
from rldf_ray.train.ppo.adapted_linear import adapt_linears
from rldf_ray.train.ppo.models import PPOModels, training_engine
from rldf_ray.train.ppo.trunk import Trunk, layers_below_adapters
from rldf_ray.train.ppo.weight_sync import Policy
from rldf_ray.train.prompts_once import Together, neighbours, read_prompts_once
from rldf_ray.train.worker import TrainJob, dtype_of


class SharedBase:
    """A frozen language model that computes under one of its adapters at a time.

    Args:
        base: a transformers causal language model; its layers are changed in place.
        sft, reward: folders of adapters that were trained on it.
        batches: that a PPO step computes with; what layers below all adapters make of them is kept.
    """

    def __init__(self, base: Any, sft: Path, reward: Path, device: str, batches: int) -> None:
        from peft import PeftModel

        self._peft: Any = PeftModel.from_pretrained(
            base, sft, "reference", autocast_adapter_dtype=False
        )
        self._peft.load_adapter(sft, "actor", autocast_adapter_dtype=False)
        self.score = self._load_scorer(reward)
        adapt_linears(self._peft)
        self._trunk = Trunk(layers_below_adapters(self._peft), batches)
        self._peft.requires_grad_(False).to(device)
        self.score.to(device)
        self.dtype: torch.dtype = base.dtype
        self._trained = [*self.parameters_of("actor"), *self.parameters_of("critic")]
        self._active = ""

    def _load_scorer(self, folder: Path) -> ExactHead:
        """The reward model's adapter, as "critic" and as "reward"; returns its score head."""
        from peft import PeftConfig, set_peft_model_state_dict

        saved = load_file(folder / "adapter_model.safetensors")
        weight = next(saved.pop(name) for name in list(saved) if name.endswith("score.weight"))
        config = PeftConfig.from_pretrained(str(folder))
        # The head is held here: the base is a language model and has none to replace.
        config.modules_to_save, config.task_type = None, "CAUSAL_LM"
        for name in ("critic", "reward"):
            self._peft.add_adapter(name, config, autocast_adapter_dtype=False)
            set_peft_model_state_dict(self._peft, saved, adapter_name=name)
        return ExactHead(weight).requires_grad_(False)

    def parameters_of(self, adapter: str) -> list[nn.Parameter]:
        """The adapter's own parameters, always in the same order."""
        return [p for name, p in self._peft.named_parameters() if f".{adapter}." in name]

    def language(self, adapter: str, input_ids: Tensor, **inputs: Any) -> Any:
        """The base as a causal language model under `adapter`."""
        self._switch(adapter)
        with self._trunk.of(input_ids):
            return self._peft.get_base_model()(input_ids=input_ids, use_cache=False, **inputs)

    def hidden(self, adapter: str, input_ids: Tensor, **inputs: Any) -> Tensor:
        """Last hidden states [B, T, H] under `adapter`."""
        self._switch(adapter)
        model = self._peft.get_base_model()
        body = getattr(model, model.base_model_prefix)
        with self._trunk.of(input_ids):
            states: Tensor = body(input_ids=input_ids, use_cache=False, **inputs).last_hidden_state
        return states

    def _switch(self, adapter: str) -> None:
        if adapter != self._active:
            self._peft.set_adapter(adapter, inference_mode=adapter in ("reference", "reward"))
            # PEFT freezes what is not active and frees what is; a graph of the actor may have to
            # outlive a pass of the critic.
            for parameter in self._trained:
                parameter.requires_grad_(True)
            self._active = adapter

    def checkpoint_activations(self) -> None:
        """Recompute activations in the backward pass (it then still has the same adapter)."""
        self._peft.get_base_model().gradient_checkpointing_enable({"use_reentrant": False})
        self._peft.train()

    def read_prompts_once(self, together: Together) -> None:
        """For all four models: prompts that rows share, once."""
        read_prompts_once(self._peft.get_base_model(), together)

    def policy(self) -> Policy:
        """The actor's adapter on the CPU, with its configuration."""
        from peft import get_peft_model_state_dict

        tensors = get_peft_model_state_dict(self._peft, adapter_name="actor")
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        return Policy(weights, self._peft.peft_config["actor"])

    def save_merged(self, folder: Path) -> None:
        """The base with the actor merged into it. The last use of this object."""
        self._peft.merge_and_unload(adapter_names=["actor"]).save_pretrained(folder)


class Actor(nn.Module):
    """The actor as DeepSpeed sees it: the parameters of its adapter and no others."""

    def __init__(self, shared: SharedBase) -> None:
        super().__init__()
        # In a tuple, so that the frozen base is no part of this module.
        self._shared = (shared,)
        self.adapter = nn.ParameterList(shared.parameters_of("actor")).requires_grad_(True)

    def forward(self, **inputs: Any) -> Any:
        return self._shared[0].language("actor", **inputs)


class Critic(nn.Module):
    """The critic as DeepSpeed sees it: its adapter, and a value head that begins as the score."""

    def __init__(self, shared: SharedBase) -> None:
        super().__init__()
        self._shared = (shared,)
        self.adapter = nn.ParameterList(shared.parameters_of("critic")).requires_grad_(True)
        score = shared.score.weight
        self.head = nn.Linear(score.shape[1], 1, dtype=shared.dtype, device=score.device)
        self.head.weight.data.copy_(score)
        nn.init.zeros_(self.head.bias)

    def forward(self, **inputs: Any) -> Any:
        return SimpleNamespace(logits=self.head(self._shared[0].hidden("critic", **inputs)))


class Scorer:
    """The reward model: the score of each row's last token."""

    def __init__(self, shared: SharedBase) -> None:
        self._shared = shared

    def __call__(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        hidden = self._shared.hidden("reward", input_ids=input_ids, attention_mask=attention_mask)
        return SimpleNamespace(logits=self._shared.score(last_states(hidden, attention_mask)))


def shared_models(
    job: TrainJob, base: Any = None, engine: Callable[..., Any] = training_engine
) -> PPOModels:
    """PPO's models as adapters on `folders["model"]`, from the adapters of SFT and reward model.

    Args:
        base: a language model that is in memory already, in place of that folder's.
        engine: makes of a job, a module and a learning rate what trains the module.
    """
    section, device, folders = job.plan.ppo, job.placement.device, job.folders
    shared = SharedBase(
        _loaded(job) if base is None else base,
        Path(folders["sft"]).parent / ADAPTER,
        Path(folders["reward"]).parent / ADAPTER,
        device,
        batches=section.rollout_batch // (section.micro_batch * job.plan.train.workers),
    )
    if job.plan.train.gradient_checkpointing:
        shared.checkpoint_activations()
    if not section.has_critic:
        shared.read_prompts_once(neighbours(section.answers_per_prompt))
    reward = RewardModel(
        folders["reward"], device, job.plan.reward.max_length, model=Scorer(shared)
    )

    def export(_: Policy, out: Path) -> None:
        shared.policy().save(out / ADAPTER)

    def save(policy: Policy, out: Path) -> None:
        export(policy, out)
        shared.save_merged(out / "model")
        reward.tokenizer.save_pretrained(out / "model")

    return PPOModels(
        actor=engine(job, Actor(shared), section.learning_rate),
        critic=engine(job, Critic(shared), section.critic_learning_rate)
        if section.has_critic
        else None,
        reference=lambda **inputs: shared.language("reference", **inputs),
        reward=reward,
        policy=shared.policy,
        export=export,
        save=save,
    )


def _loaded(job: TrainJob) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(job.folders["model"], dtype=dtype_of(job.plan.ppo))
