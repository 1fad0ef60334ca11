"""The fields of a plan, section by section, each with its unit and its source in the paper."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from rldf_ray.storage import digest

# How a run is carried out, not what it computes: these may change when a run is continued.
HOW_FIELDS = (
    "debate.in_flight",
    "endpoint.timeout_s",
    "endpoint.retries",
    "endpoint.in_flight",
    "endpoint.requests_per_minute",
    "endpoint.tokens_per_minute",
    "endpoint.budget_usd",
    "endpoint.budget_tokens",
    "engines.count",
    "engines.kv_cache_gib",
    "engines.max_num_seqs",
    "engines.gpu_memory_utilization",
    "engines.request_timeout_s",
    "engines.restarts",
    "train.checkpoint_every",
    "train.checkpoint_keep",
    "train.loggers",
    "train.max_failures",
)


Filter = Literal["empty", "cut_off", "refusal", "off_language", "near_duplicate"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Part = Literal["topics", "debate", "referee"]
PARTS: tuple[Part, ...] = ("topics", "debate", "referee")
TRAINED = "trained"


def described(default: Any, text: str, *, unit: str = "", source: str = "", **limits: Any) -> Any:
    """A field with its meaning, unit and source, which `rldf plan fields` prints."""
    return Field(
        default, description=text, json_schema_extra={"unit": unit, "source": source}, **limits
    )


class Endpoint(Section):
    base_url: str | None = described(None, "OpenAI-compatible URL; null is the package's default")
    api_key_env: str = described("OPENAI_API_KEY", "environment variable that holds the key")
    timeout_s: float = described(60.0, "limit of one request", unit="s", gt=0)
    retries: int = described(6, "tries after a 429, 5xx or dropped connection", ge=0)
    in_flight: int = described(
        64, "most requests under way at once; how many it bears is found below that", ge=1
    )
    requests_per_minute: float | None = described(
        None, "rate limit; null is none", unit="requests a minute", gt=0
    )
    tokens_per_minute: float | None = described(
        None, "rate limit, prompt and answer together; null is none", unit="tokens a minute", gt=0
    )
    budget_usd: float | None = described(
        None, "the run stops before its calls cost more (needs both prices)", unit="USD", gt=0
    )
    budget_tokens: int | None = described(
        None, "the run stops before its calls take more, prompt and answer", unit="tokens", ge=1
    )
    prompt_price: float | None = described(
        None, "price of prompt tokens; null leaves the cost unknown", unit="USD a million", ge=0
    )
    generated_price: float | None = described(
        None, "price of generated tokens", unit="USD a million", ge=0
    )

    @model_validator(mode="after")
    def _a_budget_in_money_knows_the_prices(self) -> Endpoint:
        if self.budget_usd is not None and None in (self.prompt_price, self.generated_price):
            raise ValueError("budget_usd needs prompt_price and generated_price")
        return self


def part_model(part: str) -> Any:
    """The field that gives a part of the debate a model of its own."""
    return described(None, f"{part}: 'vllm:MODEL', 'openai:MODEL'; null is the teacher")


def _names_a_backend(value: str | None) -> str | None:
    if value is not None and not value.startswith(("vllm:", "openai:", "scripted:")):
        raise ValueError("allowed: null, 'vllm:MODEL', 'openai:MODEL' or 'scripted:SECONDS'")
    kind, _, rest = (value or "vllm:model").partition(":")
    if not rest or (kind == "scripted" and not rest.replace(".", "", 1).isdigit()):
        raise ValueError(f"after '{kind}:' comes a model, or seconds for 'scripted:'")
    return value


Backend = Annotated[str | None, AfterValidator(_names_a_backend)]


class Topics(Section):
    model: Backend = part_model("who writes topics")
    per_bias_type: int = described(2000, "topics for each bias type", source="paper 4.1", ge=1)
    seeds_per_bias_type: int | None = described(
        None, "how many of them come from the bias type's file at most; null is all it has", ge=0
    )
    judgement_share: float = described(0.5, "share of judgement topics", ge=0, le=1)
    similarity: float = described(
        0.85,
        "a topic at least this similar to an earlier one is dropped (token-sort ratio)",
        gt=0,
        le=1,
    )
    batch: int = described(5, "topics asked for in one request", ge=1, le=50)
    tries: int = described(4, "requests made for each batch still missing before giving up", ge=1)
    debate_share: float = described(0.5, "share of topics that are debated", gt=0, lt=1)
    ppo_share: float = described(
        0.3, "share of topics that are PPO prompts; the rest is held out", gt=0, lt=1
    )

    @model_validator(mode="after")
    def _leaves_held_out_topics(self) -> Topics:
        if self.debate_share + self.ppo_share >= 1:
            raise ValueError(
                f"debate_share + ppo_share is {self.debate_share + self.ppo_share:g}; "
                "it must stay below 1, the rest of the topics is held out for evaluation"
            )
        return self


class DebateSection(Section):
    model: Backend = part_model("who plays the debaters")
    layout: Literal["shared", "paper"] = described(
        "shared",
        "order of a debater's prompt: topic and transcript first and the role last, which engines "
        "reuse for all roles, or the role first",
        source="paper 3.1 (paper)",
    )
    examples: int = described(
        0, "statements of other debates, written for this project, shown to debaters", ge=0, le=6
    )
    debates: int = described(
        5000,
        "debate instances over all bias types; topics are debated in turn",
        source="paper 5, dataset size",
        ge=1,
    )
    debaters: int = described(3, "debaters in a debate", source="paper 4.1", ge=2, le=5)
    rounds: int = described(5, "rounds in a debate", source="paper 4.1", ge=1)
    order: Literal["simultaneous", "sequential"] = described(
        "simultaneous", "whether the debaters of a round see each other's statements of that round"
    )
    max_tokens: int = described(256, "longest statement", unit="tokens", ge=8)
    temperature: float = described(1.0, "sampling temperature of debaters", ge=0, le=2)
    top_p: float = described(0.95, "nucleus threshold of debaters", gt=0, le=1)
    in_flight: int = described(64, "debates under way at once", ge=1)


class RefereeFitSection(Section):
    model: str | None = described(
        None, "the trained referee starts from it: a Hugging Face folder or hub id; null is `model`"
    )
    layers: int | None = described(
        None,
        "lowest transformer layers that are kept; null is half of them, as the upper ones turn to "
        "the next word",
        ge=1,
    )
    trained_layers: int = described(
        0,
        "uppermost of the kept layers that learn, beside norm and score head; they want a learning "
        "rate near 1e-4",
        ge=0,
    )
    learning_rate: float = described(1e-2, "peak learning rate", gt=0)
    batch_size: int = described(16, "pairs an optimizer step", ge=1)
    micro_batch: int = described(16, "pairs a forward pass of one worker", ge=1)
    epochs: float = described(5.0, "passes over the pairs", gt=0)
    centre: float = described(
        0.01,
        "weight of (R(fair) + R(biased))^2 in the loss, without which rewards in two contexts do "
        "not compare",
        source="Eisenstein et al. 2023, eq. 2",
        ge=0,
    )
    max_length: int = described(
        512, "longest context and statement, the statement cut on the right", unit="tokens", ge=16
    )
    held_out_share: float = described(
        0.2,
        "share of the topics that its scores are calibrated on instead of trained on",
        source="Platt 1999",
        gt=0,
        lt=1,
    )


class RefereeSection(Section):
    kind: Literal["prompted", "trained"] = described(
        "prompted",
        "a language model that is asked, or a reward model that the run fits to labelled "
        "statements (docs/referee.md)",
    )
    model: Backend = part_model("who referees, if prompted")
    fit: RefereeFitSection = Field(default_factory=RefereeFitSection)
    label_source: Literal["said", "expected"] = described(
        "said",
        "which score labels a statement: the one said, or the referee's expectation",
        source="paper 3.1 (said)",
    )
    threshold_kind: Literal["absolute", "relative"] = described(
        "absolute",
        "high bias is above `threshold`, or above the mean of its round",
        source="paper 3.1 (absolute)",
    )
    threshold: float = described(
        3.0,
        "absolute: a score above it is high bias",
        unit="score 0-10",
        source="paper 3.1",
        ge=0,
        le=10,
    )
    audit_pairs: int | None = described(
        None,
        "held-out labelled pairs of each bias type in the audit, a seeded sample; null is all",
        ge=1,
    )
    min_auc: float | None = described(
        None, "least AUC the audit must find; null asks for none", ge=0, le=1
    )
    below_min_auc: Literal["stop", "warn"] = described(
        "stop", "what a run does whose referee's AUC is below `min_auc`"
    )

    @model_validator(mode="after")
    def _a_trained_one_is_not_asked(self) -> RefereeSection:
        if self.kind == "trained" and self.model is not None:
            raise ValueError(
                f"kind=trained with model={self.model}: a trained referee is no speaker; name what "
                "it starts from in referee.fit.model, or set kind=prompted"
            )
        return self


class DataSection(Section):
    pairing: Literal["same_topic", "same_role"] = described(
        "same_topic", "which statements may form a pair", source="paper 4.1 (same_topic)"
    )
    min_gap: float = described(
        0.0, "least difference of scores within a pair", unit="score 0-10", ge=0, le=10
    )
    pairs_per_topic: int | None = described(
        None, "pairs kept of each topic, widest gap first; null is all", ge=1
    )
    max_pairs: int | None = described(
        None, "most pairs, topics in turn, widest gap first; null is all", ge=1
    )
    max_sft: int | None = described(None, "most SFT examples; null is all low-bias", ge=1)
    filters: tuple[Filter, ...] = described(
        ("empty", "cut_off", "refusal", "off_language", "near_duplicate"),
        "which statements are left out of sft and pairs: without a word, without a whole sentence, "
        "the model declining, another language than `language`, nearly an earlier one",
    )
    language: str = described(
        "en", "what the statements are written in, for off_language", unit="ISO 639-1"
    )
    similarity: float = described(
        0.7,
        "near_duplicate: least share of three-word runs in common with an earlier statement on "
        "the same prompt (Jaccard index)",
        gt=0,
        le=1,
    )


class SFTSection(Section):
    learning_rate: float = described(2e-5, "peak learning rate", gt=0)
    batch_size: int = described(32, "examples an optimizer step", ge=1)
    micro_batch: int = described(8, "examples a forward pass of one worker", ge=1)
    epochs: float = described(1.0, "passes over the data", source="METHOD 3", gt=0)
    max_length: int = described(1024, "longest example", unit="tokens", ge=16)


class RewardSection(Section):
    learning_rate: float = described(3e-5, "peak learning rate", source="paper 4.1", gt=0)
    batch_size: int = described(32, "pairs an optimizer step", source="paper 4.1", ge=1)
    micro_batch: int = described(8, "pairs a forward pass of one worker", ge=1)
    epochs: float = described(1.0, "passes over the data", source="paper 4.1", gt=0)
    max_length: int = described(
        2048, "longest side, cut on the right", unit="tokens", source="paper 4.1", ge=16
    )
    held_out_share: float = described(0.1, "share of topics kept to measure accuracy", ge=0, lt=1)


class PPOSection(Section):
    episodes: int = described(5120, "answers generated and trained on in all", ge=1)
    rollout_batch: int = described(64, "answers generated at once by one policy", ge=1)
    batch_size: int = described(4, "answers an optimizer step", source="paper 4.1", ge=1)
    micro_batch: int = described(4, "answers a forward pass of one worker", ge=1)
    epochs: int = described(1, "passes over one rollout", source="paper 4.1", ge=1)
    learning_rate: float = described(5e-6, "of the actor", source="paper 4.1", gt=0)
    critic_learning_rate: float = described(9e-6, "of the critic", gt=0)
    beta: float = described(
        0.05, "weight of the KL to the reference in the reward", source="METHOD 3 (choice)", ge=0
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
        "estimator of the KL of a token; the reward wants k1, the loss k2 or k3",
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
        True, "advantages of a rollout get mean 0 and variance 1 over all its tokens"
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
        0, "prompts kept from training; every policy answers them, for `held_out_reward`", ge=0
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

    @model_validator(mode="after")
    def _kl_has_the_right_gradient(self) -> PPOSection:
        if self.kl_in == "loss" and self.kl_estimator == "k1":
            raise ValueError(
                "kl_in=loss with kl_estimator=k1: its gradient is zero on average; allowed in the "
                "loss: k2 (its gradient is the KL's), k3"
            )
        return self


class LoraSection(Section):
    rank: int = described(
        0,
        "rank of the adapters that SFT, reward model and PPO train; 0 trains all parameters",
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
    workers: int = described(1, "Ray Train workers, one device each", ge=1)
    zero_stage: Literal[0, 1, 2, 3] = described(2, "DeepSpeed ZeRO stage")
    offload: bool = described(False, "keep optimizer state in CPU memory (ZeRO 2 and 3)")
    dtype: Literal["float32", "bfloat16"] = described(
        "bfloat16", "precision of SFT and reward model training"
    )
    gradient_checkpointing: bool = described(False, "recompute activations in the backward pass")
    weight_decay: float = described(0.0, "AdamW weight decay", ge=0)
    warmup_share: float = described(0.03, "share of steps of linear warm-up", ge=0, lt=1)
    lora: LoraSection = Field(default_factory=LoraSection)
    checkpoint_every: int | None = described(
        None,
        "steps between checkpoints, from which a job that was cut off goes on; null writes none "
        "and begins again",
        unit="optimizer steps of SFT and reward model, rollout steps of PPO",
        ge=1,
    )
    checkpoint_keep: int = described(
        2, "newest checkpoints kept; PPO's best one is kept beside them", ge=1
    )
    loggers: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = described(
        ("tensorboard",),
        "who is sent the figures of training beside metrics.parquet; wandb and mlflow have to be "
        "installed",
    )
    max_failures: int = described(
        0, "how often lost workers are replaced, to go on from the last checkpoint", ge=0
    )

    @model_validator(mode="after")
    def _adapters_are_whole(self) -> TrainSection:
        if self.lora.rank and self.zero_stage == 3:
            raise ValueError(
                f"zero_stage=3 with lora.rank={self.lora.rank}: the frozen base is shared whole "
                "and adapters leave little to split; allowed with adapters: zero_stage 0, 1, 2"
            )
        return self


class EnginesSection(Section):
    count: int = described(1, "vLLM engines", ge=1)
    dtype: Literal["float32", "bfloat16", "float16"] = described("bfloat16", "of the engines")
    max_model_len: int = described(4096, "prompt plus answer", unit="tokens", ge=128)
    max_num_seqs: int = described(64, "requests decoded together", ge=1)
    kv_cache_gib: float = described(1.0, "KV cache of a CPU engine", unit="GiB", gt=0)
    gpu_memory_utilization: float = described(0.85, "share of a GPU an engine takes", gt=0, lt=1)
    tensor_parallel: int = described(1, "GPUs an engine is split over", ge=1)
    block_size: int | None = described(
        None, "tokens in a KV block (prefixes are shared by block); null is vLLM's choice", ge=1
    )
    enforce_eager: bool = described(False, "skip compilation: starts sooner, decodes slower")
    request_timeout_s: float = described(600.0, "limit of one request to an engine", unit="s", gt=0)
    restarts: int = described(3, "how often an engine that died is started again", ge=0)


class EvaluateSection(Section):
    bbq: str | None = described(None, "folder with BBQ's files; null is the small set shipped here")
    items_per_category: int | None = described(
        None, "items of each category, a seeded stratified sample; null is all", ge=4
    )
    held_out_prompts: int | None = described(
        256, "held-out prompts each model answers; null is all", ge=1
    )
    max_tokens: int = described(256, "longest answer to a held-out prompt", unit="tokens", ge=4)
    batch_tokens: int = described(
        512, "size of a forward pass when answers are ranked", unit="tokens", ge=1
    )


class Plan(Section):
    """Everything a run depends on. Defaults are the paper's where it gives a value."""

    name: str = described("run", "what reports call this run")
    seed: int = described(0, "root of every seed in the run", ge=0)
    bias_types: tuple[str, ...] = described(
        ("age", "nationality", "institution", "beauty", "profession"),
        "bias types, each a file in rldf_ray/prompts/bias_types or a path to one of yours",
        source="paper 4.1",
        min_length=1,
    )
    model: str = described(
        "embedded", "the model to be debiased: 'embedded', a Hugging Face folder or a hub id"
    )
    teacher: Backend = described(
        None,
        "who debates, and referees if prompted: null is the model itself (self-reflection); "
        "'vllm:MODEL' or 'openai:MODEL' is a stronger one (teacher-student); 'scripted:SECONDS' "
        "is no model at all: made-up sentences after a delay, to try a setup",
        source="paper 3.1",
    )
    endpoint: Endpoint = Field(default_factory=Endpoint)
    topics: Topics = Field(default_factory=Topics)
    debate: DebateSection = Field(default_factory=DebateSection)
    referee: RefereeSection = Field(default_factory=RefereeSection)
    data: DataSection = Field(default_factory=DataSection)
    sft: SFTSection = Field(default_factory=SFTSection)
    reward: RewardSection = Field(default_factory=RewardSection)
    ppo: PPOSection = Field(default_factory=PPOSection)
    train: TrainSection = Field(default_factory=TrainSection)
    engines: EnginesSection = Field(default_factory=EnginesSection)
    evaluate: EvaluateSection = Field(default_factory=EvaluateSection)

    @field_validator("bias_types")
    @classmethod
    def _no_bias_type_twice(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a bias type is named twice")
        return value

    @model_validator(mode="after")
    def _batches_divide(self) -> Plan:
        batches: dict[str, SFTSection | RewardSection | PPOSection | RefereeFitSection] = {
            "sft": self.sft,
            "reward": self.reward,
            "ppo": self.ppo,
        }
        if self.referee.kind == "trained":
            batches["referee.fit"] = self.referee.fit
        for name, section in batches.items():
            step = section.micro_batch * self.train.workers
            if section.batch_size % step:
                raise ValueError(
                    f"{name}.batch_size={section.batch_size} must be a multiple of "
                    f"{name}.micro_batch={section.micro_batch} times "
                    f"train.workers={self.train.workers}"
                )
        if self.ppo.rollout_batch % self.ppo.batch_size:
            raise ValueError(
                f"ppo.rollout_batch={self.ppo.rollout_batch} must be a multiple of "
                f"ppo.batch_size={self.ppo.batch_size}"
            )
        if self.ppo.episodes % self.ppo.rollout_batch:
            raise ValueError(
                f"ppo.episodes={self.ppo.episodes} must be a multiple of "
                f"ppo.rollout_batch={self.ppo.rollout_batch}"
            )
        return self

    def speaker_of(self, part: Part) -> str:
        """Who plays `part`: 'vllm:MODEL', 'openai:MODEL', 'scripted:SECONDS' or 'trained:MODEL'.

        The last is a referee only, fitted from MODEL in the run.
        """
        if part == "referee" and self.referee.kind == "trained":
            return f"{TRAINED}:{self.referee.fit.model or self.model}"
        own = {
            "topics": self.topics.model,
            "debate": self.debate.model,
            "referee": self.referee.model,
        }
        return own[part] or self.teacher or f"vllm:{self.model}"

    def speakers(self) -> tuple[str, ...]:
        """The models that play the parts, each once."""
        return tuple(dict.fromkeys(self.speaker_of(part) for part in PARTS))

    def digest(self) -> str:
        """A hash of everything that shapes the results; `HOW_FIELDS` do not."""
        values = self.model_dump(mode="json")
        for path in HOW_FIELDS:
            section, _, field = path.partition(".")
            del values[section][field]
        return digest(values)

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
