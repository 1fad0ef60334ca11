"""An engine as a Serve application of its own, which a rollout starts and ends."""

from __future__ import annotations

import os
from typing import Any

from ray import serve

from rldf_ray.apps.serve.settings import Settings
from rldf_ray.cluster.environment import waiting_environment
from rldf_ray.engines.vllm_arguments import vllm_arguments, vllm_environment
from rldf_ray.models.embedded import resolve_model


def engine_application(settings: Settings, name: str, folder: str) -> serve.Application:
    """The application of one engine, serving `folder` and the adapters on it."""
    from rldf_ray.apps.serve.replicas import ScriptedServed

    section = settings.engine
    folder = resolve_model(folder)
    if section.kind == "vllm":
        return _vllm_application(settings, name, folder)
    options = {**_deployment_options(settings), "ray_actor_options": {"num_cpus": section.cpus}}
    return serve.deployment(name="engine", **options)(ScriptedServed).bind(
        name,
        folder,
        delay_s=section.scripted_delay_s,
        messages_per_s=section.messages_per_s,
        idle_s=settings.limits.idle_s,
    )


def _vllm_application(settings: Settings, name: str, folder: str) -> serve.Application:
    from ray.serve.llm import LLMConfig, build_llm_deployment

    from rldf_ray.apps.serve.replicas import ServedModel

    section = settings.engine
    bundle: dict[str, float] = {"CPU": section.cpus}
    if section.gpus:
        bundle["GPU"] = section.gpus
    config = LLMConfig(
        model_loading_config={"model_id": name, "model_source": folder},
        engine_kwargs=_engine_arguments(settings, name),
        accelerator_type=section.accelerator_type,
        placement_group_config={"bundles": [bundle]},
        deployment_config={
            **_deployment_options(settings),
            "ray_actor_options": {"num_cpus": 0},
        },
        experimental_configs={"stream_batching_interval_ms": 0},
        runtime_env={"env_vars": engine_environment(settings)},
        log_engine_metrics=False,
    )
    return build_llm_deployment(
        config,
        deployment_cls=ServedModel,
        override_serve_options={"name": "engine"},
        bind_kwargs={
            "messages_per_s": section.messages_per_s,
            "idle_s": settings.limits.idle_s,
            "chat_template_kwargs": settings.chat_template_kwargs,
        },
    )


def engine_environment(settings: Settings) -> dict[str, str]:
    """What vLLM reads when it is imported."""
    return {
        **vllm_environment(enforce_eager=settings.engine.enforce_eager),
        **waiting_environment(alone=_engines(settings) == settings.engine.max_replicas == 1),
        # Ray would set it to the CPUs it reserved, and vLLM obeys.
        "OMP_NUM_THREADS": str(engine_threads(settings)),
    }


def engine_threads(settings: Settings) -> int:
    """Threads of one engine on a CPU: more than its share of the cores slows all of them down."""
    return settings.engine.threads or max(1, (os.cpu_count() or 1) // max(1, _engines(settings)))


def _engines(settings: Settings) -> int:
    """Models with an engine of their own."""
    return sum(source.on is None for source in settings.models.values())


def _engine_arguments(settings: Settings, name: str) -> dict[str, Any]:
    section = settings.engine
    adapters = settings.adapters_on(name.partition(".")[0])
    arguments = vllm_arguments(
        dtype=section.dtype,
        max_model_len=section.max_model_len,
        max_num_seqs=section.max_num_seqs,
        enforce_eager=section.enforce_eager,
        kv_cache_gib=None if section.gpus else section.kv_cache_gib,
        gpu_memory_utilization=section.gpu_memory_utilization if section.gpus else None,
        lora_rank=section.max_lora_rank if adapters else 0,
    )
    if adapters:
        # During a rollout an adapter is there in two versions.
        arguments["max_loras"] = 2 * len(adapters) + 1
    if section.tool_call_parser is not None:
        arguments |= {
            "enable_auto_tool_choice": True,
            "tool_call_parser": section.tool_call_parser,
            # Whatever a model is asked to call, it is called as its schema says.
            "tool_strict_level": "parameter",
        }
    return {
        **arguments,
        "enable_log_requests": False,
        # A sampling default in the model's folder must not change what a request means, and
        # this is the one place where answers without max_tokens are limited.
        "generation_config": "vllm",
        "override_generation_config": {"max_new_tokens": settings.limits.max_tokens},
    }


def _deployment_options(settings: Settings) -> dict[str, Any]:
    section = settings.engine
    options: dict[str, Any] = {
        "autoscaling_config": {
            "min_replicas": section.min_replicas,
            "max_replicas": section.max_replicas,
            "target_ongoing_requests": section.target_ongoing,
            "upscale_delay_s": section.upscale_delay_s,
            "downscale_delay_s": section.downscale_delay_s,
        },
        "max_ongoing_requests": 10_000,
        "health_check_period_s": section.health_check_s,
        # A replica that is taken away finishes what it has begun.
        "graceful_shutdown_timeout_s": settings.limits.request_timeout_s,
        "graceful_shutdown_wait_loop_s": 0.5,
    }
    if section.prefix_routing:
        options["request_router_config"] = {
            "request_router_class": "ray.serve.llm.request_router:PrefixCacheAffinityRouter"
        }
    return options
