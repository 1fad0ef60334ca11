"""Who made a result: command, commit, versions and machine."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from rldf_ray.cluster.environment import machine, versions

SOURCE = Path(__file__).resolve().parents[2]
"""The folder that holds `rldf_ray/`."""


def provenance() -> dict[str, Any]:
    """What every summary says of its making; the same command gives the same."""
    return {
        "command": command(),
        "commit": source_commit(),
        "versions": versions(),
        "machine": machine(),
    }


def command() -> str:
    """The line that made a result: of `rldf`, of a program of one's own, or `Python` alone.

    In a notebook or a shell of Python no line did: the arguments are those of its kernel.
    """
    program = getattr(sys.modules["__main__"], "__file__", None)
    if program is None:
        return "Python"
    if Path(program).stem == "rldf" or Path(program).parts[-2:] == ("rldf_ray", "__main__.py"):
        return shlex.join(["rldf", *sys.argv[1:]])
    return shlex.join(["python", Path(program).name, *sys.argv[1:]])


@cache
def source_commit() -> str | None:
    """The commit that the running code is of, None where none is known.

    A checkout is asked itself, and `+changes` is added where tracked files differ from the commit.
    An installed package knows its commit if it was installed from a repository (PEP 610).
    """
    if (SOURCE / ".git").exists():
        return _of_checkout(SOURCE)
    try:
        written = distribution("rldf-ray").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    commit = json.loads(written or "{}").get("vcs_info", {}).get("commit_id")
    return None if commit is None else str(commit)


def _of_checkout(folder: Path) -> str | None:
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+changes" if changes else commit


def _git(folder: Path, *arguments: str) -> str | None:
    """What git answers, None where there is no git or no commit."""
    try:
        asked = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
