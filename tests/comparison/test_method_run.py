"""Answers are kept under a hash of all that shapes them, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from rldf_ray.comparison.method import methods_of
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.plans import debated, trained
from rldf_ray.comparison.thinking import Scene
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.plan import Plan
from rldf_ray.plan.counted import with_added_fields
from rldf_ray.prompts import own_prompts
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQSet
from rldf_ray.storage.digest import digest
from rldf_ray.topics.bias_type import SHIPPED
from tests.fakes import plan_with

AGE = load_bbq(SCENES, ["Age"], 4)
INSTRUCTION = "protocols/multirole/prompts/system_judgement.txt"
OPINION = Scene(
    group="age",
    name="age-1",
    family="t",
    context="",
    question="Should school be free?",
    is_opinion=True,
)


def run_of(name: str, plan: Plan) -> MethodRun:
    (method,) = methods_of(plan, [name], ())
    return MethodRun(method=method, repeat=0, seed=0, folder="embedded", weights="embedded")


def key(name: str, plan: Plan, items: BBQSet = AGE) -> str:
    with own_prompts(plan.prompts):
        return run_of(name, plan).key(plan, items, "rank")


def free_key(name: str, plan: Plan, scene: Scene = OPINION) -> str:
    with own_prompts(plan.prompts):
        return run_of(name, plan).free_key(plan, [scene], [(scene.name, scene.question)])


def category(name: str) -> BBQSet:
    """Items of a category that is called so."""
    items = tuple(AGE.items)
    named = [asdict(item) | {"category": name} for item in items]
    return BBQSet(
        items=tuple(type(items[0])(**fields) for fields in named),
        source=AGE.source,
        target_sources=(),
        contradictory=frozenset(),
        why_no_bias_scores=None,
    )


def other_age(folder: Path, **changes: object) -> str:
    """A bias type's file like that of age, but for some fields."""
    fields: Mapping[str, object] = yaml.safe_load((SHIPPED / "age.yaml").read_text("utf-8"))
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**fields, **changes}, allow_unicode=True), "utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["cot", "mabrf"])
def test_thoughts_of_256_tokens_are_kept_under_the_key_they_had(name: str) -> None:
    plan = plan_with("debate.max_tokens=256")
    section = plan.debate
    sampled = (256, section.temperature, section.top_p, section.debaters, section.unknown)
    thinking = (name, 0, *sampled)
    questions = [asdict(item) for item in AGE.items]
    had = digest("embedded", thinking, "rank", None, plan.engines.dtype, questions)
    assert key(name, plan) == had


@pytest.mark.parametrize("name", ["cot", "fair_thinking", "cot_instructed", "mabrf"])
def test_only_what_is_said_at_that_length_depends_on_it(name: str) -> None:
    long, short = plan_with(), plan_with("evaluate.thought_tokens=32")
    statements = plan_with("debate.max_tokens=64")
    ours = name != "mabrf"
    assert (key(name, long) != key(name, short)) == ours
    assert (free_key(name, long) != free_key(name, short)) == ours
    assert (key(name, long) == key(name, statements)) == ours


def test_runs_do_not_depend_on_what_methods_say_before_they_answer() -> None:
    long, short = plan_with(), plan_with("evaluate.thought_tokens=32")
    assert long.digest() != short.digest()
    assert debated(long) == debated(short)
    assert trained(long, "ppo", 1, 9) == trained(short, "ppo", 1, 9)


def test_a_plan_of_before_thoughts_had_a_length_has_the_digest_it_had() -> None:
    values = plan_with().model_dump(mode="json")
    del values["evaluate"]["thought_tokens"]
    filled = Plan.model_validate(with_added_fields(values))
    assert filled == plan_with() and filled.digest() == plan_with().digest()


def test_jurors_from_the_plans_bias_types_are_part_of_the_key(tmp_path: Path) -> None:
    plan, other = plan_with(), plan_with("bias_types=[nationality, beauty]")
    assert key("fair_thinking", plan) == key("fair_thinking", other)
    unknown = category("Shoe_size")
    assert key("fair_thinking", plan, unknown) != key("fair_thinking", other, unknown)
    mine = plan_with(f"bias_types=[{other_age(tmp_path)}]")
    identity = {"name": "somebody else", "article": "", "background": "Like all."}
    (tmp_path / "b").mkdir()
    others = plan_with(f"bias_types=[{other_age(tmp_path / 'b', identities=[identity] * 5)}]")
    assert key("fair_thinking", mine, unknown) != key("fair_thinking", others, unknown)
    assert key("cot", mine, unknown) == key("cot", others, unknown)


@pytest.mark.parametrize("name", ["instructed", "cot_instructed"])
def test_answers_under_an_instruction_have_its_words_in_their_key(name: str) -> None:
    plan = plan_with()
    mine = plan_with("prompts={%s: 'Say {{ unknown[0] }}.'}" % INSTRUCTION)  # noqa: UP031
    assert key(name, plan) != key(name, mine)
    assert free_key(name, plan) != free_key(name, plan_with("debate.examples=2"))
    assert key(name, plan) == key(name, plan_with("debate.examples=2"))


@pytest.mark.parametrize("name", ["default", "cot", "fair_thinking", "mabrf"])
def test_other_answers_do_not_depend_on_the_plans_own_prompts(name: str) -> None:
    mine = plan_with("prompts={%s: 'Say {{ unknown[0] }}.'}" % INSTRUCTION)  # noqa: UP031
    assert key(name, plan_with()) == key(name, mine)
    assert free_key(name, plan_with()) == free_key(name, mine)


def test_a_message_about_a_model_says_whose_it_is() -> None:
    assert run_of("cot", plan_with()).described() == "CoT, repeat 0 (seed 0, embedded)"
