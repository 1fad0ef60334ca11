"""The section about vLLM engines."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from rldf_ray.plan.section import Section, described


class EnginesSection(Section):
    count: int = described(1, "vLLM engines", ge=1)
    max_count: int | None = described(
        None,
        "most engines of a model that speaks: one more is started whenever as many requests wait "
        "as would fill it (PPO's are `count`); null is `count`",
        ge=1,
    )
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
    request_timeout_s: float = described(
        600.0, "how long an engine that is asked may answer nobody", unit="s", gt=0
    )
    restarts: int = described(3, "how often an engine that died is started again", ge=0)
    sleep: bool = described(
        False,
        "while PPO trains, engines give back the memory of their KV cache and weights, and while "
        "they answer the trainer gives back what it keeps for reuse",
    )

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> EnginesSection:
        if self.max_count is not None and self.max_count < self.count:
            raise ValueError(
                f"max_count={self.max_count} is below count={self.count}; allowed: null, or "
                f"{self.count} and more"
            )
        return self
