"""What a run would take: counts that hold exactly, bounds that hold, and no guessed time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rldf_ray.models.base import ChatRequest
from rldf_ray.plan import Plan
from rldf_ray.preflight.estimate import estimate, summary
from rldf_ray.preflight.referee_estimate import evaluation_tokens, judging
from rldf_ray.preflight.stage_estimate import StageEstimate
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.judges.refereeing import DebateReferee, MetaReferee, StatementJudge
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Context
from rldf_ray.referee.matched import MatchedReferee
from rldf_ray.referee.platt import Calibration
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.trained import TrainedReferee
from rldf_ray.storage.results import Finish
from rldf_ray.topics.writer import TopicWriter
from tests.fakes import RecordingModel, plan_with

ENDPOINT = (
    "teacher=openai:big",
    "endpoint={base_url: http://localhost:1, prompt_price: 2, generated_price: 10}",
)


def stage(plan: Plan, name: str, like: Any = None) -> StageEstimate:
    return {found.name: found for found in estimate(plan, like)}[name]


def held(plan: Plan) -> list[ChatRequest]:
    """The requests of the real debates on a scripted model."""
    model = RecordingModel()
    topics, _ = asyncio.run(TopicWriter(plan, RecordingModel()).gather())
    asked = PromptedReferee(model, 0, plan.referee.judgements == "checked")
    matched = plan.referee.judgements == "matched"
    referee = MatchedReferee(asked) if matched else asked
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=referee)
    asyncio.run(hold_all(multirole, multirole.items(topics, plan), cast, lambda *_: None))
    return model.requests


@pytest.mark.parametrize("shape", [(2, 1), (3, 2), (5, 3)])
def test_the_calls_of_the_debates_are_exactly_those_that_are_made(shape: tuple[int, int]) -> None:
    plan = plan_with(f"debate={{debates: 4, debaters: {shape[0]}, rounds: {shape[1]}}}")
    assert stage(plan, "debates").calls == len(held(plan))


@pytest.mark.parametrize("answers", ["chosen", "chosen_with_reason"])
def test_answers_that_are_chosen_count_as_the_requests_they_take(answers: str) -> None:
    plan = plan_with(
        f"debate={{answers: {answers}, debates: 4, max_tokens: 40}}", "topics.judgement_share=1.0"
    )
    calls = held(plan)
    assert stage(plan, "debates").calls == len(calls)
    said = [call for call in calls if "/role/" in call.address]
    # A choice is no longer than itself, however many tokens a server might take for it.
    most = sum(max(map(len, c.choices)) / 4 if c.choices else c.max_tokens for c in said)
    assert stage(plan, "debates").generated >= most


def test_a_judgement_that_is_checked_takes_no_ranking() -> None:
    plan = plan_with("referee.judgements=checked", "topics.judgement_share=1.0")
    calls = held(plan)
    assert stage(plan, "debates").calls == len(calls)
    assert not any("/rank" in call.address for call in calls)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_answers_that_are_matched_take_no_request_of_a_referee(share: float) -> None:
    plan = plan_with(
        "debate={answers: chosen, debates: 4}",
        "referee.judgements=matched",
        f"topics.judgement_share={share}",
    )
    calls = held(plan)
    assert stage(plan, "debates").calls == len(calls)
    judged = [call for call in calls if "/score" in call.address or "/rank" in call.address]
    assert bool(judged) == (share < 1)


def test_a_trained_referee_is_asked_for_scores_alone_and_generates_nothing() -> None:
    plan = plan_with("referee={kind: trained, label_source: expected}")
    model = RecordingModel()
    topics, _ = asyncio.run(TopicWriter(plan, RecordingModel()).gather())
    referee = TrainedReferee(RecordingModel(lambda request: "1.0"), Calibration(1.0, 0.0, 10))
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=referee)
    asyncio.run(hold_all(multirole, multirole.items(topics, plan), cast, lambda *_: None))
    assert isinstance(referee.model, RecordingModel)
    asked = len(model.requests) + len(referee.model.requests)
    assert stage(plan, "debates").calls == asked == 6 * 2 * (3 + 3)
    assert stage(plan, "audit").generated == 0


def test_the_fit_of_a_referee_is_a_stage_whose_time_goes_with_its_pairs() -> None:
    fitted = plan_with("referee={kind: trained, fit: {epochs: 2}}")
    assert estimate(fitted)[0].name == "referee"
    assert "referee" not in [s.name for s in estimate(plan_with())]
    like = fitted, {"referee": finished(seconds=60.0)}
    twice = plan_with("referee={kind: trained, fit: {epochs: 4}}")
    assert stage(twice, "referee", like).seconds == pytest.approx(120.0)
    assert stage(fitted, "referee", (plan_with(), {})).seconds is None


def test_the_calls_for_topics_are_those_of_the_first_try() -> None:
    plan = plan_with("topics={per_bias_type: 60, seeds_per_bias_type: 12, tries: 1, batch: 5}")
    model = RecordingModel()
    asyncio.run(TopicWriter(plan, model).gather())
    assert stage(plan, "topics").calls == len(model.requests) > 0


def test_where_seeds_are_enough_no_topic_is_written() -> None:
    assert stage(plan_with("topics={per_bias_type: 14}"), "topics").calls == 0


def test_the_prompt_tokens_of_debates_bound_those_of_short_statements() -> None:
    """The scripted model says some 12 words where the plan allows 32 tokens."""
    plan = plan_with(*ENDPOINT)
    characters = sum(len(m.content) for request in held(plan) for m in request.messages)
    found = stage(plan, "debates").prompt
    assert characters / 4 < found < 2 * characters / 4


def test_money_is_prices_times_tokens_and_unknown_without_prices() -> None:
    found = stage(plan_with(*ENDPOINT), "debates")
    assert found.usd == pytest.approx((2 * found.prompt + 10 * found.generated) / 1e6)
    unpriced = plan_with(*ENDPOINT[:1], "endpoint={base_url: http://localhost:1}")
    assert stage(unpriced, "debates").usd is None
    assert summary(estimate(unpriced))["usd"] is None
    assert summary(estimate(plan_with()))["usd"] == 0
    assert stage(plan_with(*ENDPOINT), "ppo").usd == 0


def test_only_the_parts_that_an_endpoint_plays_cost_money() -> None:
    whole = stage(plan_with(*ENDPOINT), "debates").usd
    speaking = stage(plan_with(*ENDPOINT[1:], "debate.model=openai:big"), "debates").usd
    judging = stage(plan_with(*ENDPOINT[1:], "referee.model=openai:big"), "debates").usd
    assert whole and speaking and judging and 0 < judging < whole and 0 < speaking < whole
    assert speaking + judging == pytest.approx(whole)
    assert stage(plan_with(*ENDPOINT[1:], "debate.model=openai:big"), "topics").usd == 0


POOL = "referee={kind: meta, evaluation_tokens: 20, pool: ['openai:big', 'vllm:a', 'vllm:b']}"


def refereed(plan: Plan, seats: dict[str, RecordingModel]) -> None:
    """One statement, judged by the plan's kind of referee on scripted models."""

    def judge(part: str) -> StatementJudge:
        most = evaluation_tokens(plan)
        return StatementJudge(model=seats.setdefault(part, model()), seed=0, max_tokens=most)

    def model() -> RecordingModel:
        # As long as allowed: an evaluation of 20 tokens of four characters.
        return RecordingModel(lambda r: r.choices[0] if r.choices else "word " * 16)

    members = {part: judge(part) for part in plan.referee_parts()}
    if plan.referee.kind == "debate":
        referee: DebateReferee | MetaReferee = DebateReferee(
            judge_=judge("referee"), critic=members["critic"], rounds=plan.referee.rounds or 1
        )
    else:
        mode = plan.referee.mode or "conclude"
        referee = MetaReferee(judge_=judge("referee"), pool=members, mode=mode)
    asyncio.run(referee.judge(Context("It is late."), ["Go home."], "a"))


@pytest.mark.parametrize(
    "override",
    [
        "referee={kind: debate, critic: 'openai:big', evaluation_tokens: 20}",
        "referee={kind: debate, critic: 'openai:big', evaluation_tokens: 20, rounds: 3}",
        POOL,
        POOL.replace("}", ", mode: select}"),
    ],
)
def test_each_part_of_a_referee_is_asked_what_it_is_billed_for(override: str) -> None:
    plan = plan_with(override)
    seats: dict[str, RecordingModel] = {}
    refereed(plan, seats)
    parts = judging(plan, 0)
    for part, model in seats.items():
        own = [one for one in parts if one.part == part]
        assert sum(one.calls for one in own) == len(model.requests)
        generated = sum(3 if r.choices else r.max_tokens for r in model.requests)
        assert sum(one.generated for one in own) == generated
    assert {one.part for one in parts} == set(seats)


@pytest.mark.parametrize("override", ["referee={kind: debate, critic: 'openai:big'}", POOL])
def test_a_critic_and_a_member_at_an_endpoint_cost_money(override: str) -> None:
    plan = plan_with(ENDPOINT[1], override)
    found = {name: stage(plan, name) for name in ("audit", "debates")}
    for one in found.values():
        assert one.usd and 0 < one.billed[0] < 1 and 0 < one.billed[1] < 1
    everything = stage(plan_with(*ENDPOINT, override), "debates").usd
    assert everything and found["debates"].usd < everything  # type: ignore[operator]


def test_seats_at_an_endpoint_are_billed_by_seat() -> None:
    one = ["debate.seats=['openai:big', 'vllm:a', 'vllm:b']", ENDPOINT[1]]
    all_ = ["debate.seats=['openai:big', 'openai:big', 'openai:big']", ENDPOINT[1]]
    paid, everything = (stage(plan_with(*seats), "debates").usd for seats in (one, all_))
    assert paid and everything == pytest.approx(3 * paid)


def finished(seconds: float, tokens: dict[str, int] | None = None) -> Finish:
    return Finish(
        finished_at="2026-01-01T00:00:00Z", seconds=seconds, peak_pss_gib=1.0, tokens=tokens
    )


def test_without_an_earlier_run_no_time_is_told() -> None:
    found = estimate(plan_with())
    assert {s.seconds for s in found} == {None} and summary(found)["seconds"] is None


def test_an_earlier_run_corrects_tokens_and_gives_times() -> None:
    plan = plan_with("data.pairs_per_topic=4")
    stages = {
        found.name: finished(
            seconds=10.0,
            tokens={"prompt": found.prompt // 2, "cached": 0, "generated": found.generated},
        )
        for found in estimate(plan)
    }
    twice = plan.model_copy(update={"debate": plan.debate.model_copy(update={"debates": 12})})
    before, after = stage(plan, "debates"), stage(twice, "debates", (plan, stages))
    assert after.seconds == pytest.approx(20.0)
    assert (after.prompt, after.generated) == (before.prompt, 2 * before.generated)
    total = summary(estimate(plan, (plan, stages)))
    assert total["seconds"] == pytest.approx(80.0)
    more = plan_with("data.pairs_per_topic=null")
    assert stage(more, "reward", (plan, stages)).seconds is None


def test_a_stage_that_the_earlier_run_did_not_do_has_no_time() -> None:
    plan = plan_with()
    found = estimate(plan, (plan, {"debates": finished(seconds=3.0)}))
    assert {s.name: s.seconds for s in found if s.seconds is not None} == {"debates": 3.0}
    assert summary(found)["seconds"] is None


ONE_EPOCH = tuple(f"{name}.epochs=1" for name in ("sft", "reward", "dpo", "kto"))
AFTER = "train.after=[dpo, kto, ppo]"
UNLIMITED = ("data.pairs_per_topic=null", "data.max_pairs=null", "data.max_sft=null")


@pytest.mark.parametrize("name", ["reward", "dpo", "kto"])
def test_where_nobody_knows_the_number_of_pairs_no_time_is_made_of_another_runs(name: str) -> None:
    plan = plan_with(*UNLIMITED, *ONE_EPOCH, AFTER)
    like = plan, {name: finished(seconds=60.0)}
    assert stage(plan, name, like).seconds == 60.0
    for other in ("debate.debates=12", f"{name}.epochs=2", "data.min_gap=5", "topics.batch=3"):
        assert stage(plan_with(*UNLIMITED, *ONE_EPOCH, AFTER, other), name, like).seconds is None
    # What has no part in it changes nothing.
    assert stage(plan_with(*UNLIMITED, *ONE_EPOCH, AFTER, "name=b"), name, like).seconds == 60.0


@pytest.mark.parametrize("name", ["sft", "reward", "dpo", "kto"])
def test_the_time_of_a_training_goes_with_its_passes_and_the_least_of_its_limits(name: str) -> None:
    limited = (*ONE_EPOCH, AFTER, "debate.debates=6", "data.pairs_per_topic=4", "data.max_sft=24")
    plan = plan_with(*limited)
    like = plan, {name: finished(seconds=60.0)}
    assert stage(plan_with(*limited, f"{name}.epochs=3"), name, like).seconds == 180.0
    half = ("data.max_pairs=12", "data.max_sft=12")
    assert stage(plan_with(*limited, *half), name, like).seconds == 30.0
    none = ("data.max_pairs=1000", "data.max_sft=24")
    assert stage(plan_with(*limited, *none), name, like).seconds == 60.0
    alone = ("data.pairs_per_topic=null", *half)
    assert stage(plan_with(*limited, *alone), name, like).seconds == 30.0
