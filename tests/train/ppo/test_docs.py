"""docs/ppo.md lists every field of PPO and of training with its default."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.plan import PlanField, plan_fields

PAGE = (Path(__file__).parents[3] / "docs/ppo.md").read_text(encoding="utf-8")
FIELDS = [f for f in plan_fields() if f.path.startswith(("ppo.", "train."))]


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.path)
def test_the_page_has_the_field_as_the_plan_has_it(field: PlanField) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{field.path}` |")]
    _, _, default, unit, meaning, source, _ = (cell.strip() for cell in row.split("|"))
    assert (default, unit, source) == (_shown(field.default), field.unit, field.source)
    assert meaning.startswith(field.description)


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
