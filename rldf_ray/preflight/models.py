"""What the models of a plan are, read off their folders or hub ids before any of them is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from rldf_ray.engines.checks import PreflightError
from rldf_ray.models.chat_template import (
    ChatTemplate,
    ChatTemplateError,
    chat_template,
)
from rldf_ray.models.embedded import EMBEDDED, resolve_model
from rldf_ray.models.template_values import reads
from rldf_ray.plan import Plan
from rldf_ray.storage.folders import visible
from rldf_ray.storage.home_path import home_path

LARGE = 7e9
BILLIONS = {"b": 1e9, "m": 1e6}


def check_templates(plan: Plan) -> str:
    """The models that are trained or speak render chats, and read as much as they are given.

    Raises:
        PreflightError: a model is not there, or its chat template or context does not do.
    """
    local = [speaker.model for speaker in plan.speakers() if speaker.local]
    names = dict.fromkeys([plan.model, *local])
    templates = {name: _template(name, plan.chat_template_kwargs) for name in names}
    for name in plan.chat_template_kwargs or ():
        if not any(reads(own.written, name) for own in templates.values()):
            raise PreflightError(
                f"chat_template_kwargs.{name}: no chat template of {', '.join(names)} reads it; "
                "mend the name, or leave it out"
            )
    on_engines = {speaker.model for speaker in plan.speakers() if speaker.on_engines}
    for name in names:
        if name == plan.model or name in on_engines:
            _check_context(name, "engines.max_model_len", plan.engines.max_model_len)
    if plan.referee.fitted:
        fit = plan.referee.fit
        _check_context(plan.fitted_speaker().model, "referee.fit.max_length", fit.max_length)
    return "; ".join(f"{name}: {own.describe()}" for name, own in templates.items())


def _template(name: str, values: Mapping[str, Any] | None) -> ChatTemplate:
    try:
        _config(name)
        return chat_template(name, values)
    except ChatTemplateError as error:
        raise PreflightError(str(error)) from error
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise PreflightError(
            f"model {name!r}: neither a folder nor a hub id that can be reached ({reason})"
            f"{_like(name)}"
        ) from error


def _check_context(name: str, field: str, longest: int) -> None:
    context = context_of(_config(name))
    if context is not None and longest > context:
        raise PreflightError(
            f"{field}={longest}: model {name} reads {context} tokens at most "
            f"(max_position_embeddings); set {field}={context} or less, or name another model"
        )


@lru_cache
def _config(name: str) -> dict[str, Any]:
    from transformers import AutoConfig

    config: dict[str, Any] = AutoConfig.from_pretrained(resolve_model(name)).to_dict()
    return config


def context_of(config: dict[str, Any]) -> int | None:
    """The most tokens that a model of this configuration reads; None where it does not say."""
    inner = config.get("text_config") or config
    most = inner.get("max_position_embeddings") or inner.get("n_positions")
    scaling = inner.get("rope_scaling") or inner.get("rope_parameters") or {}
    kind = scaling.get("rope_type") or scaling.get("type")
    # Llama 3 counts its scaling in already.
    factor = 1 if kind in (None, "default", "llama3") else scaling.get("factor") or 1
    return int(most * factor) if most else None


def _like(name: str) -> str:
    """What may have been meant."""
    parent = home_path(name).parent
    folders = [path.name for path in visible(parent) if path.is_dir()] if parent.is_dir() else []
    known = [EMBEDDED, *folders] if "/" not in name else folders
    close = get_close_matches(Path(name).name, known, n=3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def parameters_of(model: str) -> float:
    """Parameters of a model folder, from the size of its weights.

    Of a hub id that is not here yet what its name says (Qwen1.5-1.8B, SmolLM2-135M), or 7e9.
    """
    folder = Path(model)
    files = [path for path in visible(folder) if path.is_file()] if folder.is_dir() else []
    weights = [path for path in files if path.suffix == ".safetensors"] or [
        path for path in files if path.suffix == ".bin" and path.name != "training_args.bin"
    ]
    if not weights:
        named = re.search(r"(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", model.rpartition("/")[2].lower())
        return float(named[1]) * BILLIONS[named[2]] if named else LARGE
    size = sum(file.stat().st_size for file in weights)
    return size / (4 if stored_dtype(model) == "float32" else 2)


def stored_dtype(model: str) -> str | None:
    """Precision of the weights in a model folder, as its configuration says; None of a hub id."""
    config = Path(model) / "config.json"
    if not config.is_file():
        return None
    given: dict[str, str | None] = json.loads(config.read_text(encoding="utf-8"))
    return given.get("dtype") or given.get("torch_dtype") or "float32"
