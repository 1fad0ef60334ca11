"""The image's recipe, as far as it can be looked at without a builder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_a_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    program = str(hadolint) if hadolint.exists() else shutil.which("hadolint")
    if program is None:
        pytest.skip("hadolint is not installed here")
    done = subprocess.run(
        [program, "Dockerfile"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_what_it_copies_is_there_and_it_does_not_run_as_root() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    copied = re.findall(r"^COPY --chown=1000 (.+) \S+$", TEXT, re.MULTILINE)
    names = [name for line in copied for name in line.split() if name != "."]
    assert names and all((ROOT / name).exists() and name not in ignored for name in names)
    assert re.findall(r"^USER (.+)$", TEXT, re.MULTILINE) == ["1000"]
