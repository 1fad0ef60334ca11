"""The plan's own prompts: a folder is read when the plan is, so that the plan holds the texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from rldf_ray.storage.folders import visible_below
from rldf_ray.storage.given_text import given_text
from rldf_ray.storage.home_path import home_path

LONGEST = 90_000
"""Characters of all texts together: a plan that holds them is still read."""
PROMPTS = (
    "a folder of prompts in place of shipped ones (docs/engines.md): files named as theirs below "
    "rldf_ray, as referee/prompts/score.txt; the plan keeps the texts; null: the shipped ones"
)


def _read(value: Any) -> Any:
    """The texts of a folder, by the names of their files in it; what is no path stays as it is."""
    if not isinstance(value, str):
        return value
    folder = home_path(value)
    if not folder.is_dir():
        raise ValueError("it is no folder")
    texts = {path.relative_to(folder).as_posix(): _text(path) for path in visible_below(folder)}
    if not texts:
        raise ValueError("the folder holds no file")
    if (size := sum(map(len, texts.values()))) > LONGEST:
        raise ValueError(f"its files have {size} characters; allowed: {LONGEST}")
    return texts


def _text(path: Path) -> str:
    # Line ends as templates have them, whatever system wrote the file.
    return given_text(path).replace("\r\n", "\n")


OwnPrompts = Annotated[
    dict[str, str] | None,
    BeforeValidator(_read, json_schema_input_type=str | dict[str, str] | None),
]
