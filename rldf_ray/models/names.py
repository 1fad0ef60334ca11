"""What models are called where people read of them."""

from __future__ import annotations

from pathlib import Path


def short_name(model: str) -> str:
    """What a reader knows a model by: of a folder or hub id the last part, `a/b/c` -> `c`.

    With the two above it where that is "model", as all of ours are: `run/ppo/model`.
    """
    parts = Path(model).parts or (model,)
    return "/".join(parts[-3:] if parts[-1] == "model" else parts[-1:]).lstrip("/")
