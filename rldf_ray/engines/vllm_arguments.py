"""What vLLM is started with, the same for debates, PPO's rollouts and the server."""

from __future__ import annotations

from typing import Any

FOLDER_TRANSFER = "rldf_folder"
"""How vLLM knows the weight transfer of `vllm_worker.py`."""


def vllm_environment(*, enforce_eager: bool) -> dict[str, str]:
    """What vLLM reads from the environment when it is imported."""
    variables = {
        "VLLM_NO_USAGE_STATS": "1",
        # By default vLLM leaves a core to others.
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    }
    if enforce_eager:
        # vLLM's sampler is compiled even so: 25 s at the first request with log-probabilities,
        # and a compiler that has to be there.
        variables["TORCHDYNAMO_DISABLE"] = "1"
    return variables


def vllm_arguments(
    *,
    dtype: str,
    max_model_len: int,
    max_num_seqs: int,
    enforce_eager: bool,
    kv_cache_gib: float | None,
    gpu_memory_utilization: float | None,
    lora_rank: int = 0,
) -> dict[str, Any]:
    """vLLM's engine arguments that every engine of the project has.

    Args:
        kv_cache_gib: memory for the KV cache on a CPU, GiB; None on a GPU.
        gpu_memory_utilization: share of a GPU for weights and KV cache; None leaves it to vLLM.
        lora_rank: highest rank of adapters, one that vLLM has buffers for; 0 for no adapters.
    """
    arguments: dict[str, Any] = {
        "dtype": dtype,
        "max_model_len": max_model_len,
        "max_num_seqs": max_num_seqs,
        "enable_prefix_caching": True,
        "enforce_eager": enforce_eager,
        "disable_log_stats": True,
    }
    if kv_cache_gib is not None:
        arguments |= {
            "kv_cache_memory_bytes": int(kv_cache_gib * 2**30),
            # Seeded requests whose prompt is prefilled in pieces kill the CPU engine
            # ("CPU Generator does not use offset"), so prompts are prefilled whole there.
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(2048, max_model_len),
        }
    if gpu_memory_utilization is not None:
        arguments["gpu_memory_utilization"] = gpu_memory_utilization
    if lora_rank:
        arguments |= {"enable_lora": True, "max_lora_rank": lora_rank}
    return arguments
