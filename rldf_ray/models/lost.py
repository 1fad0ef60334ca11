"""What was spent on tries that brought no answer: in no journal of answers, and paid for."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import msgspec

from rldf_ray.models.base import Usage
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.whole_files import whole_file

LOST = "lost.json"
"""Its name, beside the journal of calls."""

log = logging.getLogger(__name__)


class Lost:
    """Tokens by model, in a file of theirs, so that later starts of the run count them as well.

    Args:
        path: None keeps nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._by_model = _saved(path)

    def of(self, models: Collection[str]) -> Usage:
        return sum((used for name, used in self._by_model.items() if name in models), Usage())

    def add(self, model: str, used: Usage) -> None:
        """Count more of a model's.

        Raises:
            OSError: the file could not be written; it is then as it was before.
        """
        if not used.total:
            return
        self._by_model[model] = self._by_model.get(model, Usage()) + used
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            numbers = {name: used.numbers() for name, used in self._by_model.items()}
            with whole_file(self._path) as scratch:
                scratch.write_text(json_text(numbers, indent=2) + "\n", encoding="utf-8")


def _saved(path: Path | None) -> dict[str, Usage]:
    if path is None or not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Usage])
    except msgspec.DecodeError as error:
        log.warning("%s is not counted towards the budget: %s", path, error)
        return {}
