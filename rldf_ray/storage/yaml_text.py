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
SHOWN = 60
"""Characters of a wrong value that a message shows."""
HALVES = re.compile("[\ud800-\udfff]")
EXPONENT = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+\Z", re.ASCII)
MERGE = "tag:yaml.org,2002:merge"
OTHER_LINE_ENDS = re.compile(r"[\r\x85\u2028\u2029\ufeff]")


class OversizedError(UserError, yaml.YAMLError):
    """A text is longer, deeper, or stands for more than anybody writes by hand."""


def read_yaml(text: str) -> Any:
    """The value that a YAML text stands for.

    JSON is YAML, but for what it writes characters beyond U+FFFF as: two halves, which are joined.
    A number with an exponent needs no point (1e-2), as in YAML 1.2.

    Raises:
        YAMLError: it is not YAML, or has a key twice; or OversizedError.
    """
    if len(text) > LONGEST:
        raise OversizedError(f"{len(text)} characters; allowed: {LONGEST}")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > MOST:
            raise OversizedError(
                f"its aliases (*name) stand for more than {MOST} values; allowed: as many in all"
            )
        _check_keys(node, set())
        return loader.construct_document(node)
    except RecursionError:
        raise OversizedError("nested too deeply") from None
    # A date such as 2024-13-45, a whole number of 5,000 digits, half of a character.
    except ValueError as error:
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Reads texts as characters, of which YAML allows halves."""


def _characters(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if HALVES.search(text) is None:
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError(f"half of a character (a surrogate) in {ascii(text)[:SHOWN]}") from None


def _with_exponents(reader: type[_Loader] | type[_Dumper]) -> None:
    """Numbers as YAML 1.2 has them, where PyYAML wants a point, and a sign in the exponent."""
    reader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))


_Loader.add_constructor("tag:yaml.org,2002:str", _characters)


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
_with_exponents(_Loader)
_with_exponents(_Dumper)


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


def _check_keys(node: yaml.Node, checked: set[int]) -> None:
    """No mapping has a key twice, of which YAML itself would take the last and say nothing.

    Raises:
        YAMLError: one has.
    """
    if id(node) in checked:
        return
    checked.add(id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    raise yaml.YAMLError(
                        f"{key.value} is there twice (lines {lines[name]} and {line}), and one of "
                        "the two would count for nothing: leave one out, or put both into one"
                    )
                lines[name] = line
            _check_keys(key, checked)
            _check_keys(value, checked)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_keys(value, checked)
