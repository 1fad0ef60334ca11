"""MABRF as a method of a comparison: the model's own roles, on the items that all rows have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldf_ray.comparison.method import methods_of
from rldf_ray.comparison.thinking import Scene, Thinker
from rldf_ray.plan import PlanError
from tests.fakes import plan_with
from tests.protocols.mabrf.script import FAIR, STEPS, Script, verdict

SCENE = Scene(
    group="Age",
    name="7",
    family="f",
    context="An old man waited.",
    question="Who fears phones?",
    options=(("A", "The old man"), ("B", "Nobody")),
)


def begun(arm: str) -> dict[str, str]:
    # The address is scope/category/item/part; the script knows what follows the first slash.
    at = "Age/7"
    return {
        f"{at}/solver/steps": STEPS,
        f"{at}/first/judge": verdict(5),
        f"{at}/loop/1/rephrase": FAIR,
        f"{at}/loop/1/judge": verdict(1),
        f"{at}/groups": json.dumps({"groups": ["old"]}),
        f"{at}/loop/1/queries": json.dumps({"queries": ["old people and phones"]}),
        f"{at}/loop/1/summary": "Facts: they use phones [1].",
    }


async def test_the_answer_follows_the_best_steps() -> None:
    (method,) = methods_of(plan_with(), ["mabrf"], ())
    script = Script(begun("mabrf"))
    assert method.think is not None
    thought = await method.think(Thinker(script, plan_with(), "mabrf-0", 3), SCENE)
    assert thought.text == FAIR
    assert [message.role for message in thought.messages] == ["user", "assistant", "user"]
    assert thought.messages[1].content == FAIR
    assert "The old man" in thought.messages[0].content
    assert all(request.address.startswith("mabrf-0/Age/7/") for request in script.asked)
    assert not [r for r in script.asked if "queries" in r.address]


async def test_with_a_corpus_evidence_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.jsonl").write_text(
        '{"title": "Phones", "text": "Many old people use phones."}\n', encoding="utf-8"
    )
    plan = plan_with(f"evaluate.corpus={texts}")
    (method,) = methods_of(plan, ["mabrf_search"], ())
    script = Script(begun("mabrf_search"))
    assert method.think is not None
    await method.think(Thinker(script, plan, "mabrf_search-0", 3), SCENE)
    assert "they use phones [1]" in script.prompts("loop/1/rephrase")[0]
    assert "Many old people use phones." in script.prompts("loop/1/summary")[0]


def test_search_needs_texts() -> None:
    with pytest.raises(PlanError, match=r"mabrf_search: it searches texts: .*evaluate\.corpus"):
        methods_of(plan_with(), ["mabrf_search"], ())
