"""The lock file has what the constraints say, hashed, and all of it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.install.test_dependencies import closure, declared, normal

CONSTRAINTS = Path(__file__).parents[2] / "constraints"
# Taken off again after an install, as their builds for CUDA break transformers.
LEFT_OUT = {"torchvision", "torchaudio", "torchcodec"}


def pins(name: str) -> dict[str, str]:
    lines = (CONSTRAINTS / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.split()[0].split("==") for line in lines if not line.startswith("#")]
    return {normal(package): version.partition("+")[0] for package, version in pairs}


def test_its_versions_are_those_of_the_constraints() -> None:
    locked, constraints = pins("cpu.lock"), pins("cpu.txt")
    assert {name: constraints.get(name) for name in locked} == locked


def test_every_package_has_the_hash_of_a_file() -> None:
    for line in (CONSTRAINTS / "cpu.lock").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.search(r" --hash=sha256:[0-9a-f]{64}$", line), line


def test_it_is_all_that_is_installed() -> None:
    wanted = closure(declared("train", "serve", "cpu")) - LEFT_OUT
    assert wanted - set(pins("cpu.lock")) == set()
