"""Models that answer anything at all: no answer ends a run, and no score is ever invented."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Statement, Topic
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.verdict import SCORES
from rldf_ray.topics.writer import TopicWriter, judgement_topics, opinion_topics
from tests.fakes import RecordingModel, completion, judgement, opinion, plan_with

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
# What a model may say: noise, numbers that nearly are scores, JSON that nearly is what was asked.
SAID = (
    st.text(max_size=80)
    | st.sampled_from(["11", "-1", "3.5", "07", "ten", "1 2 3", "3 2", "1 1 2", "", " 4 ", "4."])
    | st.integers(-20, 20).map(str)
    | JSON.map(lambda value: json.dumps({"topics": value}))
    | st.fixed_dictionaries(
        {
            "scene": st.text(max_size=40),
            "clue": st.text(max_size=20),
            "question": st.text(max_size=20),
            "groups": st.lists(st.text(max_size=8), max_size=3),
            "answer": st.text(max_size=8),
        }
    ).map(json.dumps)
    | JSON.map(json.dumps)
)


def refereed(score: str, rank: str, probabilities: dict[str, float] | None) -> list[Statement]:
    def answer(request: ChatRequest) -> str | Completion | None:
        if "/score/" in request.address:
            return completion(score, choice_probabilities=probabilities)
        return rank if request.address.endswith("/rank") else None

    plan = plan_with("debate.rounds=1", "debate.debates=2")
    model = RecordingModel(answer)
    found: list[Statement] = []
    cast = Cast(
        plan=plan,
        run_id="r",
        models={"debater": model},
        referee=PromptedReferee(model, plan.seed),
    )
    debates = multirole.items([opinion(1), judgement(1, "profession")], plan)
    asyncio.run(
        hold_all(multirole, debates, cast, lambda place, statements: found.extend(statements))
    )
    return found


@given(score=SAID, rank=SAID)
@settings(deadline=None, max_examples=120)
@example(score="\uff14", rank="\uff11 \uff12 \uff13")  # int() would read them
@example(score="4\x00", rank="2 1 3\n")
@example(score="\u0661", rank="")
def test_a_score_is_what_was_said_or_nothing(score: str, rank: str) -> None:
    for row in refereed(score, rank, None):
        assert row.score == (float(score.strip()) if score.strip() in SCORES else None)
        assert row.expected_score is None and row.label_source == "said"
        assert (row.label is None) == (row.failure is not None) == (row.score is None)
        assert row.score is not None or repr(score.strip()) in (row.failure or "")
        places = rank.split(" ") if rank.strip() == rank else rank.strip().split(" ")
        assert (row.rank is not None) == (sorted(places) == ["1", "2", "3"])


@given(chances=st.lists(st.floats(0, 1), min_size=11, max_size=11), score=SAID)
@settings(deadline=None, max_examples=60)
def test_an_expectation_is_the_mean_of_what_was_told(chances: list[float], score: str) -> None:
    total = sum(chances) or 1.0
    told = {name: chance / total for name, chance in zip(SCORES, chances, strict=True)}
    mean = sum(i * told[str(i)] for i in range(11))
    for row in refereed(score, "1 2 3", told):
        assert row.expected_score is not None and abs(row.expected_score - mean) < 1e-9
        assert row.score == (float(score.strip()) if score.strip() in SCORES else None)


@given(said=SAID)
@settings(deadline=None, max_examples=200)
@example(said='{"topics": ["\\ud800 lone surrogates are no text"]}')
@example(said="[" * 10_000)
@example(said='{"topics": "not a list of them"}')
def test_any_answer_gives_topics_or_reasons(said: str) -> None:
    section = plan_with().topics
    for parse in (opinion_topics, judgement_topics):
        for found in parse(said, "age", section):
            assert isinstance(found, str | Topic)
            if isinstance(found, Topic):
                text = found.text.split()
                assert all(word in " ".join(said_words(said)) for word in text)


def said_words(said: str) -> list[str]:
    """Every word of every string in an answer."""

    def strings(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        if isinstance(value, dict):
            return [s for inner in value.values() for s in strings(inner)]
        return [s for inner in value for s in strings(inner)] if isinstance(value, list) else []

    return [word for text in strings(json.loads(said)) for word in text.split()]


@given(said=SAID)
@settings(deadline=None, max_examples=40)
def test_gathering_topics_ends_whatever_the_model_writes(said: str) -> None:
    plan = plan_with("topics={per_bias_type: 6, seeds_per_bias_type: 2, tries: 2}")
    topics, counts = asyncio.run(TopicWriter(plan, RecordingModel(lambda r: said)).gather())
    for name in plan.bias_types:
        mine = [topic for topic in topics if topic.bias_type == name]
        assert len(mine) == counts[name].seed + counts[name].written
        assert all(isinstance(reason, str) for reason in counts[name].rejected)
