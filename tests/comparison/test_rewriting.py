"""MABRF as a method of a comparison: the model's own roles, on the items that all rows have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldf_ray.comparison.method import methods_of
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.thinking import Scene, Thinker
from rldf_ray.comparison.thoughts import think_all
from rldf_ray.plan import Plan, PlanError
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
        f"{at}/{arm}/1/rephrase": FAIR,
        f"{at}/{arm}/1/judge": verdict(1),
        f"{at}/groups": json.dumps({"groups": ["old"]}),
        f"{at}/{arm}/1/queries": json.dumps({"queries": ["old people and phones"]}),
        f"{at}/{arm}/1/summary": "Facts: they use phones [1].",
    }


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.jsonl").write_text(
        '{"title": "Phones", "text": "Many old people use phones."}\n', encoding="utf-8"
    )
    return texts


def run_of(name: str, plan: Plan, repeat: int = 1) -> MethodRun:
    (method,) = methods_of(plan, [name], ())
    return MethodRun(method=method, repeat=repeat, seed=3, folder="embedded", weights="embedded")


async def test_the_answer_follows_the_best_steps() -> None:
    (method,) = methods_of(plan_with(), ["mabrf"], ())
    script = Script(begun("loop"))
    assert method.think is not None
    thought = await method.think(Thinker(script, plan_with(), "mabrf-0", 3), SCENE)
    assert thought.text == FAIR
    assert [message.role for message in thought.messages] == ["user", "assistant", "user"]
    assert thought.messages[1].content == FAIR
    assert "The old man" in thought.messages[0].content
    assert all(request.address.startswith("mabrf-0/Age/7/") for request in script.asked)
    assert not [r for r in script.asked if "queries" in r.address]
    assert thought.counts == {"loops": 1, "rewritten": 1, "no_verdict": 0}


async def test_with_a_corpus_evidence_is_looked_up(corpus: Path) -> None:
    plan = plan_with(f"evaluate.corpus={corpus}")
    script = Script(begun("search"))
    await think_all(run_of("mabrf_search", plan), script, plan, [SCENE])
    assert "they use phones [1]" in script.prompts("search/1/rephrase")[0]
    assert "Many old people use phones." in script.prompts("search/1/summary")[0]


async def test_with_search_and_without_the_first_steps_are_the_same(corpus: Path) -> None:
    plan = plan_with(f"evaluate.corpus={corpus}")
    scripts = {"mabrf": Script(begun("loop")), "mabrf_search": Script(begun("search"))}
    for name, script in scripts.items():
        await think_all(run_of(name, plan), script, plan, [SCENE])
    first, other = (script.asked[:2] for script in scripts.values())
    assert first == other and first[0].address == "mabrf-1/Age/7/solver/steps"
    later = [{r.address for r in script.asked[2:]} for script in scripts.values()]
    assert not later[0] & later[1], "one journal keeps both"
    keys = {
        run_of(name, plan).thinking(plan, [SCENE])[1:]  # type: ignore[index]
        for name in scripts
    }
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ({"first/judge": verdict(1)}, {"loops": 1, "rewritten": 0, "no_verdict": 0}),
        ({"first/judge": "Hm."}, {"loops": 1, "rewritten": 0, "no_verdict": 1}),
        ({"loop/1/judge": "Hm."}, {"loops": 1, "rewritten": 1, "no_verdict": 1}),
        (
            {f"loop/{n}/judge": verdict(9) for n in range(1, 6)},
            {"loops": 1, "rewritten": 0, "no_verdict": 0},
        ),
        ({"solver/steps": ""}, {"loops": 1, "rewritten": 0, "no_verdict": 0}),
    ],
    ids=[
        "clean at once",
        "no verdict",
        "no verdict on the rewriting",
        "no rewriting was taken",
        "no steps",
    ],
)
async def test_what_the_loop_did_is_counted(said: dict[str, str], counts: dict[str, int]) -> None:
    plan = plan_with()
    passes = {f"Age/7/loop/{number}/rephrase": FAIR for number in (2, 3, 4)}
    clean = {f"Age/7/loop/{number}/judge": verdict(1) for number in (2, 3, 4)}
    script = Script(begun("loop") | passes | clean | {f"Age/7/{k}": v for k, v in said.items()})
    (thought,) = await think_all(run_of("mabrf", plan), script, plan, [SCENE])
    assert thought.counts == counts


def test_search_needs_texts() -> None:
    with pytest.raises(PlanError, match=r"mabrf_search: it searches texts: .*evaluate\.corpus"):
        methods_of(plan_with(), ["mabrf_search"], ())
