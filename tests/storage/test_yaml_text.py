"""YAML that would keep a command busy is refused, and all else read as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rldf_ray.plan import PlanError, load_plan, presets
from rldf_ray.storage.yaml_text import MOST, OversizedError, read_yaml, yaml_text

BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40)
)
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 40)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "stand for more than 100000 values"),
        (MERGED, "stand for more than 100000 values"),
        ("a: &a [*a]\n", "stand for more than 100000 values"),
        ("a: &a {b: *a}\n", "stand for more than 100000 values"),
        ("[" * 5000, "nested too deeply"),
        ("# " + "x" * 1_000_001, "1000003 characters"),
    ],
    ids=["lists", "merges", "itself", "itself in a mapping", "deep", "long"],
)
def test_a_text_that_stands_for_too_much_is_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(OversizedError, match=why):
        read_yaml(text)
    plan = tmp_path / "plan.yaml"
    plan.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=f"{plan}: not valid YAML: .*{why}"):
        load_plan(str(plan))
    if len(text) < 100_000 and "\n" not in text:
        with pytest.raises(PlanError, match="not valid YAML"):
            load_plan("smoke", [f"seed={text}"])


@pytest.mark.parametrize("text", ["a: 2024-13-45", f"a: {'9' * 5000}", "a: [", "a: !!python/x 1"])
def test_what_is_no_value_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)


def test_a_key_that_is_there_twice_is_refused_with_its_lines(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("debate: {rounds: 2}\nseed: 1\ndebate:\n  debates: 3\n", encoding="utf-8")
    with pytest.raises(PlanError, match=rf"{plan}: .*debate is there twice \(lines 1 and 3\)"):
        load_plan(str(plan))
    with pytest.raises(PlanError, match="rounds is there twice"):
        load_plan("smoke", ["debate={rounds: 1, rounds: 2}"])


def test_what_a_merge_brings_along_may_be_written_again() -> None:
    text = "x: &x {q: 1}\na: &a {<<: *x, q: 2}\nb: {<<: *a, q: 3}\nc: {<<: [*x, *a]}\n"
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-2", 0.01), ("1.5e3", 1500.0), ("-2E+1", -20.0), ("'1e-2'", "1e-2"), ("1e", "1e")],
)
def test_numbers_with_an_exponent_are_numbers(text: str, value: object) -> None:
    assert read_yaml(text) == value and type(read_yaml(text)) is type(value)
    assert read_yaml(yaml_text({"a": value})) == {"a": value}
    plan = load_plan("smoke", [f"endpoint.extra_body={{min_p: {text}}}"])
    assert plan.endpoint.extra_body == {"min_p": value}


def test_everything_else_is_read_as_it_was() -> None:
    shared = "base: &base {rounds: 2}\ndebate: {<<: *base, debates: 3}\nagain: *base\n"
    many = "\n".join(f"- {i}" for i in range(MOST - 1))
    texts = [path.read_text(encoding="utf-8") for path in presets().values()]
    for text in (shared, many, "", "null", "3", *texts):
        assert read_yaml(text) == yaml.safe_load(text)


def test_a_wrong_value_is_shown_by_its_beginning(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan("smoke", [f"seed={[*range(20_000)]}"])
    assert len(str(caught.value)) < 1000 and "seed" in str(caught.value)


LINES = st.lists(st.text(" \t#-:|>a{}%é\u2028\x85\ufeff\"'\\", max_size=6), max_size=5)


@given(st.one_of(LINES.map("\n".join), st.text()))
def test_any_text_is_read_as_it_was_written(text: str) -> None:
    value = {"a/b.txt": text, "list": [text, {"c": text}], text: 1}
    assert read_yaml(yaml_text(value)) == value


def test_lines_are_written_as_lines() -> None:
    assert yaml_text({"b": "Über\n\nuns\n", "a": 1}) == "b: |\n  Über\n\n  uns\na: 1\n"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=4), v, max_size=4),
    max_leaves=12,
)


@given(values)
@example({"\U0001f600": ["\x7f\x85\u2028\ufeff\ufffe", "<<", "a\nb"]})
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert read_yaml(json.dumps(value)) == value


def test_half_of_a_character_is_no_yaml() -> None:
    assert read_yaml(r'"\ud83d\ude00"') == "\U0001f600"
    for half in (r'"\ud83d"', r'{"\ude00": 1}', r'"\ude00\ud83d"'):
        with pytest.raises(yaml.YAMLError, match="half of a character"):
            read_yaml(half)
