"""The output form a request asks for, kept to what an engine can compile.

An engine compiles a schema for every request, before the first token. One that counts to a billion
(`minItems`) takes all memory of the machine on the way, so a form is looked through first.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from rldf_ray.apps.serve.settings import Limits
from rldf_ray.errors import UserError

MAX_DEPTH = 32
MOST_REPEATS = 1000
# Of one count in a pattern: xgrammar 0.2.8, with which vLLM compiles, fails on a larger one.
MOST_AT_ONCE = 128
# Of a whole schema: what counts and patterns come to when they are written out. Compiling grows
# with it and holds up everybody: 450,000 took 10 s (one core, a vocabulary of 49,152).
MOST_PLACES = 20_000
# What comes to no more compiles in a few seconds, whatever it says (vocabulary of 49,152), and what
# neither counts nor has patterns in a part of one.
CHEAP_PLACES = 200
COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
# What stands under these is the value itself, not a part of it.
SAME_VALUE = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not")
REPEATS = re.compile(r"\{(\d*)(?:,(\d*))?\}")
INDEX = re.compile("[0-9]{1,9}")


class OutputFormError(UserError):
    """The output form goes too far, or is no JSON schema; the message is for the client."""


def check_form(form: dict[str, Any], limits: Limits) -> None:
    """Look through a form in vLLM's words: {"json": SCHEMA}, {"choice": [...]} or an object.

    Raises:
        OutputFormError: it is too large, too deep, counts too far, or is no JSON schema.
    """
    try:
        size = len(json.dumps(form).encode("utf-8"))
        json.dumps(form, ensure_ascii=False).encode("utf-8")
    except (RecursionError, UnicodeEncodeError, ValueError) as error:
        raise OutputFormError("the output form cannot be read as JSON text") from error
    if size > limits.schema_bytes:
        raise OutputFormError(
            f"the output form has {size} bytes; this server takes {limits.schema_bytes}"
        )
    if _depth(form) > MAX_DEPTH:
        raise OutputFormError(f"the output form is nested deeper than {MAX_DEPTH}")
    if "json" in form:
        try:
            _check_schema(form["json"])
        except (RecursionError, OverflowError, ValueError) as error:
            # Python's own limits: groups of a pattern, digits of a number, a chain of references.
            raise OutputFormError(
                "a pattern, a number or the references of the schema are too complicated"
            ) from error


def _check_schema(schema: dict[str, Any]) -> None:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise OutputFormError(f"the schema is no JSON schema: {error.message[:200]}") from error
    for key, value in _entries(schema):
        if key in COUNTS and isinstance(value, int | float) and value > MOST_REPEATS:
            raise OutputFormError(f"{key} is {value}; this server takes at most {MOST_REPEATS}")
        if key == "$ref" and isinstance(value, str) and not value.startswith("#"):
            raise OutputFormError(f"$ref {value!r} is not within the schema (it begins with '#')")
    places = _all_places(schema)
    if places > MOST_PLACES:
        raise OutputFormError(
            f"the counts and patterns of the schema come to {places} characters and items when "
            f"they are written out; this server takes {MOST_PLACES}"
        )
    _check_references(schema)


def is_cheap(schema: dict[str, Any]) -> bool:
    """Whether a form's schema, looked through before, compiles soon for certain."""
    return _all_places(schema) <= CHEAP_PLACES


def _all_places(schema: dict[str, Any]) -> int:
    return sum(_places(key, value) for key, value in _entries(schema))


def _places(key: str, value: object) -> int:
    """What an engine writes out for one entry of a schema.

    Raises:
        OutputFormError: a pattern repeats too often.
    """
    if key in COUNTS and isinstance(value, int | float):
        return int(value)
    if key == "pattern" and isinstance(value, str):
        return len(value) * _repeats(value)
    if key == "patternProperties" and isinstance(value, dict):
        return sum(len(pattern) * _repeats(pattern) for pattern in value)
    return 0


def _check_references(schema: dict[str, Any]) -> None:
    """A schema that is itself, with no property or item between, has no end for an engine."""
    ended: set[int] = set()

    def follow(part: object, above: tuple[int, ...]) -> None:
        if not isinstance(part, dict) or id(part) in ended:
            return
        if id(part) in above:
            raise OutputFormError("a $ref of the schema leads back to itself")
        same = [inner for key in SAME_VALUE for inner in _listed(part.get(key))]
        if isinstance(part.get("$ref"), str):
            same.append(_found_at(part["$ref"], schema))
        for inner in same:
            follow(inner, (*above, id(part)))
        ended.add(id(part))

    for part in (schema, *(value for _, value in _entries(schema))):
        for one in _listed(part):
            follow(one, ())


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _found_at(reference: str, schema: dict[str, Any]) -> object:
    """What a JSON pointer (RFC 6901) leads to; None if to nothing, which the engine will say."""
    found: object = schema
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and INDEX.fullmatch(name) and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def _repeats(pattern: str) -> int:
    """Groups may be nested, so the counts of a pattern are multiplied whatever they are about.

    Raises:
        OutputFormError: it repeats too often.
    """
    counts = [max(int(n or 0) for n in found) for found in REPEATS.findall(pattern)]
    if max(counts, default=0) > MOST_AT_ONCE:
        raise OutputFormError(
            f"pattern {pattern[:80]!r} repeats something {max(counts)} times; this server takes at "
            f"most {MOST_AT_ONCE}, or minLength and maxLength"
        )
    repeats = math.prod(max(1, count) for count in counts)
    if repeats > MOST_REPEATS:
        raise OutputFormError(
            f"pattern {pattern[:80]!r} repeats {repeats} times; this server takes at most "
            f"{MOST_REPEATS}"
        )
    return repeats


def _entries(value: object) -> Iterator[tuple[str, object]]:
    """Every key and value, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from _entries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _entries(inner)


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
