"""Virtual environments that hold the project's wheel, and of other packages only what is given.

No index is asked: packages are those of the environment that the tests run in.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGED = ("pyproject.toml", "README.md", "LICENSE", "rldf_ray", "serve", "tune")
PACKAGES = Path(sysconfig.get_path("purelib"))


@dataclass(frozen=True)
class Environment:
    """A virtual environment, used from a folder that is not the checkout's."""

    folder: Path

    @property
    def packages(self) -> Path:
        return next((self.folder / "lib").glob("python3*/site-packages"))

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """`rldf WORDS`."""
        return self._call([self.program("rldf"), *words], cwd)

    def python(self, program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A Python program, given as its text."""
        path = cwd / "program.py"
        path.write_text(program, encoding="utf-8")
        return self._call([self.program("python"), str(path)], cwd)

    def _call(self, command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=cwd, env=_variables(), timeout=2000,
            check=False, capture_output=True, text=True,
        )  # fmt: skip


def _variables() -> dict[str, str]:
    """Those of this process, without what leads back to the checkout."""
    left_out = {"PYTHONPATH", "VIRTUAL_ENV", "RAY_ADDRESS"}
    return {name: value for name, value in os.environ.items() if name not in left_out}


def _pip(*words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words],
        env=_variables(), check=True, capture_output=True, text=True,
    )  # fmt: skip


def wheel(scratch: Path) -> Path:
    """The project's wheel, built from a copy of what it is made of."""
    source = scratch / "source"
    source.mkdir()
    for name in PACKAGED:
        if (ROOT / name).is_dir():
            # Links stay links, as in a checkout.
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=skip)
        else:
            shutil.copy(ROOT / name, source / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(scratch / "dist"), str(source))
    (built,) = (scratch / "dist").glob("*.whl")
    return built


def _with_wheel(scratch: Path) -> Environment:
    environment = Environment(scratch / "environment")
    venv.create(environment.folder, symlinks=True)
    python = environment.program("python")
    _pip("--python", python, "install", "--no-deps", "--no-index", str(wheel(scratch)))
    return environment


def whole_environment(scratch: Path) -> Environment:
    """The wheel and all packages that are installed here, the checkout not among them."""
    environment = _with_wheel(scratch)
    # A line that is a path is put on sys.path; what other .pth files there say is not read.
    (environment.packages / "installed.pth").write_text(f"{PACKAGES}\n", encoding="utf-8")
    return environment


def light_environment(scratch: Path, names: Collection[str]) -> Environment:
    """The wheel and the distributions of these names alone."""
    environment = _with_wheel(scratch)
    for name in names:
        tops = {Path(file).parts[0] for file in distribution(name).files or ()}
        for top in sorted(tops - {"..", "__pycache__"}):
            link = environment.packages / top
            if not link.exists():
                link.symlink_to(PACKAGES / top)
    return environment
