"""Checks of a card's metadata that need no network; the hub makes them too, and its own besides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rldf_ray.errors import UserError

if TYPE_CHECKING:
    from huggingface_hub import RepoCard

LANGUAGE = re.compile("[a-z]{2,3}|code|multilingual")
"""ISO 639-1 to 639-3, and the hub's two special values."""


class CardError(UserError):
    """The metadata at the head of a README.md are not what the hub takes; the message says why."""


def check_card(card: RepoCard, where: str) -> None:
    """Nothing where the hub can read the card's metadata.

    Args:
        where: what the error calls the card.

    Raises:
        CardError: a field is not what the hub allows there.
    """
    data: dict[str, Any] = card.data.to_dict()  # type: ignore[no-untyped-call]
    if problems := list(_problems(data)):
        raise CardError(f"{where}: {'; '.join(problems)}: change the head of the file")


def is_language(code: str) -> bool:
    return LANGUAGE.fullmatch(code) is not None


def is_hub_id(name: Any) -> bool:
    """Whether the hub may have something under this name, NAMESPACE/NAME or NAME."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return name is not None


def _problems(data: dict[str, Any]) -> Iterator[str]:
    if not data:
        yield "no metadata; needed is a YAML block between two lines of ---"
    for field in ("base_model", "datasets"):
        for name in _several(data.get(field)):
            if not is_hub_id(name):
                yield f"{field}: {name!r} is no id of the hub; allowed is NAMESPACE/NAME"
    for code in _several(data.get("language")):
        if not (isinstance(code, str) and is_language(code)):
            yield f"language: {code!r}; allowed is an ISO 639 code of two or three letters"
    for tag in _several(data.get("tags")):
        if not isinstance(tag, str):
            yield f"tags: {tag!r} is no text; put it in quotes"
    if data.get("license") == "other" and not data.get("license_name"):
        yield "license: other needs license_name, and license_link where there is a text of it"


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
