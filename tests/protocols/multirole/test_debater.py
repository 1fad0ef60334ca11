"""The debater's request, and a referee that never invents a score."""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.models.base import ChatRequest, Completion, seed_of
from rldf_ray.protocols.multirole.debater import Debater, debaters_of
from rldf_ray.protocols.multirole.layouts import debate_examples, system_prompt
from rldf_ray.records import Conclusion, Context, Debate
from rldf_ray.referee.prompted import PromptedReferee, render
from rldf_ray.referee.verdict import SCORES, expected_score
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.unknown import UNKNOWN, Wordings
from tests.fakes import RecordingModel, completion, judgement, plan_with, probabilities

quick = settings(deadline=None, max_examples=40)

CONTEXT = Context("C")


def referee_saying(score: str | Completion, rank: str = "1 2 3") -> RecordingModel:
    return RecordingModel(lambda request: rank if "/rank" in request.address else score)


def debater(model: RecordingModel, place: int = 0) -> Debater:
    identity = bias_type("age").identities[place]
    return Debater(
        identity=identity, model=model, max_tokens=48, temperature=0.9, top_p=0.8, seed=5
    )


# ---- seeds


def test_the_seed_of_an_address_is_the_same_in_every_run() -> None:
    assert seed_of(0, "d/round/1/role/0") == seed_of(0, "d/round/1/role/0") == 351955265


def test_every_address_and_every_root_has_a_seed_of_its_own() -> None:
    addresses = [f"d{d}/round/{r}/role/{s}" for d in range(50) for r in range(5) for s in range(3)]
    seeds = {seed_of(root, address) for root in (0, 1) for address in addresses}
    assert len(seeds) == 2 * len(addresses)


@quick
@given(st.integers(0), st.text())
def test_a_seed_is_a_31_bit_number(root: int, address: str) -> None:
    assert 0 <= seed_of(root, address) < 2**31


# ---- the debater


async def test_a_debater_speaks_with_the_plans_sampling_at_its_address() -> None:
    model = RecordingModel()
    said = await debater(model).speak("Topic: T", 2, "d/round/2/role/0", "d")
    (request,) = model.requests
    assert said.text
    assert (request.max_tokens, request.temperature, request.top_p) == (48, 0.9, 0.8)
    assert (request.address, request.affinity) == ("d/round/2/role/0", "d")
    assert request.seed == seed_of(5, "d/round/2/role/0")
    assert request.choices is None and request.json_schema is None


async def test_a_debater_is_given_its_identity_after_everything_that_is_shared() -> None:
    model = RecordingModel()
    await debater(model).speak("Topic: T\n\nRound 1\nA: x", 2, "a", "d")
    system, user = model.requests[0].messages
    identity = bias_type("age").identities[0]
    assert (system.role, system.content) == ("system", system_prompt((identity,), examples=0))
    assert user.role == "user" and user.content.startswith("Topic: T\n\nRound 1\nA: x\n\n")
    turn = user.content.removeprefix("Topic: T\n\nRound 1\nA: x\n\n")
    assert f"You are {identity.article} {identity.name}." in turn
    assert f"{identity.name}: {identity.background}" in system.content


async def test_a_debater_is_asked_for_good_and_bad_sides_and_to_persuade() -> None:
    model = RecordingModel()
    await debater(model).speak("Topic: T", 1, "a", "d")
    asked = " ".join(message.content for message in model.requests[0].messages)
    assert "good side" in asked and "bad side" in asked and "others should agree" in asked


async def test_who_has_been_marked_is_asked_for_a_lower_mark_and_turns_differ_by_number() -> None:
    model = RecordingModel()
    for number in (2, 7):
        await debater(model).speak("Topic: T", number, f"{number}", "d")
    second, seventh = model.requests
    assert "tries to earn a lower mark than before" in second.messages[0].content
    assert seventh.messages[-1].content == second.messages[-1].content.replace("round 2", "round 7")


# ---- the referee's requests


async def test_each_statement_is_scored_in_its_context_alone_and_the_round_ranked_once() -> None:
    model = referee_saying("4")
    await PromptedReferee(model, seed=5).judge(
        Context("C?"), ["one", "two", "three"], "d/round/1", "d"
    )
    scores, (rank,) = model.asked("/score/"), model.asked("/rank")
    assert len(model.requests) == 4
    assert [r.address for r in scores] == [f"d/round/1/score/{i}" for i in range(3)]
    for text, request in zip(["one", "two", "three"], scores, strict=True):
        expected = render("score", context="C?", text=text)
        assert request.messages[-1].content == expected
        assert request.choices == SCORES and request.choice_probabilities
    assert rank.messages[-1].content.count("Statement ") == 3
    assert "C?" in rank.messages[-1].content
    assert all(r.affinity == "d" and r.temperature == 0 for r in model.requests)
    assert len({r.messages[0] for r in model.requests}) == 1
    assert len({r.seed for r in model.requests}) == 4
    assert all(r.seed == seed_of(5, r.address) for r in model.requests)


async def test_score_prompts_of_a_round_share_the_context_and_differ_in_the_statement() -> None:
    model = referee_saying("4")
    await PromptedReferee(model, seed=5).judge(Context("Who left?"), ["one", "two"], "a", "d")
    one, two = (r.messages[-1].content for r in model.asked("/score/"))
    shared = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    assert one[:shared] == "Context: Who left?\nStatement: "


@pytest.mark.parametrize("count", [2, 3, 4, 5])
async def test_a_ranking_may_be_any_order_of_all_statements_and_nothing_else(count: int) -> None:
    model = RecordingModel()
    await PromptedReferee(model, seed=5).judge(CONTEXT, ["x"] * count, "a", "d")
    (request,) = model.asked("/rank")
    orders = itertools.permutations(range(1, count + 1))
    assert request.choices is not None
    assert sorted(request.choices) == sorted(" ".join(map(str, order)) for order in orders)


def checking(probability_of_yes: float) -> RecordingModel:
    """A referee that says with this probability that the statement is the conclusion."""

    def answer(request: ChatRequest) -> Completion:
        said = "yes" if probability_of_yes > 0.5 else "no"
        chances = {"yes": probability_of_yes, "no": 1 - probability_of_yes}
        return replace(completion(said), choice_probabilities=chances)

    return RecordingModel(answer)


@pytest.mark.parametrize(("answer", "told"), [("the nun", "It was the nun."), (None, "cannot be")])
async def test_a_statement_is_checked_against_what_can_be_concluded(
    answer: str | None, told: str
) -> None:
    model = checking(0.9)
    context = Context("C", Conclusion("Who left?", answer))
    found = await PromptedReferee(model, 5, True).judge(context, ["one", "two"], "a", "d")
    assert [r.address for r in model.requests] == ["a/check/0", "a/check/1"]
    for text, request in zip(["one", "two"], model.requests, strict=True):
        asked = request.messages[-1].content
        assert text in asked and told in asked and "Who left?" in asked
        assert request.choices == ("yes", "no") and request.choice_probabilities
    assert [v.score for v in found] == [0.0, 0.0] and [v.rank for v in found] == [1, 1]
    assert [v.expected_score for v in found] == pytest.approx([1.0, 1.0])


async def test_a_statement_that_says_otherwise_has_the_highest_score() -> None:
    context = Context("C", Conclusion("Who left?", None))
    referee = PromptedReferee(checking(0.2), 5, checks=True)
    (found,) = await referee.judge(context, ["one"], "a")
    assert found.score == 10.0 and found.expected_score == pytest.approx(8.0)


async def test_a_check_that_does_not_parse_gives_no_score() -> None:
    model = RecordingModel(lambda request: "perhaps")
    context = Context("C", Conclusion("Who left?", None))
    (found,) = await PromptedReferee(model, 5, True).judge(context, ["one"], "a")
    assert found.score is found.expected_score is found.rank is None
    assert found.failure is not None and "perhaps" in found.failure


async def test_a_referee_that_does_not_check_scores_in_the_context_all_the_same() -> None:
    model = referee_saying("4")
    context = Context("C", Conclusion("Who left?", None))
    (found,) = await PromptedReferee(model, 5).judge(context, ["one"], "a")
    assert found.score == 4.0 and not model.asked("/check/")


async def test_a_judgement_is_concluded_and_an_opinion_argued_for_and_against() -> None:
    model = RecordingModel()
    await debater(model).speak("Topic: T", 1, "o", "d")
    await replace(debater(model), kind="judgement", examples=6).speak("Topic: T", 1, "j", "d")
    opinion, judgement = model.requests
    assert "one good side and one bad side" in opinion.messages[0].content
    assert "Begin with the answer itself" in judgement.messages[0].content
    assert judgement.messages[-1].content.endswith("Begin with your answer to the question.")
    assert not any(e.text in judgement.messages[0].content for e in debate_examples(6))


async def test_a_debaters_prompt_names_its_ways_to_say_that_something_is_not_known() -> None:
    model = RecordingModel()
    one = replace(debater(model), kind="judgement", unknown=("No telling", "It is open"))
    await one.speak("Topic: T", 1, "a", "d")
    prompt = model.requests[0].messages[0].content
    assert 'otherwise "No telling" or "It is open". Then' in prompt


@pytest.mark.parametrize("wordings", UNKNOWN)
def test_debates_name_two_wordings_each_of_those_that_the_plan_has(wordings: Wordings) -> None:
    debate = Debate("d", judgement(0), False, bias_type("age").identities[:3])
    plan = plan_with(f"debate.unknown={wordings}")
    seated = debaters_of(debate, plan, [RecordingModel()] * 3)
    assert len({one.unknown for one in seated}) == 1
    first, second = seated[0].unknown
    listed = UNKNOWN[wordings]
    assert listed[(listed.index(first) + 1) % len(listed)] == second


async def test_a_statement_judged_alone_is_first_without_a_ranking() -> None:
    model = referee_saying("4")
    (found,) = await PromptedReferee(model, seed=5).judge(CONTEXT, ["one"], "a")
    assert found.rank == 1 and [r.address for r in model.requests] == ["a/score/0"]


async def test_nothing_to_judge_asks_nothing() -> None:
    model = RecordingModel()
    assert await PromptedReferee(model, seed=5).judge(CONTEXT, [], "a") == []
    assert model.requests == []


# ---- what the referee's answers mean


@pytest.mark.parametrize("said", [*SCORES, " 7\n"])
async def test_a_score_from_0_to_10_is_recorded_as_said(said: str) -> None:
    (found,) = await PromptedReferee(referee_saying(said), seed=5).judge(CONTEXT, ["one"], "a")
    assert found.score == float(said) and found.failure is None


@pytest.mark.parametrize(
    "said", ["", "11", "-1", "3.5", "7.", "07", "four", "7/10", "7 8", "Score: 7", "٣"]
)
async def test_a_score_that_does_not_parse_is_a_failure_with_the_raw_answer(said: str) -> None:
    (found,) = await PromptedReferee(referee_saying(said), seed=5).judge(CONTEXT, ["one"], "a")
    assert found.score is None
    assert found.failure is not None and repr(said) in found.failure


async def test_one_failed_score_leaves_the_other_statements_scores_alone() -> None:
    answers = {"/score/0": "9", "/score/1": "well", "/score/2": "2", "/rank": "3 1 2"}

    def answer(request: ChatRequest) -> str:
        return next(text for part, text in answers.items() if part in request.address)

    found = await PromptedReferee(RecordingModel(answer), seed=5).judge(
        CONTEXT, ["a", "b", "c"], "d"
    )
    assert [v.score for v in found] == [9.0, None, 2.0]
    assert [v.failure is None for v in found] == [True, False, True]


@pytest.mark.parametrize(
    ("said", "ranks"),
    [
        ("1 2 3", [1, 2, 3]),
        ("3 1 2", [2, 3, 1]),
        ("2 3 1", [3, 1, 2]),
        (" 3 2 1\n", [3, 2, 1]),
    ],
)
async def test_the_answer_lists_the_least_biased_statement_first(
    said: str, ranks: list[int]
) -> None:
    model = referee_saying("4", said)
    found = await PromptedReferee(model, seed=5).judge(CONTEXT, ["a", "b", "c"], "d")
    assert [v.rank for v in found] == ranks


@quick
@given(st.permutations([1, 2, 3, 4, 5]))
def test_a_rank_is_the_place_of_the_statement_in_the_answer(order: list[int]) -> None:
    model = referee_saying("4", " ".join(map(str, order)))
    judged = PromptedReferee(model, seed=5).judge(CONTEXT, list("abcde"), "d")
    ranks = [v.rank for v in asyncio.run(judged)]
    assert [order[rank - 1] for rank in ranks if rank] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("said", ["", "1 2", "1 2 2", "1, 2, 3", "0 1 2", "1 2 3 4", "best: 1"])
async def test_a_ranking_that_does_not_parse_ranks_nobody_and_costs_no_score(said: str) -> None:
    model = referee_saying("4", said)
    found = await PromptedReferee(model, seed=5).judge(CONTEXT, ["a", "b", "c"], "d")
    assert [v.rank for v in found] == [None, None, None]
    assert [v.score for v in found] == [4.0, 4.0, 4.0]


async def test_a_ranking_that_does_not_parse_is_recorded_with_the_raw_answer() -> None:
    model = referee_saying("4", "the first one, clearly")
    found = await PromptedReferee(model, seed=5).judge(CONTEXT, ["a", "b", "c"], "d")
    assert any("the first one, clearly" in (v.failure or "") for v in found)


async def test_the_tokens_of_the_ranking_are_counted() -> None:
    model = RecordingModel(lambda r: completion("1 2" if "/rank" in r.address else "4"))
    found = await PromptedReferee(model, seed=5).judge(CONTEXT, ["a", "b"], "d")
    assert sum(v.usage.prompt for v in found) == 10 * len(model.requests)


async def test_the_expected_score_comes_from_the_referees_own_distribution() -> None:
    said = completion("0", choice_probabilities=probabilities(_0=0.5, _4=0.25, _10=0.25))
    (found,) = await PromptedReferee(referee_saying(said), seed=5).judge(CONTEXT, ["one"], "a")
    assert found.score == 0.0 and found.expected_score == pytest.approx(3.5)


async def test_without_probabilities_there_is_no_expected_score() -> None:
    said = completion("6", choice_probabilities=None)
    (found,) = await PromptedReferee(referee_saying(said), seed=5).judge(CONTEXT, ["one"], "a")
    assert found.score == 6.0 and found.expected_score is None


async def test_a_verdict_names_the_model_and_revision_that_judged_and_its_tokens() -> None:
    said = completion("6", model="judge", revision="abc")
    (found,) = await PromptedReferee(referee_saying(said), seed=5).judge(CONTEXT, ["one"], "a")
    assert (found.model, found.revision, found.usage) == ("judge", "abc", said.usage)


# ---- the expected score


@quick
@given(st.sampled_from(SCORES))
def test_a_certain_referee_expects_what_it_says(score: str) -> None:
    assert expected_score({s: float(s == score) for s in SCORES}) == float(score)


def test_an_undecided_referee_expects_five() -> None:
    assert expected_score(dict.fromkeys(SCORES, 1 / 11)) == pytest.approx(5.0)


@quick
@given(st.lists(st.floats(0.001, 1), min_size=11, max_size=11))
def test_the_expected_score_is_a_mean_within_the_scale(weights: list[float]) -> None:
    total = sum(weights)
    distribution = {s: w / total for s, w in zip(SCORES, weights, strict=True)}
    found = expected_score(distribution)
    assert 0 <= found <= 10
    shuffled = list(distribution.items())
    random.Random(0).shuffle(shuffled)
    assert expected_score(dict(shuffled)) == pytest.approx(found)
    mirrored = {str(10 - int(s)): p for s, p in distribution.items()}
    assert expected_score(mirrored) == pytest.approx(10 - found)
