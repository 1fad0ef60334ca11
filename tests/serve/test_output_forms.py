"""Output forms: what an engine may be asked to compile."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.wrong_requests import nested
from rldf_ray.apps.serve.output_forms import OutputFormError, check_form, is_cheap
from rldf_ray.apps.serve.settings import Limits

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 80},
        "born": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 12},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    "form",
    [{"json": PERSON}, {"json": nested(10)}, {"choice": ["yes", "no"]}, {"json_object": True}],
)
def test_what_an_engine_can_compile_passes(form: dict[str, Any]) -> None:
    check_form(form, Limits())


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array", "minItems": 10**9}, "minItems is 1000000000; this server takes at most"),
        ({"properties": {"a": {"items": {"maxLength": 1e12}}}}, "maxLength is"),
        ({"type": "string", "pattern": "((a{100}){100}){100}"}, "repeats 1000000 times"),
        ({"type": "string", "pattern": "x{5}a{0,129}"}, "129 times"),
        ({"patternProperties": {"a{2,5000}": {}}}, "5000 times"),
        ({"type": "string", "pattern": "(a+)+$("}, "is not a 'regex'"),
        ({"type": "string", "pattern": "(" * 4000 + ")" * 4000}, "too complicated"),
        ({"type": "string", "pattern": "a{99999999999999999999}"}, "too complicated"),
        ({"$ref": "http://127.0.0.1:1/x"}, "not within the schema"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "leads back"),
        ({"items": {"allOf": [{"$ref": "#/items"}, {"type": "object"}]}}, "leads back"),
        ({"type": "nonsense"}, "no JSON schema: 'nonsense'"),
        ({"type": "object", "required": ["x", "x"]}, "no JSON schema"),
        ({"properties": {"minItems": 3}}, "no JSON schema"),
        (nested(17), "nested deeper than 32"),
        ({"enum": ["x" * 20_000]}, "this server takes 16384"),
        ({"enum": ["\ud800"]}, "cannot be read"),
    ],
)
def test_what_goes_too_far_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(OutputFormError, match=reason):
        check_form({"json": schema}, Limits())


def test_a_property_may_be_called_like_a_limit() -> None:
    check_form({"json": {"properties": {"minItems": {"type": "integer"}}}}, Limits())


def test_a_reference_may_be_used_twice_and_lead_nowhere() -> None:
    twice = {
        "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}],
        "$defs": {"a": {"type": "null"}},
    }
    check_form({"json": twice}, Limits())
    check_form({"json": {"$ref": "#/$defs/none/0"}}, Limits())


@pytest.mark.parametrize(
    "pattern", ["((a?){100}){10}", "((a|b|c|d){90}){10}", "([a-z]{0,100}){10}"]
)
def test_patterns_are_counted_over_the_whole_schema(pattern: str) -> None:
    def schema(number: int) -> dict[str, Any]:
        properties = {f"p{i}": {"type": "string", "pattern": pattern} for i in range(number)}
        return {"json": {"type": "object", "properties": properties}}

    check_form(schema(1), Limits())
    with pytest.raises(OutputFormError, match="written out"):
        check_form(schema(100), Limits())
    with pytest.raises(OutputFormError, match="written out"):
        check_form(
            {"json": {"patternProperties": {pattern + "b" * i: {} for i in range(30)}}}, Limits()
        )


def test_counts_are_counted_over_the_whole_schema() -> None:
    parts = [{"type": "string", "maxLength": 1000}] * 100
    with pytest.raises(OutputFormError, match="written out"):
        check_form({"json": {"anyOf": parts}}, Limits())


@pytest.mark.parametrize(
    ("schema", "cheap"),
    [
        ({}, True),
        ({"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(400)}}, True),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 50}, True),
        ({"type": "string", "pattern": "[a-z]{3}"}, True),
        ({"type": "string", "pattern": "(.?){60}"}, False),
        ({"type": "string", "pattern": "(.?.?){55}"}, False),
        ({"type": "string", "pattern": ".?" * 250}, False),
        ({"type": "string", "maxLength": 500}, False),
    ],
)
def test_what_may_take_long_to_compile_is_known(schema: dict[str, Any], cheap: bool) -> None:
    assert is_cheap(schema) is cheap
