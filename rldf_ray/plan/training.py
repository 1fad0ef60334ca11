"""The sections about SFT, reward model, PPO and the jobs that train them."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, model_validator

from rldf_ray.plan.endpoint import holds_secret
from rldf_ray.plan.preference import After
from rldf_ray.plan.section import Section, described

KL_ERROR_CLIP = 0.2
"""How far the KL's relative error may count in adaptive beta (Ziegler et al. 2019, 2.2)."""


class SFTSection(Section):
    learning_rate: float = described(2e-5, "peak learning rate", gt=0)
    batch_size: int = described(32, "examples an optimizer step", ge=1)
    micro_batch: int = described(8, "examples a forward pass of one worker", ge=1)
    epochs: float = described(1.0, "passes over the data", source="METHOD 3", gt=0)
    max_length: int = described(1024, "longest example", unit="tokens", ge=16)
    held_out_share: float = described(
        0.0,
        "share of topics kept to measure the loss after every pass: of at most `epochs` passes the "
        "one with the lowest is kept; 0 measures none and takes the last",
        ge=0,
        lt=1,
    )

    @model_validator(mode="after")
    def _measures_whole_passes(self) -> SFTSection:
        if self.held_out_share and self.epochs != int(self.epochs):
            raise ValueError(
                f"epochs={self.epochs:g} with held_out_share={self.held_out_share:g}: the loss is "
                "measured after whole passes; give a whole number of epochs, or held_out_share=0"
            )
        return self


class RewardSection(Section):
    start: Literal["sft", "model"] = described(
        "sft",
        "what it is fitted from: pi_SFT, or the plan's model as it is",
        source="METHOD 3 (choice)",
    )
    learning_rate: float = described(3e-5, "peak learning rate", source="paper 4.1", gt=0)
    batch_size: int = described(32, "pairs an optimizer step", source="paper 4.1", ge=1)
    micro_batch: int = described(8, "pairs a forward pass of one worker", ge=1)
    epochs: float = described(1.0, "passes over the data", source="paper 4.1", gt=0)
    max_length: int = described(
        2048, "longest side, cut on the right", unit="tokens", source="paper 4.1", ge=16
    )
    centre: float = described(
        0.0,
        "weight of (R(good) + R(bad))^2 in the loss, without which rewards on two prompts do not "
        "compare, and PPO learns from what a prompt is worth until the critic knows",
        source="Eisenstein et al. 2023, eq. 2",
        ge=0,
    )
    held_out_share: float = described(0.1, "share of topics kept to measure accuracy", ge=0, lt=1)


class RewardSource(Section):
    """One of the rewards of an answer, and what it counts for."""

    model: Literal["reward"] | None = described(None, "the run's reward model")
    python: str | None = described(
        None, "FILE.py:FUNCTION, or package.module:FUNCTION: rows of answers -> their rewards"
    )
    http: str | None = described(
        None, "URL that is sent {rows: [...]} and returns {rewards: [...]}"
    )
    weight: float = described(1.0, "what it is multiplied by in the sum")
    timeout_s: float = described(60.0, "of a request to `http`", unit="s", gt=0)
    retries: int = described(4, "further tries of a request that failed in passing", ge=0)
    max_calls: int | None = described(
        None,
        "requests to `http` in all, further tries and those of a resumed run included, shared out "
        "among the workers; null is no limit",
        ge=1,
    )

    @model_validator(mode="after")
    def _one(self) -> RewardSource:
        given = [name for name in ("model", "python", "http") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("name one of model: reward, python: FILE.py:FUNCTION and http: URL")
        if self.python is not None and not all(self.python.rpartition(":")):
            raise ValueError(f"python={self.python!r}: allowed is FILE.py:FUNCTION")
        if self.http is not None and not self.http.startswith(("http://", "https://")):
            raise ValueError("http: a URL begins with http:// or https://")
        if self.http is not None and holds_secret(self.http):
            raise ValueError(
                "http holds a password or a key, which would stand in plan.yaml and in every "
                "report: let a server on loopback ask for you"
            )
        if self.weight == 0:
            raise ValueError("weight=0 counts for nothing: leave it out")
        return self

    def __str__(self) -> str:
        """As a plan has it, without what is left at its default."""
        given = self.model_dump(exclude_defaults=True)
        return "{" + ", ".join(f"{name}: {value}" for name, value in given.items()) + "}"

    __repr__ = __str__

    @property
    def name(self) -> str:
        """What figures and messages call it."""
        if self.python is not None:
            return self.python.rpartition(":")[2]
        return "model" if self.http is None else urlsplit(self.http).netloc


class PPOSection(Section):
    episodes: int = described(5120, "answers generated and trained on in all", ge=1)
    rollout_batch: int = described(64, "answers generated at once by one policy", ge=1)
    answers_per_prompt: int = described(
        1,
        "answers to a prompt in a rollout; with more than 1, the mean reward of a prompt's other "
        "answers is an answer's baseline, and there is no critic",
        source="Ahmadian et al. 2024",
        ge=1,
    )
    batch_size: int = described(4, "answers an optimizer step", source="paper 4.1", ge=1)
    micro_batch: int = described(4, "answers a forward pass of one worker", ge=1)
    epochs: int = described(1, "passes over one rollout", source="paper 4.1", ge=1)
    learning_rate: float = described(5e-6, "of the actor", source="paper 4.1", gt=0)
    critic_learning_rate: float = described(9e-6, "of the critic", gt=0)
    rewards: tuple[RewardSource, ...] = described(
        (RewardSource(model="reward"),),
        "what answers are rewarded by, summed with weights: {model: reward}, {python: "
        "FILE.py:FUNCTION}, {http: URL} (docs/ppo.md)",
        min_length=1,
    )
    beta: float = described(
        0.05, "weight of the KL to the reference", source="METHOD 3 (choice)", ge=0
    )
    kl_target: float | None = described(
        None,
        "adaptive beta: the KL an answer it steers to; null keeps beta fixed",
        unit="nats",
        gt=0,
    )
    kl_horizon: int = described(10000, "adaptive beta: time constant", unit="episodes", ge=1)
    kl_in: Literal["reward", "loss"] = described(
        "reward", "where the KL to the reference stands", source="METHOD 3 (choice)"
    )
    kl_estimator: Literal["k1", "k2", "k3"] = described(
        "k1",
        "estimator of the KL of a token: k1 in the reward, k2 or k3 in the loss",
        source="Schulman 2020",
    )
    reward_normalise: bool = described(
        False,
        "divide rewards by the standard deviation of all seen so far",
        source="Engstrom et al. 2020",
    )
    reward_clip: float | None = described(
        None, "rewards (normalised ones, if they are) are kept within plus and minus this", gt=0
    )
    whiten_advantages: bool = described(
        True,
        "advantages of a rollout get mean 0 and variance 1 over all its tokens; without a critic "
        "mean square 1 alone, as an answer like all others to its prompt has 0; not with the KL in "
        "the loss",
    )
    value_warmup: int = described(
        0, "first rollout steps that train the critic alone", unit="rollout steps", ge=0
    )
    stop_kl: float | None = described(
        None,
        "once an update finds the policy this far (k3) from the one that wrote the rollout, the "
        "rest of the updates on it are left out; null does all",
        unit="nats a token",
        gt=0,
    )
    gamma: float = described(1.0, "discount", ge=0, le=1)
    lam: float = described(0.95, "GAE lambda", ge=0, le=1)
    clip: float = described(0.2, "clip range of the importance ratio", gt=0)
    value_clip: float = described(0.2, "clip range of the value", gt=0)
    importance_cap: float = described(
        2.0, "cap of the engine/trainer importance weight (truncated importance sampling)", gt=0
    )
    max_tokens: int = described(256, "longest answer", unit="tokens", ge=4)
    temperature: float = described(1.0, "sampling temperature of rollouts", gt=0, le=2)
    max_grad_norm: float = described(1.0, "gradient clipping", gt=0)
    held_out_prompts: int = described(
        0,
        "least number of prompts kept from training, a topic's all or none of them; every policy "
        "answers them, for `held_out_reward`",
        ge=0,
    )
    overlap: bool = described(
        False,
        "engines answer the next batch while this one is trained on, so its policy is one version "
        "behind",
    )
    sample_every: int | None = described(
        1, "steps between samples of answers in ppo/answers.jsonl; null is none", unit="steps", ge=1
    )
    sample_size: int = described(4, "answers in a sample", ge=1)
    dtype: Literal["float32", "bfloat16"] = described(
        "bfloat16",
        "precision of policy, reference, critic and rollouts; bfloat16 alone moves the ratios of "
        "small models further than an update does, so they want float32",
    )

    @property
    def has_critic(self) -> bool:
        """Whether advantages are taken against a critic, not against other answers."""
        return self.answers_per_prompt == 1

    @property
    def models_trained(self) -> int:
        """The actor, and the critic if there is one."""
        return 2 if self.has_critic else 1

    @model_validator(mode="after")
    def _rewards_have_names_of_their_own(self) -> PPOSection:
        names = [source.name for source in self.rewards]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"rewards: two are called {', '.join(twice)}, by which their figures are told "
                "apart: name functions differently, give a server one address, and a model once"
            )
        return self

    @model_validator(mode="after")
    def _warms_up_a_critic_it_has(self) -> PPOSection:
        if self.value_warmup and not self.has_critic:
            raise ValueError(
                f"value_warmup={self.value_warmup} with answers_per_prompt="
                f"{self.answers_per_prompt}: no critic is trained then; set value_warmup=0, or "
                "answers_per_prompt=1"
            )
        return self

    @model_validator(mode="after")
    def _discounts_values_it_has(self, info: ValidationInfo) -> PPOSection:
        # A run is read whatever became of it.
        if self.gamma != 1 and not self.has_critic and not (info.context or {}).get("saved"):
            raise ValueError(
                f"gamma={self.gamma:g} with answers_per_prompt={self.answers_per_prompt}: without "
                "a critic what an answer is ahead of the others by is the advantage of each of its "
                "tokens, and nothing is discounted; set gamma=1, or answers_per_prompt=1"
            )
        return self

    @model_validator(mode="after")
    def _kl_has_the_right_gradient(self, info: ValidationInfo) -> PPOSection:
        if self.kl_in == "loss" and self.kl_estimator == "k1":
            raise ValueError(
                "kl_in=loss with kl_estimator=k1: its gradient is zero on average; allowed in the "
                "loss: k2 (its gradient is the KL's), k3"
            )
        if (info.context or {}).get("saved"):
            return self
        if self.kl_in == "reward" and self.kl_estimator != "k1":
            raise ValueError(
                f"kl_in=reward with kl_estimator={self.kl_estimator}: a reward is not "
                f"differentiated, and {self.kl_estimator} in it can lead away from the reference; "
                f"allowed in the reward: k1. For {self.kl_estimator} set kl_in=loss and "
                "whiten_advantages=false"
            )
        if self.kl_in == "loss" and self.whiten_advantages:
            raise ValueError(
                "kl_in=loss with whiten_advantages=true: advantages would be divided by their "
                "deviation, another one in every rollout, and the KL would not, so that beta would "
                "weigh it against another scale of rewards each time; set whiten_advantages=false "
                "(reward_normalise=true keeps rewards in one scale), or kl_in=reward"
            )
        return self


class LoraSection(Section):
    rank: int = described(
        0,
        "rank of the adapters that SFT, reward model, PPO, DPO and KTO train; 0 trains all "
        "parameters",
        source="Hu et al. 2021",
        ge=0,
        le=512,
    )
    alpha: int = described(32, "adapters are scaled by alpha / rank", ge=1)
    targets: tuple[str, ...] = described(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        "names of the linear layers that get an adapter",
        min_length=1,
    )
    layers: float = described(
        1.0,
        "share of the model's layers that get adapters, from the last one down; what the layers "
        "below compute is shared by PPO's actor, critic and reference",
        source="Havrilla et al. 2023",
        gt=0,
        le=1,
    )


class TrainSection(Section):
    after: tuple[After, ...] = described(
        ("ppo",),
        "what trains the policy after SFT: ppo, dpo, kto, or several, each of which begins as the "
        "one before left it; the last one's is the run's policy",
        min_length=1,
    )
    workers: int = described(1, "Ray Train workers, one device each", ge=1)
    zero_stage: Literal[0, 1, 2, 3] = described(2, "DeepSpeed ZeRO stage")
    offload: bool = described(False, "keep optimizer state in CPU memory (ZeRO 2 and 3)")
    dtype: Literal["float32", "bfloat16"] = described(
        "bfloat16", "precision of all training but PPO's, which is `ppo.dtype`"
    )
    gradient_checkpointing: bool = described(False, "recompute activations in the backward pass")
    weight_decay: float = described(0.0, "AdamW weight decay", ge=0)
    warmup_share: float = described(0.03, "share of steps of linear warm-up", ge=0, lt=1)
    lora: LoraSection = Field(default_factory=LoraSection)
    checkpoint_every: int | None = described(
        None,
        "steps between checkpoints, from which a job that was cut off goes on; null writes none "
        "and begins again",
        unit="optimizer steps, of PPO rollout steps",
        ge=1,
    )
    checkpoint_keep: int = described(
        2, "newest checkpoints kept; PPO's best one is kept beside them", ge=1
    )
    loggers: tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...] = described(
        ("tensorboard",),
        "who is sent the figures of training beside metrics.parquet; wandb, mlflow and trackio "
        "have to be installed",
    )
    max_failures: int = described(
        0, "how often lost workers are replaced, to go on from the last checkpoint", ge=0
    )

    @property
    def last(self) -> After:
        """The stage that leaves the run's policy."""
        return self.after[-1]

    @model_validator(mode="after")
    def _trains_nothing_twice(self) -> TrainSection:
        if len(set(self.after)) != len(self.after):
            raise ValueError(
                f"after={list(self.after)}: a stage leaves its model in a folder of its name, so "
                "each is there once at most"
            )
        return self

    @model_validator(mode="after")
    def _adapters_are_whole(self) -> TrainSection:
        if self.lora.rank and self.zero_stage == 3:
            raise ValueError(
                f"zero_stage=3 with lora.rank={self.lora.rank}: the frozen base is shared whole "
                "and adapters leave little to split; allowed with adapters: zero_stage 0, 1, 2"
            )
        return self
