"""What is served, how, and within which limits: one typed description, read from YAML or made from
a run folder. `serve/application.yaml` has it as the application's `args`."""

from __future__ import annotations

import ipaddress
import re
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from rldf_ray.errors import UserError
from rldf_ray.models.embedded import located
from rldf_ray.plan.prompts import OwnPrompts
from rldf_ray.plan.request_fields import TemplateValues
from rldf_ray.plan.section import Section, described
from rldf_ray.prompts.own import check_prompts
from rldf_ray.storage.home_path import home_path

# More is not read by the proxy, whoever is there to refuse it.
MOST_BODY_BYTES = 64 << 20


class SettingsError(UserError):
    """Settings that cannot be served; the message names the field and what is allowed."""


class ModelSource(Section):
    folder: str | None = described(
        None, "model or LoRA adapter: a folder, a hub id, or 'embedded'; null with `store`"
    )
    store: bool = described(False, "take the versions published in `store` under this name")
    on: str | None = described(None, "for an adapter: the served model whose engine carries it")

    @field_validator("folder")
    @classmethod
    def _from_anywhere(cls, folder: str | None) -> str | None:
        return None if folder is None else located(folder)

    @model_validator(mode="after")
    def _one_source(self) -> ModelSource:
        if (self.folder is None) == (not self.store):
            raise ValueError("give either `folder` or `store: true`")
        return self


class EngineSection(Section):
    kind: Literal["vllm", "scripted"] = described("vllm", "'scripted' answers without a model")
    dtype: Literal["float32", "bfloat16", "float16"] = described("bfloat16", "of the weights")
    max_model_len: int = described(2048, "prompt plus answer", unit="tokens", ge=64)
    max_num_seqs: int = described(64, "requests decoded together", ge=1)
    kv_cache_gib: float = described(0.5, "KV cache of a CPU engine", unit="GiB", gt=0)
    gpu_memory_utilization: float = described(0.85, "share of a GPU an engine takes", gt=0, lt=1)
    cpus: float = described(0.5, "CPUs Ray reserves for one replica", gt=0)
    threads: int | None = described(
        None,
        "that a replica on a CPU computes with; null is all cores of the machine that deploys, "
        "shared among the models that are not adapters",
        ge=1,
    )
    gpus: float = described(0, "GPUs of one replica; below 1 several share one", ge=0)
    accelerator_type: str | None = described(None, "kind of GPU as Ray names it; null is any")
    enforce_eager: bool = described(True, "skip compilation: starts sooner, decodes slower")
    min_replicas: int = described(1, "engines of one model at least", ge=1)
    max_replicas: int = described(1, "engines of one model at most", ge=1)
    target_ongoing: float = described(
        32, "requests under way per engine that the autoscaler aims at", gt=0
    )
    upscale_delay_s: float = described(
        30, "engines are added after more requests than that for this long", unit="s", ge=0
    )
    downscale_delay_s: float = described(600, "and ended after fewer for this long", unit="s", ge=0)
    prefix_routing: bool = described(
        False, "send prompts with the same beginning to the same engine (several replicas)"
    )
    messages_per_s: float | None = described(
        None,
        "pieces of streams that a replica sends; null is 10 for each core of its machine; more "
        "where a stream would be silent for a third of limits.idle_s",
        gt=0,
    )
    tool_call_parser: str | None = described(
        None,
        "how the model writes calls of tools, by vLLM's name (hermes, llama3_json, ...); null: it "
        "is shown no tools",
    )
    max_lora_rank: int = described(64, "largest rank of an adapter", ge=8)
    health_check_s: float = described(2.0, "how often Serve asks an engine", unit="s", gt=0)
    scripted_delay_s: float = described(0.0, "scripted: pause before each word", unit="s", ge=0)

    @model_validator(mode="after")
    def _replicas_fit(self) -> EngineSection:
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"min_replicas={self.min_replicas} is more than max_replicas={self.max_replicas}: "
                "set both"
            )
        return self


class Limits(Section):
    body_bytes: int = described(
        1 << 20, "largest request body", unit="bytes", ge=1024, le=MOST_BODY_BYTES
    )
    body_timeout_s: float = described(15, "time to send a body", unit="s", gt=0)
    prompt_characters: int = described(32768, "longest prompt, all messages", ge=1)
    n: int = described(8, "most samples of one request", ge=1)
    max_tokens: int = described(1024, "most tokens of one sample", unit="tokens", ge=1)
    schema_bytes: int = described(16384, "largest JSON schema or list of choices", unit="bytes")
    request_timeout_s: float = described(
        120, "a generation is cancelled in the engine after it", unit="s", gt=0
    )
    idle_s: float = described(
        30, "a stream without a piece for so long ends: its engine hangs", unit="s", gt=0
    )
    in_flight: int = described(256, "requests under way in one API replica", ge=1)
    in_flight_per_key: int = described(
        128, "of them of one key, so that no key takes the room of all", ge=1
    )
    bias_texts: int = described(64, "texts of one /v1/bias request", ge=1)
    debate_rounds: int = described(5, "rounds of one /v1/debate", ge=1)
    debates_in_flight: int = described(4, "debates under way in one API replica", ge=1)
    debates_per_key: int = described(
        2, "debates of one key under way or waiting, so that no key takes every turn", ge=1
    )
    debate_wait_s: float = described(60, "a debate waits for its turn so long", unit="s", gt=0)
    debate_s: float = described(900, "a debate under way ends after it", unit="s", gt=0)


class Settings(Section):
    """Everything the application depends on."""

    name: str = described("rldf", "name of the Serve application")
    host: str = described("127.0.0.1", "address to listen on")
    port: int = described(8000, "port to listen on; 0 is any free one", ge=0, le=65535)
    models: dict[str, ModelSource] = described(..., "what requests may name, by name", min_length=1)
    default: str | None = described(None, "model of requests that name none; null is the first")
    referee: str | None = described(None, "model that referees; null is 'base', or the default")
    trained_referee: str | None = described(
        None, "a run's referee/ (model and calibration.json); null prompts the model `referee`"
    )
    referee_max_length: int = described(
        1024, "longest text with its prompt, as it was fitted", unit="tokens", ge=16
    )
    reward: str | None = described(None, "reward model folder for /v1/bias; null is none")
    reward_max_length: int = described(1024, "longest text with its prompt", unit="tokens", ge=16)
    reward_cpus: float = described(0.25, "CPUs Ray reserves for the reward model", ge=0)
    reward_gpus: float = described(0, "GPUs of the reward model", ge=0)
    store: str | None = described(None, "folder of published versions")
    chat_template_kwargs: TemplateValues = described(
        None, "values for the models' chat templates; those of a run are its plan's"
    )
    prompts: OwnPrompts = described(
        None, "of debates and the referee, in place of shipped ones; those of a run are its plan's"
    )
    runs: tuple[str, ...] = described((), "run folders that the page may show")
    corpora: dict[str, str] = described(
        {}, "texts that /v1/debias may search, by name: a corpus or a folder of texts"
    )
    keys: str | None = described(None, "file of API keys; null lets everybody in (loopback only)")
    api_replicas: int = described(1, "replicas of the API; they share the limits of keys", ge=1)
    hosts: tuple[str, ...] = described(
        (), "names that requests may give this server in `Host`, beside its address and loopback's"
    )
    cors_origins: tuple[str, ...] = described((), "origins of other pages that may call the API")
    log_prompts: bool = described(False, "write prompts into the log")
    drain_s: float = described(60, "on SIGTERM: time for requests under way", unit="s", ge=0)
    engine: EngineSection = Field(default_factory=EngineSection)
    limits: Limits = Field(default_factory=Limits)

    # Replicas have other working folders.

    @field_validator("corpora")
    @classmethod
    def _corpora_from_anywhere(cls, corpora: dict[str, str]) -> dict[str, str]:
        return {name: str(home_path(where).resolve()) for name, where in corpora.items()}

    @field_validator("keys", "store", "trained_referee")
    @classmethod
    def _path_from_anywhere(cls, where: str | None) -> str | None:
        return None if where is None else str(home_path(where).absolute())

    @field_validator("runs")
    @classmethod
    def _runs_from_anywhere(cls, runs: tuple[str, ...]) -> tuple[str, ...]:
        # Not what links lead to: a run is shown by its folder's name.
        return tuple(str(home_path(run).absolute()) for run in runs)

    @field_validator("reward")
    @classmethod
    def _model_from_anywhere(cls, reward: str | None) -> str | None:
        return None if reward is None else located(reward)

    @field_validator("prompts")
    @classmethod
    def _of_dialogues(cls, prompts: dict[str, str] | None) -> dict[str, str] | None:
        check_prompts(prompts or {}, ("topics", "referee", "protocols"))
        return prompts

    @model_validator(mode="after")
    def _names_fit(self) -> Settings:
        for field in ("default", "referee"):
            name = getattr(self, field)
            if name is not None and name not in self.models:
                raise ValueError(f"{field}={name!r} is none of models: {', '.join(self.models)}")
        for name, source in self.models.items():
            if not re.fullmatch("[A-Za-z0-9_-]+", name):
                raise ValueError(f"models.{name}: use letters, digits, - and _")
            if source.on is not None and self._carries(source.on) is None:
                raise ValueError(f"models.{name}.on={source.on!r} is no model with its own engine")
            if source.store and self.store is None:
                raise ValueError(f"models.{name}.store is true, but `store` names no folder")
        return self

    def _carries(self, name: str) -> ModelSource | None:
        source = self.models.get(name)
        return source if source is not None and source.on is None else None

    def serves_host(self, given: str) -> bool:
        """Whether a request with this `Host` is for this server.

        A page elsewhere can have its name lead to this machine (DNS rebinding); to the browser it
        is then the same origin, and may read everything. With keys it has none, and a server on
        every address has names that it does not know.
        """
        if self.keys is not None and not self.hosts:
            return True
        name = _host_name(given)
        return is_loopback(name) or name in {host.lower() for host in (self.host, *self.hosts)}

    @property
    def default_model(self) -> str:
        return self.default or next(iter(self.models))

    @property
    def referee_model(self) -> str:
        return self.referee or ("base" if "base" in self.models else self.default_model)

    def adapters_on(self, name: str) -> list[str]:
        """Models that are adapters on the engine of `name`."""
        return [other for other, source in self.models.items() if source.on == name]


def _host_name(given: str) -> str:
    """The name or address in a `Host` header, without its port."""
    name = given.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if ":" in name else name


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(host: str, keys: str | None) -> None:
    """Refuse to be reachable from elsewhere without keys.

    Raises:
        SettingsError: `host` is no loopback address and there is no key file.
    """
    if keys is None and not is_loopback(host):
        raise SettingsError(
            f"host={host} can be reached from other machines, and `keys` names no file of API "
            "keys: make one with `rldf serve key NAME --keys FILE` and give --keys FILE, or "
            "listen on 127.0.0.1"
        )


def read_settings(values: object) -> Settings:
    """Settings from parsed YAML or JSON.

    Raises:
        SettingsError: lists every wrong field.
    """
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors()
        ]
        raise SettingsError("wrong settings:\n" + "\n".join(lines)) from error
