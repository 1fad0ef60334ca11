"""The fields of requests that a server does not take: said once, and kept for later starts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.whole_files import whole_file

log = logging.getLogger(__name__)

LEFT_OUT = "journal/left_out.json"
"""Where a run folder has them."""

_INSTEAD = {
    "structured_outputs": "choices are plain requests without guided decoding",
    "response_format": "the schema stands in the prompt",
    "seed": "the same request may have another answer",
    "n": "samples are requested one by one",
    "top_p": "the server's own value holds",
    "logprobs": "scores are those that are said (label_source of each statement is 'said')",
    "max_tokens": "the limit is sent as max_completion_tokens",
    "max_completion_tokens": "the limit is sent as max_tokens",
    "temperature": "the server's own value holds, and choices are not greedy",
}


class LeftOut:
    """What is left out of all requests to one model.

    A run that goes on leaves out what it left out before, so that its answers stay of one kind.

    Args:
        model: which model it is, and where.
        path: where the fields are kept, for all models of a run; None keeps nothing.
    """

    def __init__(self, model: str, path: Path | None = None) -> None:
        self._model = model
        self._path = path
        self._reasons: dict[str, str] = dict(_saved(path).get(model, {}))
        if self._reasons:
            log.warning(
                "%s: left out of requests as in earlier starts of this run: %s (remove %s to try "
                "them again)",
                *(model, ", ".join(self._reasons), path),
            )

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._reasons)

    def add(self, reasons: Mapping[str, str], but: str = "") -> None:
        """Leave more fields out from now on, each with what the server said of it.

        Args:
            but: a further sentence for the one who reads it.
        """
        new = {name: why for name, why in reasons.items() if name not in self._reasons}
        if not new:
            return
        self._reasons |= new
        for name, why in new.items():
            log.warning(
                "%s does not take %s (%s): it is left out of requests; %s%s",
                *(self._model, name, why, _INSTEAD[name], but),
            )
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            everyone = _saved(self._path) | {self._model: self._reasons}
            with whole_file(self._path) as scratch:
                scratch.write_text(json_text(everyone, indent=2) + "\n", encoding="utf-8")


def _saved(path: Path | None) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}  # the server says it again
    return saved if isinstance(saved, dict) else {}
