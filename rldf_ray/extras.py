"""Packages that only some of the work needs, by the extra of the installation that has them."""

from __future__ import annotations

EXTRAS = {
    "accelerate": "train",
    "deepspeed": "train",
    "fastapi": "serve",
    "gguf": "train",
    "peft": "train",
    "prometheus_client": "serve",
    "ray": "train",
    "safetensors": "train",
    "starlette": "serve",
    "tensorboard": "train",
    "torch": "train",
    "transformers": "train",
    "trl": "train",
    "uvicorn": "serve",
    "vllm": "cpu",
    "xgrammar": "cpu",
}


def advice(missing: str) -> str | None:
    """What to install for a module that is not there; None of one that belongs to no extra."""
    name = missing.partition(".")[0]
    if name not in EXTRAS:
        return None
    extra = EXTRAS[name]
    return f"{name} is not installed, which is part of rldf-ray[{extra}]: " + (
        "pip install 'rldf-ray[cpu]', or 'rldf-ray[gpu]' where there is one"
        if extra == "cpu"
        else f"pip install 'rldf-ray[{extra}]'"
    )
