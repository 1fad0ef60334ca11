"""Output forms: what an engine may be asked to compile."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.wrong_requests import nested
from rldf_ray.apps.serve.output_forms import COUNTS, OutputFormError, check_form, is_cheap
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


def chained(parts: int, deep: int) -> dict[str, Any]:
    """Every part refers to the next one, from within `deep` negations."""

    def negated(part: dict[str, Any], times: int) -> dict[str, Any]:
        return {"not": negated(part, times - 1)} if times else part

    return {str(n): negated({"$ref": f"#/{n + 1}"}, deep) for n in range(parts)}


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
        ({"type": "string", "pattern": f"a{{{'9' * 4400}}}"}, "too complicated"),
        ({"items": {"patternProperties": {f"a{{1,{'9' * 4400}}}": {}}}}, "too complicated"),
        ({"type": "string", "pattern": f"\\{{{'9' * 4400}}}"}, "too complicated"),
        (chained(50, 26), "too complicated"),
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


KEYS = ("type", "pattern", "patternProperties", "properties", "items", "anyOf", "not", "$ref", "if")
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["#", "#/0", "#/anyOf/0", "#/anyOf/²", "#/not", "string", "object", "a{2,3}"])
    | st.integers(0, 5000).map(lambda digits: f"x{{{'9' * digits}}}")
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from((*KEYS, *COUNTS)) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(schema=st.dictionaries(st.sampled_from((*KEYS, *COUNTS)), SCHEMAS, max_size=4))
def test_whatever_is_asked_for_passes_or_is_refused(schema: dict[str, Any]) -> None:
    with suppress(OutputFormError):
        check_form({"json": schema}, Limits())
        is_cheap(schema)


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
