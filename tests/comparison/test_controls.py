"""Controls differ from the row they are held against in one thing, and in nothing else."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rldf_ray.comparison.answers import _as_asked
from rldf_ray.comparison.earlier import referee_shared, topics_shared
from rldf_ray.comparison.method import Method, known_methods, methods_of
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.methods.gold_sft import answered_rows
from rldf_ray.comparison.methods.rlaif import SampledAnswers, answerers_of
from rldf_ray.comparison.methods.rlaif_instructed import instructed_answerers_of
from rldf_ray.comparison.methods.rldf_unheard import unheard_of
from rldf_ray.comparison.runs import data_run_name, debate_run_name, training_run_name
from rldf_ray.comparison.thinking import Scene, Thinker
from rldf_ray.dataset.preference_data import preference_data
from rldf_ray.evaluate.bbq.prompt import ask
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.plan import Plan, PlanError
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.multirole.debater import debaters_of
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Statement
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.topics.unknown import UNKNOWN, Wordings
from tests.fakes import RecordingModel, judgement, opinion, plan_with

TOPICS = [opinion(1), judgement(2), judgement(3, "profession")]
PLAN = plan_with("referee={label_source: expected, threshold_kind: relative}", "data={filters: []}")
MARK = re.compile(r" \[mark \d+\.\d(, place \d)?\]")
CONTROLS = ("cot_instructed", "gold_sft", "rlaif_instructed", "rldf_unheard", "rldf_unmarked")


def named(name: str, plan: Plan = PLAN) -> Method:
    (method,) = methods_of(plan, [name], ())
    return method


def held(protocol: object, model: RecordingModel, plan: Plan = PLAN) -> list[Statement]:
    kept: dict[int, list[Statement]] = {}
    referee = PromptedReferee(model, plan.seed)
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=referee)
    asyncio.run(hold_all(protocol, multirole.items(TOPICS, plan), cast, kept.__setitem__))
    return [statement for place in sorted(kept) for statement in kept[place]]


def names(methods: Sequence[Method]) -> list[str]:
    return [method.name for method in methods]


def test_a_comparison_has_no_controls_unless_they_are_named_or_asked_for() -> None:
    assert not set(CONTROLS) & set(names(methods_of(PLAN, None, ())))
    everything = names(methods_of(PLAN, None, (), controls=True))
    left_out = {"rldf_teacher", "mabrf", "mabrf_search", "dpo", "kto"}
    assert everything == [name for name in known_methods() if name not in left_out]
    added = names(methods_of(PLAN, ["rldf_self", "default"], (), controls=True))
    assert added == [n for n in known_methods() if n in {"default", "rldf_self", *CONTROLS}]
    assert names(methods_of(PLAN, ["rldf_unheard"], ())) == ["rldf_unheard"]


def test_instructed_items_follow_the_debaters_system_prompt_and_are_else_the_same() -> None:
    items = load_bbq(SCENES, ["Age"], 4)
    for mode in ("rank", "letter"):
        plain, instructed = (
            _as_asked(
                PLAN,
                items,
                mode,
                MethodRun(
                    method=named(name), repeat=0, seed=0, folder="embedded", weights="embedded"
                ),
            )
            for name in ("default", "instructed")
        )
        for bare, put in zip(plain, instructed, strict=True):
            system, *rest = put.messages
            assert tuple(rest) == bare.messages
            assert (put.answers, put.order) == (bare.answers, bare.order)
            assert (
                system["role"] == "system" and "Begin with the answer itself" in system["content"]
            )
            assert sum(f'"{words}"' in system["content"] for words in UNKNOWN["own"]) == 2


def test_instructed_answers_have_keys_of_their_own_by_the_plans_wordings() -> None:
    items = load_bbq(SCENES, ["Age"], 4)
    keys = {
        MethodRun(method=named(name), repeat=0, seed=0, folder="embedded", weights="embedded").key(
            plan, items, "rank"
        )
        for name in ("default", "instructed", "cot", "cot_instructed")
        for plan in (PLAN, plan_with("debate.unknown=bbq"))
    }
    assert len(keys) == 7  # the bare question alone names no wording


def test_instructed_reasoning_has_the_instruction_before_both_of_its_turns() -> None:
    item = load_bbq(SCENES, ["Age"], 4).items[0]
    scene, model = Scene.of_item(item, ask(item, "rank")), RecordingModel()
    found = {}
    for name in ("cot", "cot_instructed"):
        think = named(name).think
        assert think is not None
        found[name] = asyncio.run(think(Thinker(model, PLAN, "m", 0), scene))
    bare, instructed = (request.messages for request in model.requests)
    assert instructed[1:] == bare and instructed[0].role == "system"
    assert found["cot_instructed"].messages[0] == instructed[0]
    roles = [message.role for message in found["cot_instructed"].messages]
    assert roles == ["system", *(message.role for message in found["cot"].messages)]


def test_instructed_samples_are_given_exactly_the_debaters_system_prompt() -> None:
    debates = multirole.items(TOPICS, PLAN)
    model = RecordingModel()
    for debate in debates:
        bare = answerers_of(debate, PLAN, [model] * len(debate.identities))
        instructed = instructed_answerers_of(debate, PLAN, [model] * len(debate.identities))
        debaters = debaters_of(debate, PLAN, [model] * len(debate.identities))
        assert [one.messages[1:] for one in instructed] == [one.messages for one in bare]
        assert [one.messages[0].content for one in instructed] == [one.system for one in debaters]
    spoken = held(SampledAnswers(instructed_answerers_of), model)
    debated = held(multirole, RecordingModel())
    assert len(spoken) == len(debated)


def test_nobody_is_heard_and_all_else_is_the_debates() -> None:
    loud, silent = RecordingModel(), RecordingModel()
    debated = held(multirole, loud)
    unheard = held(SampledAnswers(unheard_of), silent)
    assert [(s.debate_id, s.round, s.identity) for s in unheard] == [
        (s.debate_id, s.round, s.identity) for s in debated
    ]
    first = list(loud.asked("/round/1/role/"))
    assert [r.messages for r in silent.asked("/round/1/role/")] == [r.messages for r in first]
    for request in silent.asked("/round/2/role/"):
        text = request.messages[-1].content
        assert "Round 1" not in text and "round 2" in text
    assert any("Round 1" in r.messages[-1].content for r in loud.asked("/round/2/role/"))


def test_no_marks_are_shown_and_all_else_is_the_debates() -> None:
    training = named("rldf_unmarked").training
    assert training is not None
    # The same statements whatever was asked, so that the prompts can be compared.
    marked, unmarked = (
        RecordingModel(lambda r: f"Said at {r.address}." if "/role/" in r.address else None)
        for _ in range(2)
    )
    debated, withheld = held(multirole, marked), held(multirole, unmarked, training.source)
    assert [(s.identity, s.text, s.score, s.label) for s in withheld] == [
        (s.identity, s.text, s.score, s.label) for s in debated
    ]
    shown = [request.messages for request in marked.asked("/role/")]
    for messages, request in zip(shown, unmarked.asked("/role/"), strict=True):
        bare = [replace(m, content=MARK.sub("", m.content)) for m in messages]
        assert list(request.messages) == bare
    assert any(MARK.search(messages[-1].content) for messages in shown)


def test_rows_with_and_without_marks_share_topics_and_referee() -> None:
    training, other = named("rldf_unmarked").training, named("rldf_self").training
    assert training is not None and other is not None
    assert topics_shared(training.source) == topics_shared(other.source)
    assert referee_shared(training.source) == referee_shared(other.source)


def test_where_no_marks_are_shown_anyway_there_is_no_such_row() -> None:
    plan = plan_with("debate.show_marks=false")
    assert "rldf_unmarked" not in names(methods_of(plan, None, (), controls=True))
    with pytest.raises(PlanError, match="show_marks"):
        methods_of(plan, ["rldf_unmarked"], ())


def test_right_answers_take_the_place_of_what_the_row_sft_learns_from() -> None:
    statements = held(multirole, RecordingModel())
    topics = {topic.topic_id: topic for topic in TOPICS}
    made = preference_data(statements, topics, PLAN.data)
    said = [row for batch in made.sft() for row in batch.to_pylist()]
    gold = answered_rows(said, topics, PLAN)
    scenes = [row for row in said if row["kind"] == "judgement"]
    assert len(scenes) > 0
    assert [row["prompt"] for row in gold] == [row["prompt"] for row in scenes]
    assert {row["score"] for row in gold} == {None}
    for row in gold:
        text, topic = row["completion"][0]["content"], topics[row["topic_id"]]
        answer = topic.answer or ""
        right = {answer} if row["clue_shown"] else set(UNKNOWN["own"])
        assert text.rstrip(".").lower() in {one.lower() for one in right}


@pytest.mark.parametrize("wordings", ["own", "bbq"])
def test_right_answers_say_not_known_in_all_wordings_equally_often(wordings: Wordings) -> None:
    plan, types = plan_with(f"debate.unknown={wordings}"), ("age", "beauty", "class", "profession")
    topics = {topic.topic_id: topic for topic in (judgement(1, name) for name in types)}
    # As `sft_rows` has them: the types in turn, in each a row without the clue and one with it.
    rows = [
        {"topic_id": topic_id, "bias_type": topics[topic_id].bias_type, "clue_shown": shown}
        for _ in range(84)
        for topic_id in topics
        for shown in (False, True)
    ]
    said: dict[str, Counter[str]] = {name: Counter() for name in types}
    for row in answered_rows(rows, topics, plan):
        if not row["clue_shown"]:
            said[row["bias_type"]][row["completion"][0]["content"]] += 1
    all_said = sum(said.values(), Counter())
    assert set(all_said) == {f"{text}." for text in UNKNOWN[wordings]}
    assert set(all_said.values()) == {4 * 84 // len(UNKNOWN[wordings])}
    assert all(set(of_type) == set(all_said) for of_type in said.values())


def test_right_answers_share_the_debates_of_the_row_sft_and_nothing_after_them() -> None:
    sft, gold = named("sft").training, named("gold_sft").training
    assert sft is not None and gold is not None
    assert debate_run_name(sft) == debate_run_name(gold)
    assert data_run_name(sft) != data_run_name(gold)
    assert training_run_name(sft, "sft", 0, None) != training_run_name(gold, "sft", 0, None)


def test_without_scenes_there_are_no_right_answers() -> None:
    plan = plan_with("topics.judgement_share=0")
    assert "gold_sft" not in names(methods_of(plan, None, (), controls=True))
    with pytest.raises(PlanError, match="gold_sft: no scene has a right answer"):
        methods_of(plan, ["gold_sft"], ())


@pytest.mark.parametrize("name", ["rlaif_instructed", "rldf_unheard", "rldf_unmarked"])
def test_what_is_not_debated_has_debate_runs_of_its_own(name: str) -> None:
    others = [named(other).training for other in ("sft", "rlaif")]
    training = named(name).training
    assert training is not None
    assert debate_run_name(training) not in {debate_run_name(o) for o in others if o}
