"""A plan's `chat_template_kwargs` as a template's own defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rldf_ray.storage.json_text import json_text


def with_defaults(
    template: str | Mapping[str, str], values: Mapping[str, Any]
) -> str | dict[str, str]:
    """A template, or named ones, that take these values where whoever renders gives no others."""
    if not isinstance(template, str):
        return {name: str(with_defaults(one, values)) for name, one in template.items()}
    # The line's end belongs to the tag (trim_blocks), so that no character is added to a chat.
    lines = [
        f"{{% set {name} = {name} if {name} is defined else {_literal(value)} %}}\n"
        for name, value in values.items()
    ]
    return "".join(line for line in lines if line not in template) + template


def reads(template: str | Mapping[str, str], name: str) -> bool:
    """Whether a template, or one of several, makes anything of a value of this name."""
    texts = [template] if isinstance(template, str) else template.values()
    return any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts)


def _literal(value: Any) -> str:
    """A value of JSON as a template writes it."""
    match value:
        case None:
            return "none"
        case dict():
            pairs = (f"{_literal(key)}: {_literal(one)}" for key, one in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
    return json_text(value, ensure_ascii=False)
