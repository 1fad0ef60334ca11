"""The multi-role debate: who sees what, in which order, and what prompts share."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.models.base import ChatRequest, Completion, ModelError, seed_of
from rldf_ray.protocols.multirole.debate import MultiRoleDebate, whole_sentences
from rldf_ray.protocols.multirole.debater import Debater
from rldf_ray.protocols.multirole.layouts import system_prompt
from rldf_ray.protocols.turns import Round
from rldf_ray.records import Conclusion, Context, context_of
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.topics.bias_type import bias_type
from tests.fakes import (
    FixedReferee,
    RecordingModel,
    completion,
    judgement,
    opinion,
    probabilities,
    verdict,
)

Order = Literal["simultaneous", "sequential"]

TOPIC = "Should cats vote"
ORDERS: list[Order] = ["simultaneous", "sequential"]
both_orders = pytest.mark.parametrize("order", ORDERS)


def hold(
    model: RecordingModel,
    rounds: int,
    order: Order = "simultaneous",
    debaters: int = 3,
    debate_id: str = "d",
    name: str = "age",
) -> list[Round]:
    identities = bias_type(name).identities[:debaters]
    speakers = [
        Debater(
            identity=i,
            model=model,
            max_tokens=48,
            temperature=1.0,
            top_p=0.95,
            seed=5,
            table=identities,
        )
        for i in identities
    ]
    protocol = MultiRoleDebate(rounds, order, "said")
    referee = PromptedReferee(model, seed=5)
    return asyncio.run(protocol.hold(Context(TOPIC), speakers, referee, debate_id))


def turns_of(model: RecordingModel, number: int) -> list[ChatRequest]:
    return model.asked(f"/round/{number}/role/")


def flat(request: ChatRequest) -> str:
    """The request as an engine's prefix cache sees it: one text from the first token on."""
    return "".join(f"<{m.role}>{m.content}" for m in request.messages)


def turn_of(request: ChatRequest) -> str:
    """The last paragraph of a debater's prompt: round and identity."""
    return request.messages[-1].content.rpartition("\n\n")[2]


def discussion_of(request: ChatRequest) -> str:
    return flat(request).removesuffix(turn_of(request))


def common_beginning(texts: list[str]) -> str:
    columns = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False))
    return "".join(column[0] for column in columns)


# ---- rounds


@both_orders
@pytest.mark.parametrize("debaters", [2, 3, 5])
def test_every_debater_speaks_once_a_round_in_its_seat(order: Order, debaters: int) -> None:
    model = RecordingModel()
    transcript = hold(model, 3, order, debaters)
    names = [identity.name for identity in bias_type("age").identities[:debaters]]
    assert [[turn.identity for turn in turns] for turns in transcript] == [names] * 3
    spoken = [f"d/round/{r}/role/{s}" for r in (1, 2, 3) for s in range(debaters)]
    assert [r.address for r in model.asked("/role/")] == spoken


@both_orders
def test_three_rounds_are_the_beginning_of_ten(order: Order) -> None:
    short, long = RecordingModel(), RecordingModel()
    three, ten = hold(short, 3, order), hold(long, 10, order)
    assert ten[:3] == three
    early = [r for r in long.requests if int(r.address.split("/")[2]) <= 3]
    assert sorted(early, key=lambda r: r.address) == short.asked("")
    assert len(long.requests) > len(early)


@both_orders
def test_no_prompt_names_a_round_to_come(order: Order) -> None:
    model = RecordingModel()
    hold(model, 4, order)
    for request in model.requests:
        number = int(request.address.split("/")[2])
        named = [int(n) for n in re.findall(r"\bround (\d+)", flat(request), re.IGNORECASE)]
        assert max(named, default=0) <= number, request.address
        assert not re.search(r"\b(rounds|last|final|next)\b", turn_of(request), re.IGNORECASE)


def test_a_round_begins_only_when_the_one_before_is_refereed() -> None:
    model = RecordingModel()
    hold(model, 3)
    rounds = [int(r.address.split("/")[2]) for r in model.requests]
    assert rounds == sorted(rounds)
    for number in (1, 2, 3):
        kinds = [r.address.split("/")[3] for r in model.requests if f"/{number}/" in r.address]
        assert kinds[:3] == ["role"] * 3 and set(kinds[3:]) == {"rank", "score"}


# ---- prompt layout


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_debaters_of_a_round_share_everything_before_their_identity(number: int) -> None:
    model = RecordingModel()
    transcript = hold(model, 3)
    requests = turns_of(model, number)
    shared = common_beginning([flat(r) for r in requests])
    system = system_prompt(bias_type("age").identities[:3], examples=0)
    assert shared.startswith(f"<system>{system}<user>Topic: {TOPIC}\n\n")
    assert all(turn.text in shared for turns in transcript[: number - 1] for turn in turns)
    for request in requests:
        before_identity = discussion_of(request) + turn_of(request).partition("You are ")[0]
        assert shared.startswith(before_identity)


@both_orders
def test_round_and_identity_come_last(order: Order) -> None:
    model = RecordingModel()
    hold(model, 3, order)
    for number in (1, 2, 3):
        for request, identity in zip(
            turns_of(model, number), bias_type("age").identities, strict=False
        ):
            assert turn_of(request) == (
                f"It is your turn in round {number}. You are {identity.article} {identity.name}."
            )


def test_the_transcript_only_grows() -> None:
    model = RecordingModel()
    transcript = hold(model, 4)
    for number in (1, 2, 3):
        (before,) = {discussion_of(r) for r in turns_of(model, number)}
        (after,) = {discussion_of(r) for r in turns_of(model, number + 1)}
        assert after.startswith(before)
        added = after.removeprefix(before)
        assert added.startswith(f"Round {number}\n")
        places = [added.index(f"{turn.identity}: {turn.text}") for turn in transcript[number - 1]]
        assert places == sorted(places)


def test_sequential_rounds_begin_with_the_transcript_so_far_as_well() -> None:
    model = RecordingModel()
    hold(model, 3, "sequential")
    for number in (1, 2):
        before = discussion_of(turns_of(model, number)[0])
        for request in turns_of(model, number + 1):
            assert flat(request).startswith(before)


@both_orders
def test_the_system_prompt_is_one_and_the_same_for_all_debaters_and_rounds(order: Order) -> None:
    model = RecordingModel()
    hold(model, 3, order)
    assert len({r.messages[0] for r in model.asked("/role/")}) == 1


def test_two_debates_of_one_topic_share_everything_before_the_first_statement() -> None:
    one, two = RecordingModel(), RecordingModel()
    hold(one, 1, debate_id="d-0")
    hold(two, 1, debate_id="d-1")
    assert [flat(r) for r in turns_of(one, 1)] == [flat(r) for r in turns_of(two, 1)]


# ---- who sees what


def test_debaters_speaking_at_once_do_not_see_each_other_in_the_same_round() -> None:
    model = RecordingModel()
    transcript = hold(model, 2)
    for number in (1, 2):
        for request in turns_of(model, number):
            assert not any(turn.text in flat(request) for turn in transcript[number - 1])


def test_debaters_speaking_at_once_do_not_wait_for_each_other() -> None:
    started: list[str] = []
    all_started = asyncio.Event()

    class Waiting(RecordingModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            if "/role/" in request.address:
                started.append(request.address)
                if len(started) == 3:
                    all_started.set()
                await asyncio.wait_for(all_started.wait(), timeout=60)
            return await super().complete(request)

    hold(Waiting(), 1)
    assert len(started) == 3


def test_debaters_speaking_in_turn_see_those_before_them_and_not_those_after() -> None:
    model = RecordingModel()
    transcript = hold(model, 2, "sequential")
    for number in (1, 2):
        for seat, request in enumerate(turns_of(model, number)):
            seen = [turn.text in flat(request) for turn in transcript[number - 1]]
            assert seen == [place < seat for place in range(3)]


@both_orders
def test_later_rounds_see_every_earlier_statement_with_mark_and_place(order: Order) -> None:
    answers = {"/rank": "2 3 1", "/score/0": "8", "/score/1": "1", "/score/2": "3"}

    def answer(request: ChatRequest) -> str | None:
        return next((text for part, text in answers.items() if part in request.address), None)

    model = RecordingModel(answer)
    transcript = hold(model, 2, order)
    first, second, third = transcript[0]
    for request in turns_of(model, 2):
        assert f"{first.identity}: {first.text} [mark 8.0, place 3]" in flat(request)
        assert f"{second.identity}: {second.text} [mark 1.0, place 1]" in flat(request)
        assert f"{third.identity}: {third.text} [mark 3.0, place 2]" in flat(request)


def test_a_mark_that_was_not_given_is_not_shown() -> None:
    answers = {"/rank": "who knows", "/score/": "no number"}
    model = RecordingModel(
        lambda r: next((text for part, text in answers.items() if part in r.address), None)
    )
    transcript = hold(model, 2)
    for request in turns_of(model, 2):
        assert "[mark" not in flat(request) and "None" not in flat(request)
        assert all(turn.text in flat(request) for turn in transcript[0])
    assert {turn.score for turn in transcript[0]} == {None}
    assert {turn.rank for turn in transcript[0]} == {None}


@pytest.mark.parametrize(("shown", "mark"), [("said", "2.0"), ("expected", "4.5")])
def test_the_mark_shown_is_the_score_that_labels(
    shown: Literal["said", "expected"], mark: str
) -> None:
    said = completion("2", choice_probabilities=probabilities(_4=0.5, _5=0.5))
    model = RecordingModel(lambda r: said if "/score/" in r.address else None)
    speakers = [
        Debater(identity=i, model=model, max_tokens=48, temperature=1.0, top_p=1.0, seed=5)
        for i in bias_type("age").identities[:2]
    ]
    protocol = MultiRoleDebate(2, "simultaneous", shown)
    asyncio.run(protocol.hold(Context(TOPIC), speakers, PromptedReferee(model, 5), "d"))
    for request in turns_of(model, 2):
        assert flat(request).count(f"[mark {mark}, place ") == 2


def test_the_referee_sees_the_context_and_the_statements_and_no_identity() -> None:
    model = RecordingModel()
    transcript = hold(model, 2)
    for number, turns in enumerate(transcript, start=1):
        for seat, turn in enumerate(turns):
            (request,) = model.asked(f"/round/{number}/score/{seat}")
            assert TOPIC in flat(request) and turn.text in flat(request)
        judged = [*model.asked(f"/{number}/score/"), *model.asked(f"/{number}/rank")]
        for request in judged:
            assert not any(turn.identity in flat(request) for turn in turns)
            assert "mark" not in request.messages[-1].content


def test_the_referee_judges_the_statement_as_the_others_hear_it() -> None:
    cut = completion("Cats  are wise. They hunt and then th", finish_reason="length")
    model = RecordingModel(lambda r: cut if "/role/" in r.address else None)
    transcript = hold(model, 2)
    assert {turn.text for turns in transcript for turn in turns} == {"Cats are wise."}
    assert transcript[0][0].completion == cut
    assert not any("They hunt" in flat(r) for r in model.requests)


# ---- addresses and seeds


@both_orders
def test_every_request_has_an_address_and_a_seed_of_its_own(order: Order) -> None:
    model = RecordingModel()
    hold(model, 5, order, debaters=5, debate_id="d-0")
    hold(model, 5, order, debaters=5, debate_id="d-1")
    for values in ([r.address for r in model.requests], [r.seed for r in model.requests]):
        assert [value for value, times in Counter(values).items() if times > 1] == []
    assert len(model.requests) == 2 * 5 * (5 + 5 + 1)
    assert all(r.seed == seed_of(5, r.address) for r in model.requests)


@both_orders
def test_a_debate_asks_the_same_in_every_run(order: Order) -> None:
    one, two = RecordingModel(), RecordingModel()
    assert hold(one, 3, order) == hold(two, 3, order)
    assert one.asked("") == two.asked("")


def test_a_debate_stays_on_one_engine() -> None:
    model = RecordingModel()
    hold(model, 3, debate_id="d-7")
    assert {r.affinity for r in model.requests} == {"d-7"}


@both_orders
def test_a_model_that_cannot_answer_ends_the_debate_with_its_error(order: Order) -> None:
    def answer(request: ChatRequest) -> str | None:
        if request.address == "d/round/2/role/1":
            raise ModelError("engine 3 is gone")
        return None

    with pytest.raises(ModelError, match="engine 3 is gone"):
        hold(RecordingModel(answer), 3, order)


def test_another_referee_can_judge_without_a_model() -> None:
    model = RecordingModel()
    rounds = [[verdict(1.0, rank=1), verdict(9.0, rank=2)]] * 2
    speakers = [
        Debater(identity=i, model=model, max_tokens=48, temperature=1.0, top_p=1.0, seed=5)
        for i in bias_type("age").identities[:2]
    ]
    protocol = MultiRoleDebate(2, "simultaneous", "said")
    transcript = asyncio.run(protocol.hold(Context(TOPIC), speakers, FixedReferee(rounds), "d"))
    assert [[turn.score for turn in turns] for turns in transcript] == [[1.0, 9.0]] * 2
    assert len(model.requests) == 4


# ---- the context


def test_the_context_of_an_opinion_topic_is_its_text() -> None:
    topic = opinion(1)
    assert context_of(topic, False).text == topic.text


def test_the_context_of_a_judgement_topic_is_scene_and_question_with_or_without_the_clue() -> None:
    topic = judgement(1)
    assert context_of(topic, False).text == f"{topic.text} {topic.question}"
    assert context_of(topic, True).text == f"{topic.text} {topic.clue} {topic.question}"
    assert topic.answer is not None and topic.clue is not None
    assert topic.clue not in context_of(topic, False).text


def test_what_can_be_concluded_is_the_answer_with_the_clue_and_nothing_without_it() -> None:
    topic = judgement(1)
    assert topic.question is not None
    assert context_of(topic, True).conclusion == Conclusion(topic.question, topic.answer)
    assert context_of(topic, False).conclusion == Conclusion(topic.question, None)
    assert context_of(opinion(1), False).conclusion is None


# ---- statements cut by length


@pytest.mark.parametrize(
    ("text", "finish", "kept"),
    [
        ("One. Two. Thr", "length", "One. Two."),
        ("One. Two.", "length", "One. Two."),
        ('He said "go!" And th', "length", 'He said "go!"'),
        ("Is it? Mayb", "length", "Is it?"),
        ("It costs 3.50 each and", "length", "It costs 3.50 each and"),
        ("no whole sentence here", "length", "no whole sentence here"),
        ("", "length", ""),
        (" Two  lines\n\nas one. And", "stop", "Two lines as one. And"),
        ("", "stop", ""),
    ],
)
def test_a_cut_statement_ends_with_its_last_whole_sentence(
    text: str, finish: str, kept: str
) -> None:
    assert whole_sentences(completion(text, finish_reason=finish)) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The monk. [mark 3.7, place 4]", "The monk."),
        ("Not known [mark 4.0]\n\nHindu: The monk.", "Not known"),
        ("[mark 4.0, place", ""),
        ("She gave a low mark [for spelling].", "She gave a low mark [for spelling]."),
    ],
)
def test_a_speaker_who_goes_on_in_the_transcripts_form_has_said_what_stands_before_it(
    text: str, kept: str
) -> None:
    assert whole_sentences(completion(text, finish_reason="length")) == kept
    assert whole_sentences(completion(text, finish_reason="stop")) == kept


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet="ab .!?\"')\n", max_size=60), st.sampled_from(["stop", "length"]))
def test_a_statement_is_a_beginning_of_what_was_said_on_one_line(text: str, finish: str) -> None:
    kept = whole_sentences(completion(text, finish_reason=finish))
    whole = " ".join(text.split())
    assert whole.startswith(kept)
    assert kept == whole or (finish == "length" and kept[-1] in ".!?\"')")
    assert not whole or kept
