"""Which weights the model that is compared has: others in the same folder are another model.

A comparison keeps answers under the model's name. The revision that the name stands for is written
down when the name is first used, so answers are kept for as long as the weights are.
"""

from __future__ import annotations

from pathlib import Path

from rldf_ray.models.embedded import EMBEDDED, weights_revision
from rldf_ray.storage.folders import visible
from rldf_ray.storage.home_path import home_path
from rldf_ray.storage.run_folder import RunFolder

KNOWN = "models.json"


def other_revision(model: str, kept: RunFolder) -> str | None:
    """The revision of the model's weights, where `kept` has answers of others by its name.

    Returns:
        None where the name stands for these weights, and of a model that is no local folder.
    """
    folder = home_path(model)
    if model == EMBEDDED or not folder.is_dir():
        return None
    revision = weights_revision(model)
    known: dict[str, str | None] = {}
    if (kept.root / KNOWN).is_file():
        known = kept.read_json(KNOWN)
    if model not in known:
        known[model] = None if _are_newer(folder, kept) else revision
        kept.write_json(KNOWN, known)
    return None if known[model] == revision else revision


def _are_newer(folder: Path, kept: RunFolder) -> bool:
    """Whether weights were written after an answer in `kept`, so that it may be of others."""
    answered = [path.stat().st_mtime_ns for path in visible(kept.root / "answers", "*.json")]
    written = [path.stat().st_mtime_ns for path in visible(folder, "*.safetensors")]
    return bool(answered and written) and max(written) > min(answered)
