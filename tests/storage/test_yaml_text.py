"""YAML that would keep a command busy is refused, and all else read as before."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
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
