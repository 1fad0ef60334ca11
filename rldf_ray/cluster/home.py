"""Where the user's home cannot be written, or there is none: libraries keep their things elsewhere.

Ray writes the token of a local cluster there, vLLM, Triton and DeepSpeed what they compile,
datasets what it reads, Matplotlib its fonts. None of it is needed afterwards.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDERS = (
    "VLLM_CACHE_ROOT",
    "VLLM_CONFIG_ROOT",
    "TRITON_HOME",
    "TORCH_EXTENSIONS_DIR",
    "HF_DATASETS_CACHE",
    "HF_MODULES_CACHE",
    "MPLCONFIGDIR",
)


@contextmanager
def writable_home() -> Iterator[None]:
    """Set the variables that move what libraries write, for as long as the block lasts.

    Those that are set already, and a home that can be written, are left as they are. `HOME` stays:
    what lies there may be read, such as models of the hub.
    """
    if _can_be_written():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="rldf-home-") as scratch:
        moved = {
            # Otherwise Ray makes one and saves it.
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            **{name: str(Path(scratch, name.lower())) for name in FOLDERS},
        }
        added = {name: value for name, value in moved.items() if name not in os.environ}
        if "RAY_AUTH_TOKEN_PATH" in os.environ:
            added.pop("RAY_AUTH_TOKEN", None)
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                os.environ.pop(name, None)


def _can_be_written() -> bool:
    """By making the folder that Ray would make: on some file systems rights alone do not tell."""
    try:
        folder = Path.home() / ".ray"
        folder.mkdir(exist_ok=True)
    except (OSError, RuntimeError):
        return False
    return os.access(folder, os.W_OK | os.X_OK)
