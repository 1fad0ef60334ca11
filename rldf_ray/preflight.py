"""What can be known before anything expensive starts: model, data, endpoint, disk."""

from __future__ import annotations

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from rldf_ray.dataset import filters
from rldf_ray.debate.topics import seed_topics
from rldf_ray.evaluate.multiple_choice import load_items
from rldf_ray.models.embedded import resolve_model
from rldf_ray.plan import Plan
from rldf_ray.prompts import bias_type


class PreflightError(RuntimeError):
    """An input is missing or wrong; the message names it and says what to do."""


def check_inputs(plan: Plan, out: Path) -> None:
    """Everything a run will read, before it starts.

    Raises:
        PreflightError: model, bias type, evaluation set, endpoint key or disk is not there.
    """
    for check in (
        check_bias_types,
        check_language,
        check_model,
        check_items,
        check_endpoint,
        check_loggers,
    ):
        check(plan)
    check_disk(plan, out)


def check_bias_types(plan: Plan) -> str:
    """Every bias type's file is there and right."""
    try:
        seeds = sum(
            len(seed_topics(bias_type(name), "opinion", plan))
            + len(seed_topics(bias_type(name), "judgement", plan))
            for name in plan.bias_types
        )
    except ValueError as error:
        raise PreflightError(f"bias_types: {error}") from error
    return f"{len(plan.bias_types)} bias types, {seeds} seed topics"


def check_language(plan: Plan) -> str:
    """The filter of off-language statements knows their language."""
    if "off_language" in plan.data.filters:
        try:
            filters.check_language(plan.data.language)
        except ValueError as error:
            raise PreflightError(str(error)) from error
    return plan.data.language


def check_model(plan: Plan) -> str:
    """The model, and every local one that speaks, are there."""
    speakers = [name.removeprefix("vllm:") for name in plan.speakers() if name.startswith("vllm:")]
    names = list(dict.fromkeys([plan.model, *speakers]))
    for name in names:
        try:
            resolve_model(name)
        except FileNotFoundError as error:
            raise PreflightError(str(error)) from error
    return ", ".join(names)


def check_loggers(plan: Plan) -> str:
    """The packages of the loggers are installed."""
    for name in plan.train.loggers:
        if find_spec(name) is None:
            raise PreflightError(
                f"train.loggers: {name} is not installed: pip install {name}, or leave it out"
            )
    return ", ".join(plan.train.loggers) or "none"


def check_items(plan: Plan) -> str:
    """The multiple-choice set can be read."""
    try:
        items = load_items(plan)
    except (ValueError, OSError) as error:
        raise PreflightError(f"evaluate.bbq: {error}") from error
    why = f"; no bias scores: {items.why_no_bias_scores}" if items.why_no_bias_scores else ""
    return f"{len(items.items)} items of {items.source}{why}"


def check_endpoint(plan: Plan) -> str:
    """An endpoint that speaks has its key (the endpoint itself is not called)."""
    remote = [name for name in plan.speakers() if name.startswith("openai:")]
    if not remote:
        return "none in the plan"
    endpoint = plan.endpoint
    if endpoint.base_url is None and not os.environ.get(endpoint.api_key_env):
        raise PreflightError(
            f"{', '.join(remote)}: the environment variable {endpoint.api_key_env} "
            "(endpoint.api_key_env) holds no key; set it, or give endpoint.base_url"
        )
    return endpoint.base_url or "the openai package's default"


def check_disk(plan: Plan, out: Path) -> str:
    """There is room for what the run writes: four models and their export."""
    existing = next(p for p in [out, *out.parents] if p.exists())
    free = shutil.disk_usage(existing).free / 2**30
    needed = 5 * parameters_of(resolve_model(plan.model)) * 4 / 2**30 + 0.5
    if free < needed:
        raise PreflightError(
            f"{existing} has {free:.1f} GiB free, the run writes up to {needed:.1f}: make room or "
            "give an --out on a larger disk"
        )
    return f"{free:.0f} GiB free, {needed:.1f} needed"


def parameters_of(model: str) -> float:
    """Parameters of a model folder, from the size of its weights; 7e9 for a hub id not here yet."""
    folder = Path(model)
    files = list(folder.glob("*.safetensors")) if folder.is_dir() else []
    if not files:
        return 7e9
    size = sum(file.stat().st_size for file in files)
    config = json.loads((folder / "config.json").read_text())
    dtype = config.get("dtype") or config.get("torch_dtype") or "float32"
    return size / (4 if dtype == "float32" else 2)
