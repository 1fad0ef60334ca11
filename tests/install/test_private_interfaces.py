"""Interfaces of other packages that are no public ones: each with its shape, so that an upgrade
says what broke, and a list of the files that may use one.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.train.ray_trainer import CLEANER

ROOT = Path(__file__).parents[2]
PRIVATE = re.compile(r"\b(_private|_internal)\b")
# Documented ones, of os and of named tuples.
PUBLIC = {"_exit", "_replace"}
SERVE_CLIENT = "ray.serve._private.client:ServeControllerClient"
ADAPTER = "ray.llm._internal.serve.core.configs.llm_config:DiskMultiplexConfig"
UNFINISHED = "vllm.v1.engine.output_processor:OutputProcessor.get_num_unfinished_requests"
# Files with an attribute of somebody else that begins with an underscore, and which.
USED = {
    "rldf_ray/cluster/ray_cluster.py": {"_private"},
    "rldf_ray/engines/vllm_worker.py": {"_already_called_process_weights_after_loading"},
    # Not installed here: tests/train/test_trackers.py has its shape, where it is.
    "rldf_ray/train/loggers/trackio.py": {"_next_step"},
    "rldf_ray/train/prompts_once.py": {"_attn_implementation"},
    "rldf_ray/train/ray_trainer.py": {"_create_default_callbacks", "_register_sigint_handler"},
    "rldf_ray/train/unpickling.py": {"_core", "_reconstruct"},
    "serve/replicas.py": {"_app_state", "_engine_client"},
}
IMPORTED = {
    "rldf_ray/cluster/ray_cluster.py": {"ray._private.accelerators", "ray._private.utils"},
    "serve/app.py": {"ray.serve.context"},
    "serve/replicas.py": {"ray.llm._internal.serve.core.configs.llm_config"},
    "tune/cleanup.py": {"ray._private.state"},
}


def of(dotted: str) -> Any:
    """What a dotted name stands for, its module imported."""
    module, _, name = dotted.rpartition(":")
    value = import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def parameters(dotted: str) -> list[str]:
    return list(inspect.signature(of(dotted)).parameters)


def assigned(dotted: str) -> Callable[[str], bool]:
    """Whether a class's own source gives `self` an attribute."""
    source = inspect.getsource(of(dotted))
    return lambda name: re.search(rf"self\.{name}\b\s*(:|=)", source) is not None


SHAPES: dict[str, Callable[[], bool]] = {
    # rldf_ray/cluster/ray_cluster.py
    "Ray's worker knows its node": lambda: assigned("ray._private.worker:Worker")("node"),
    "the node knows its folder of logs": lambda: (
        parameters("ray._private.node:Node.get_logs_dir_path") == ["self"]
    ),
    "GPUs are counted by a manager": lambda: (
        parameters("ray._private.accelerators:get_accelerator_manager_for_resource")
        == ["resource_name"]
    ),
    "cores are counted": lambda: (
        "()" in inspect.getsource(of("ray._private.utils:get_num_cpus"))
        and all(
            p.default is not p.empty
            for p in inspect.signature(of("ray._private.utils:get_num_cpus")).parameters.values()
        )
    ),
    "what an autoscaler may add": lambda: (
        '"--autoscaling-config=" + str(autoscaling_config)'
        in inspect.getsource(of("ray._private.services:start_monitor"))
    ),
    # tune/cleanup.py
    "all actors of a cluster": lambda: (
        parameters("ray._private.state:GlobalState.actor_table")[:2] == ["self", "actor_id"]
    ),
    "all jobs of a cluster": lambda: (
        parameters("ray._private.state:GlobalState.job_table") == ["self"]
    ),
    # serve/app.py, serve/replicas.py
    "Serve's client": lambda: "http_config" in dir(of(SERVE_CLIENT)),
    "where an adapter is": lambda: (
        {"model_id", "max_total_tokens", "local_path", "lora_assigned_int_id"}
        == set(of(ADAPTER).model_fields)
    ),
    "Ray's engine holds vLLM's": lambda: assigned(
        "ray.llm._internal.serve.engines.vllm.vllm_engine:VLLMEngine"
    )("_engine_client"),
    "Ray's engine holds the state of vLLM's API server": lambda: assigned(
        "ray.llm._internal.serve.engines.vllm.vllm_engine:VLLMEngine"
    )("_app_state"),
    "vLLM answers /v1/responses": lambda: (
        parameters(
            "vllm.entrypoints.openai.responses.serving:OpenAIServingResponses.create_responses"
        )
        == ["self", "request", "raw_request"]
    ),
    "vLLM's engine says whether it has died": lambda: isinstance(
        of("vllm.v1.engine.async_llm:AsyncLLM.errored"), property
    ),
    "vLLM's engine counts its requests": lambda: (
        assigned("vllm.v1.engine.async_llm:AsyncLLM")("output_processor")
        and parameters(
            "vllm.v1.engine.output_processor:OutputProcessor.get_num_unfinished_requests"
        )
        == ["self"]
    ),
    # rldf_ray/engines/vllm_worker.py
    "vLLM's caches": lambda: assigned("vllm.v1.worker.gpu_model_runner:GPUModelRunner")(
        "kv_caches"
    ),
    "a CPU's layers compute with packed weights": lambda: (
        "layer.cpu_linear ="
        in inspect.getsource(of("vllm.model_executor.layers.utils:dispatch_cpu_unquantized_gemm"))
    ),
    "a head is packed once": lambda: (
        "_already_called_process_weights_after_loading"
        in inspect.getsource(import_module("vllm.model_executor.model_loader.reload.layerwise"))
    ),
    # rldf_ray/train
    "Ray Train's handler of Ctrl-C": lambda: (
        parameters(
            "ray.train.v2.api.data_parallel_trainer:DataParallelTrainer._register_sigint_handler"
        )
        == ["self", "controller"]
    ),
    "Ray Train's callbacks": lambda: (
        f"{CLEANER}()"
        in inspect.getsource(
            of(
                "ray.train.v2.api.data_parallel_trainer"
                ":DataParallelTrainer._create_default_callbacks"
            )
        )
    ),
    "DeepSpeed's operators": lambda: isinstance(of("deepspeed.ops:__compatible_ops__"), dict),
    "what DeepSpeed's states are made of": lambda: all(
        isinstance(of(name), type)
        for name in (
            "deepspeed.runtime.fp16.loss_scaler:DynamicLossScaler",
            "deepspeed.runtime.fp16.loss_scaler:LossScaler",
            "deepspeed.runtime.zero.config:ZeroStageEnum",
            "deepspeed.utils.tensor_fragment:fragment_address",
        )
    ),
    "the attention of a model": lambda: (
        "_attn_implementation" in dir(of("transformers:PreTrainedConfig"))
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_interface_is_as_it_is_used(shape: str) -> None:
    assert SHAPES[shape]()


def sources() -> list[Path]:
    return [p for top in ("rldf_ray", "serve", "tune") for p in (ROOT / top).rglob("*.py")]


def test_no_other_file_uses_a_private_attribute() -> None:
    used: dict[str, set[str]] = {}
    for path in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        own = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        } | {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        names = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
        } - (own - {"_create_default_callbacks", "_register_sigint_handler"} | PUBLIC)
        if names:
            used[path.relative_to(ROOT).as_posix()] = names
    assert used == USED


def test_no_other_file_imports_a_private_module() -> None:
    imported: dict[str, set[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""] * (
                    bool(PRIVATE.search(node.module or ""))
                    or any(a.name.startswith("_") for a in node.names)
                )
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if PRIVATE.search(alias.name)]
            else:
                continue
            names = [name for name in names if not name.startswith(("rldf_ray", "__"))]
            if names:
                imported.setdefault(path.relative_to(ROOT).as_posix(), set()).update(names)
    assert imported == IMPORTED
