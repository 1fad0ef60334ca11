"""What `rldf referee` makes of its options, and what seeds are compared on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray import pipeline
from rldf_ray.commands.referee import _dotted, _in_words, _named, _other_seeds, _over_seeds
from rldf_ray.console import Progress
from rldf_ray.errors import UserError
from rldf_ray.plan import PlanError, load_plan
from rldf_ray.referee.fit import audit_statements
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import plan_with

FIT = "{bias_types: [age, scenes], layers: 17, learning_rate: 2.0e-4}"


def test_what_a_referee_differs_in_leaves_all_other_fields_of_the_plan() -> None:
    (fields,) = _named(["b={fit: {epochs: 2, layers: 3}}"]).values()
    plan = load_plan("smoke", [f"referee.fit={FIT}", *fields])
    fit = plan.referee.fit
    assert (fit.epochs, fit.layers) == (2, 3)
    assert fit.bias_types == ("age", "scenes") and fit.learning_rate == 2e-4
    assert plan.referee.kind == "trained"


@given(
    st.recursive(
        st.integers() | st.lists(st.text(max_size=3), max_size=2),
        lambda inner: st.dictionaries(st.text("ab", min_size=1, max_size=2), inner, max_size=3),
    ).filter(lambda value: isinstance(value, dict))
)
def test_every_value_has_the_path_that_leads_to_it(values: dict[str, Any]) -> None:
    for path, value in _dotted("referee", values):
        found: Any = {"referee": values}
        for name in path.split("."):
            found = found[name]
        assert found == value and not isinstance(value, dict)


@pytest.mark.parametrize("fields", ["{kind: [}", "{kind: prompted", "!!python/none x", "a: b: c"])
def test_a_referee_that_is_no_yaml_is_named(fields: str) -> None:
    with pytest.raises(PlanError, match=r"--referee .x=.*is no YAML"):
        _named([f"x={fields}"])


def test_all_seeds_are_audited_on_the_statements_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited: dict[int, Any] = {}

    def run(plan: Any, out: Path, progress: Any, *, stages_of: Any, **options: Any) -> None:
        audited[plan.seed] = stages_of["audit"].keywords["statements"]

    monkeypatch.setattr(pipeline, "run", run)
    plan = plan_with("referee.audit_pairs=3", "seed=7")
    folders = _other_seeds(plan, RunFolder(tmp_path), 3, None, Progress())
    assert folders == [str(tmp_path / "seeds" / "8"), str(tmp_path / "seeds" / "9")]
    assert audited == dict.fromkeys((8, 9), audit_statements(plan))
    assert audit_statements(plan) != audit_statements(plan.model_copy(update={"seed": 8}))


def test_given_statements_are_those_of_every_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def run(*_: Any, stages_of: Any, statements: Any, **__: Any) -> None:
        given.append((statements, stages_of["audit"].__name__))

    monkeypatch.setattr(pipeline, "run", run)
    _other_seeds(plan_with(), RunFolder(tmp_path), 2, tmp_path / "mine.jsonl", Progress())
    assert given == [(tmp_path / "mine.jsonl", "audit")]


def seed_folder(path: Path, texts: str, auc: float) -> Path:
    folder = RunFolder(path)
    rows = [
        {"context": "c", "text": text, "score": float(i), "expected_score": None}
        for i, text in enumerate(texts)
    ]
    folder.write_table("eval/referee.parquet", pa.Table.from_pylist(rows))
    folder.write_json("audit.json", {"auc": auc})
    return path


def test_seeds_are_compared_on_the_same_statements_only(tmp_path: Path) -> None:
    plan = plan_with("referee.label_source=said")
    one, two = (seed_folder(tmp_path / n, "abcd", auc) for n, auc in (("1", 0.8), ("2", 0.7)))
    found = _over_seeds(plan, [one, two])
    assert found["aucs"] == [0.8, 0.7] and found["statements"] == 4
    words = _in_words({"verdict": "v", "bag_of_words": None, "seeds": found})
    assert words[1].startswith("Seeds: AUC 0.800, 0.700 on 4 statements, the same of each")
    other = seed_folder(tmp_path / "3", "abce", 0.9)
    with pytest.raises(UserError, match=r"3 was audited on 4 statements, .* delete that folder"):
        _over_seeds(plan, [one, other])
