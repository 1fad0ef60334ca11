"""YAML as people read it; and as they give it, bounded.

A page of aliases of aliases can stand for more than any memory:

a: &a [x, x]      b: &b [*a, *a]      c: [*b, *b]      and so on: 2^n values in n lines
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from rldf_ray.errors import UserError

LONGEST = 1_000_000
"""Characters of a text."""
MOST = 100_000
"""Values that a text may stand for, with its aliases written out."""
OTHER_LINE_ENDS = re.compile(r"[\r\x85\u2028\u2029\ufeff]")


class OversizedError(UserError, yaml.YAMLError):
    """A text is longer, deeper, or stands for more than anybody writes by hand."""


def read_yaml(text: str) -> Any:
    """The value that a YAML text stands for.

    Raises:
        YAMLError: it is not YAML; or OversizedError.
    """
    if len(text) > LONGEST:
        raise OversizedError(f"{len(text)} characters; allowed: {LONGEST}")
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > MOST:
            raise OversizedError(
                f"its aliases (*name) stand for more than {MOST} values; allowed: as many in all"
            )
        return loader.construct_document(node)
    except RecursionError:
        raise OversizedError("nested too deeply") from None
    except ValueError as error:  # a date such as 2024-13-45, a whole number of 5,000 digits
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def yaml_text(value: Any) -> str:
    """A value as YAML, fields in their order, texts of several lines as they are."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines line by line, wherever YAML allows it."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    # Outside of double quotes they are written as they are, and read as line ends or as nothing.
    if OTHER_LINE_ENDS.search(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for; one that is in itself is never done."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = MOST + 1
    size = 1
    if isinstance(node, yaml.MappingNode):
        size += sum(_size(key, known) + _size(value, known) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_size(value, known) for value in node.value)
    known[id(node)] = size
    return size
