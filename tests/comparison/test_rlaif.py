"""RLAIF's data: the same topics, as many answers, the same judge and tables, and no debate."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from rldf_ray.comparison.method import methods_of
from rldf_ray.comparison.methods.rlaif import SampledAnswers, answerers_of
from rldf_ray.dataset.preference_data import preference_data, prompt_of
from rldf_ray.plan import Plan
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import PAIR_SCHEMA, SFT_SCHEMA, Statement
from rldf_ray.referee.prompted import PromptedReferee, render
from tests.fakes import RecordingModel, judgement, opinion, plan_with

TOPICS = [
    opinion(1),
    judgement(2),
    opinion(3, "profession"),
]


def source(*overrides: str) -> Plan:
    plan = plan_with("referee={label_source: expected, threshold_kind: relative}", *overrides)
    (method,) = methods_of(plan, ["rlaif"], ())
    assert method.training is not None
    return method.training.source


def collected(plan: Plan, model: RecordingModel) -> list[Statement]:
    kept: dict[int, list[Statement]] = {}
    cast = Cast(
        plan=plan,
        run_id="r",
        models={"debater": model},
        referee=PromptedReferee(model, plan.seed),
    )
    debates = multirole.items(TOPICS, plan)
    asyncio.run(hold_all(SampledAnswers(answerers_of), debates, cast, kept.__setitem__))
    return [statement for place in sorted(kept) for statement in kept[place]]


def test_as_many_answers_as_there_would_be_statements_and_as_many_calls_of_the_judge() -> None:
    plan, model = source(), RecordingModel()
    statements = collected(plan, model)
    assert len(statements) == 6 * 3 * 2 == len(model.asked("/role/"))
    assert len(model.asked("/score/")) == 6 * 3 * 2 and len(model.asked("/rank")) == 6 * 2
    assert {s.identity for s in statements} == {"policy"}


def test_an_answer_hears_nothing_but_the_prompt_of_training() -> None:
    model = RecordingModel()
    statements = collected(source(), model)
    topics = {topic.topic_id: topic for topic in TOPICS}
    prompts = {prompt_of(topics[s.topic_id], s.clue_shown)[0]["content"] for s in statements}
    asked = model.asked("/role/")
    assert {r.messages[0].content for r in asked} == prompts
    assert {len(r.messages) for r in asked} == {1} and {r.max_tokens for r in asked} == {32}
    assert len({r.seed for r in asked}) == len(asked)


def test_the_judge_is_asked_in_the_referees_words() -> None:
    model = RecordingModel()
    collected(source(), model)
    assert {r.messages[0].content for r in model.asked("/score/")} == {render("system")}


def test_sft_and_pairs_come_out_in_the_tables_that_training_reads() -> None:
    plan = source("data.pairing=same_role", "data={filters: []}")
    statements = collected(plan, RecordingModel())
    made = preference_data(statements, {t.topic_id: t for t in TOPICS}, plan.data)
    pairs, sft = (pa.Table.from_batches(table) for table in (made.pairs(), made.sft()))
    assert pairs.schema == PAIR_SCHEMA and sft.schema == SFT_SCHEMA
    assert pairs.num_rows > 0 and sft.num_rows > 0
    for row in pairs.to_pylist():
        assert row["chosen_score"] < row["rejected_score"]
        assert "Answer as" not in row["prompt"][0]["content"]
