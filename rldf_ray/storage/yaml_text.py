"""YAML as people give it, bounded: a page of aliases of aliases can stand for more than any memory.

a: &a [x, x]      b: &b [*a, *a]      c: [*b, *b]      and so on: 2^n values in n lines
"""

from __future__ import annotations

from typing import Any

import yaml

from rldf_ray.errors import UserError

LONGEST = 1_000_000
"""Characters of a text."""
MOST = 100_000
"""Values that a text may stand for, with its aliases written out."""


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
