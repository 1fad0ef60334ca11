"""Lists that the search agent writes: `{"queries": [...]}` or `{"groups": [...]}`, guided."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

ListName = Literal["groups", "queries"]
LEAST = {"groups": 0, "queries": 1}
LONGEST = 80
"""Characters of an entry."""
_LISTS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_TEXTS = TypeAdapter(list[str])


def list_schema(name: ListName, most: int) -> dict[str, Any]:
    """JSON schema of a list of `most` texts at most."""
    items = {"type": "string", "minLength": 1, "maxLength": LONGEST}
    values = {"type": "array", "items": items, "minItems": LEAST[name], "maxItems": most}
    return {
        "type": "object",
        "properties": {name: values},
        "required": [name],
        "additionalProperties": False,
    }


def parse_list(text: str, name: ListName) -> list[str] | None:
    """The texts of a reply, each on one line; None where it holds no such list."""
    try:
        values = _TEXTS.validate_python(_LISTS.validate_json(text).get(name))
    except ValidationError:
        return None
    return [" ".join(value.split()) for value in values if value.strip()]
