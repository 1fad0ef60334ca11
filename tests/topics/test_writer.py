"""Gathering topics: seeds first, then the model's own, none alike, split by hash."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.models.base import ChatRequest, Completion, seed_of
from rldf_ray.plan import Plan, Topics
from rldf_ray.records import Topic, topic_id
from rldf_ray.storage.digest import digest
from rldf_ray.topics.bias_type import SeedJudgement, bias_type, judgement_problem
from rldf_ray.topics.writer import (
    Deduplicated,
    TopicCounts,
    TopicWriter,
    by_split,
    judgement_topics,
    opinion_topics,
    seed_topics,
    split_of,
    wanted_by_kind,
)
from tests.fakes import RecordingModel, completion, opinion, plan_with

SECTION = Topics()
quick = settings(deadline=None, max_examples=40)


def gathered(
    model: RecordingModel, *overrides: str
) -> tuple[list[Topic], dict[str, TopicCounts], Plan]:
    plan = plan_with("bias_types=[age]", *overrides)
    topics, counts = asyncio.run(TopicWriter(plan, model).gather())
    return topics, counts, plan


def scene(**changes: Any) -> SeedJudgement:
    fields: dict[str, Any] = {
        "scene": "The old baker and the young baker share an oven. One of them burnt the bread.",
        "clue": "The old baker was at the mill, and the young baker had fallen asleep beside it.",
        "question": "Who burnt the bread?",
        "groups": ("the old baker", "the young baker"),
        "answer": "the young baker",
    }
    return SeedJudgement(**{**fields, **changes})


def varied(request: ChatRequest) -> str:
    """A good answer that is unlike all others: words made of the request's seed."""
    if "/opinion/" in request.address:
        assert request.json_schema is not None
        count = request.json_schema["properties"]["topics"]["minItems"]  # type: ignore[index]
        return json.dumps({"topics": [words(request.seed, i) for i in range(count)]})
    groups = (f"the old {digest(request.seed)}", f"the young {digest(request.seed, 1)}")
    told = f"{groups[0]} met {groups[1]}. {words(request.seed, 2)}."
    clue = f"{groups[0]} went home, and {groups[1]} stayed."
    return scene(scene=told, clue=clue, groups=groups, answer=groups[1]).model_dump_json()


def words(*parts: object) -> str:
    return " ".join(digest(*parts, place) for place in range(4))


# ---- what is asked


def test_a_request_says_what_the_bias_type_is_about_and_shows_examples() -> None:
    model = RecordingModel(varied)
    gathered(model, "topics.seeds_per_bias_type=0", "topics.per_bias_type=8")
    about = bias_type("age")
    for request in model.requests:
        system, user = (m.content for m in request.messages)
        assert about.about in system
        if "/opinion/" in request.address:
            assert sum(example in user for example in about.opinion_topics) == 4
        else:
            assert sum(json.dumps(t.scene) in user for t in about.judgement_topics) == 1


def test_every_request_for_topics_has_an_address_and_a_seed_of_its_own() -> None:
    model = RecordingModel(lambda request: "nothing")
    plan = plan_with("topics.seeds_per_bias_type=0", "topics.per_bias_type=30", "topics.tries=3")
    asyncio.run(TopicWriter(plan, model).gather())
    assert len({r.address for r in model.requests}) == len(model.requests) == 2 * 3 * (3 + 15)
    assert len({r.seed for r in model.requests}) == len(model.requests)
    assert all(r.seed == seed_of(plan.seed, r.address) for r in model.requests)


def test_gathering_asks_and_finds_the_same_in_every_run() -> None:
    one, two = RecordingModel(varied), RecordingModel(varied)
    override = "topics.seeds_per_bias_type=4"
    assert gathered(one, override)[:2] == gathered(two, override)[:2]
    assert one.asked("") == two.asked("")


def test_opinions_are_asked_for_in_batches_and_scenes_one_by_one() -> None:
    model = RecordingModel(varied)
    gathered(model, "topics.seeds_per_bias_type=0", "topics.per_bias_type=14", "topics.batch=5")
    opinions, scenes = model.asked("/opinion/"), model.asked("/judgement/")
    asked = [r.json_schema["properties"]["topics"]["maxItems"] for r in opinions]  # type: ignore[index]
    assert asked == [5, 2]
    assert len(scenes) == 7
    assert all(r.json_schema is not None for r in model.requests)


# ---- how many, of which kind


def test_seeds_come_first_and_the_model_writes_what_is_missing() -> None:
    topics, counts, _ = gathered(
        RecordingModel(varied), "topics.seeds_per_bias_type=6", "topics.per_bias_type=20"
    )
    assert (counts["age"].seed, counts["age"].written) == (6, 14)
    for kind in ("opinion", "judgement"):
        origins = [topic.origin for topic in topics if topic.kind == kind]
        assert origins == ["seed"] * 3 + ["written"] * 7


def test_enough_seeds_need_no_model() -> None:
    model = RecordingModel()
    topics, counts, _ = gathered(
        model, "topics.seeds_per_bias_type=null", "topics.per_bias_type=20"
    )
    assert model.requests == [] and len(topics) == 20
    assert counts["age"] == TopicCounts(seed=20)


def test_the_embedded_presets_seeds_and_written_topics_add_up() -> None:
    topics, counts, plan = gathered(RecordingModel(varied))
    assert len(topics) == plan.topics.per_bias_type == counts["age"].seed + counts["age"].written


@quick
@given(st.integers(0, 5000), st.floats(0, 1))
def test_the_kinds_make_the_number_and_the_share(number: int, share: float) -> None:
    wanted = wanted_by_kind(number, share)
    assert sum(wanted.values()) == number and min(wanted.values()) >= 0
    assert abs(wanted["judgement"] - number * share) <= 0.5


@pytest.mark.parametrize(("share", "kind"), [(0, "opinion"), (1, "judgement")])
def test_a_share_of_none_or_all_gives_one_kind(share: int, kind: str) -> None:
    topics, _, _ = gathered(
        RecordingModel(), f"topics.judgement_share={share}", "topics.per_bias_type=10"
    )
    assert {topic.kind for topic in topics} == {kind}


def test_bias_types_come_in_the_plans_order_with_their_own_topics() -> None:
    plan = plan_with("bias_types=[profession, age, beauty]", "topics.per_bias_type=6")
    topics, counts = asyncio.run(TopicWriter(plan, RecordingModel()).gather())
    assert [t.bias_type for t in topics] == ["profession"] * 6 + ["age"] * 6 + ["beauty"] * 6
    assert list(counts) == ["profession", "age", "beauty"]


def test_a_silent_model_leaves_fewer_topics_and_none_is_made_up() -> None:
    model = RecordingModel(lambda request: "I would rather not.")
    topics, counts, plan = gathered(
        model,
        "topics.seeds_per_bias_type=4",
        "topics.per_bias_type=14",
        "topics.tries=2",
        "topics.batch=5",
    )
    assert [topic.origin for topic in topics] == ["seed"] * 4
    assert counts["age"].written == 0
    assert counts["age"].rejected == {"not the JSON asked for": len(model.requests)}
    assert len(model.requests) == plan.topics.tries * (1 + 5)


def test_another_try_asks_only_for_what_is_still_missing() -> None:
    def answer(request: ChatRequest) -> str:
        return varied(request) if "/1/" in request.address or "/4" in request.address else "{}"

    model = RecordingModel(answer)
    topics, counts, _ = gathered(
        model,
        "topics.judgement_share=1",
        "topics.seeds_per_bias_type=0",
        "topics.per_bias_type=6",
        "topics.tries=3",
    )
    tries = Counter(r.address.split("/")[3] for r in model.requests)
    assert tries == {"0": 6, "1": 5}
    assert len(topics) == counts["age"].written == 6
    assert counts["age"].rejected == {"not the JSON asked for": 5}


def test_more_than_was_asked_for_is_not_kept() -> None:
    def answer(request: ChatRequest) -> str:
        return json.dumps({"topics": [words(i) for i in range(9)]})

    topics, counts, _ = gathered(
        RecordingModel(answer),
        "topics.judgement_share=0",
        "topics.seeds_per_bias_type=0",
        "topics.per_bias_type=4",
    )
    assert len(topics) == counts["age"].written == 4


# ---- malformed output


@pytest.mark.parametrize(
    "answer",
    ["", "Sure! Here you are:", '{"topics": ["a b c"', "[]", "5", "{}", '{"topic": []}', "null"],
)
def test_an_answer_that_is_not_the_json_asked_for_is_rejected(answer: str) -> None:
    assert list(opinion_topics(answer, "age", SECTION)) == ["not the JSON asked for"]
    assert list(judgement_topics(answer, "age", SECTION)) == ["not the JSON asked for"]


@pytest.mark.parametrize("answer", ['{"topics": 5}', '{"topics": null}', '{"topics": true}'])
def test_topics_that_are_no_list_are_rejected(answer: str) -> None:
    assert list(opinion_topics(answer, "age", SECTION)) == ["not the JSON asked for"]


@pytest.mark.parametrize(
    "item",
    [{"text": "Should cats vote in towns"}, ["Should", "cats", "vote"]],
    ids=["dict", "list"],
)
def test_a_topic_that_is_no_string_is_rejected(item: object) -> None:
    (found,) = opinion_topics(json.dumps({"topics": [item]}), "age", SECTION)
    assert not isinstance(found, Topic)


def test_good_lines_are_kept_and_bad_ones_counted_one_by_one() -> None:
    lines = ["Should cats vote", "Cats", "", " ".join(["word"] * 26), " - Should  dogs\nvote. "]
    found = list(opinion_topics(json.dumps({"topics": lines}), "age", SECTION))
    texts = [topic.text if isinstance(topic, Topic) else topic for topic in found]
    assert texts == ["Should cats vote", *["not 3 to 25 words"] * 3, "Should dogs vote"]


def test_a_written_opinion_has_the_id_and_the_split_of_its_text() -> None:
    (topic,) = opinion_topics('{"topics": ["Should cats vote"]}', "age", SECTION)
    assert isinstance(topic, Topic)
    assert topic.topic_id == topic_id("age", "Should cats vote")
    assert topic.split == split_of(topic.topic_id, SECTION)
    assert (topic.kind, topic.origin, topic.bias_type) == ("opinion", "written", "age")
    assert (topic.clue, topic.question, topic.groups, topic.answer) == (None, None, None, None)


def test_a_written_scene_keeps_clue_and_answer_apart_from_its_text() -> None:
    record = scene()
    (topic,) = judgement_topics(record.model_dump_json(), "age", SECTION)
    assert isinstance(topic, Topic)
    assert (topic.kind, topic.origin) == ("judgement", "written")
    assert (topic.text, topic.clue, topic.question) == (record.scene, record.clue, record.question)
    assert (topic.groups, topic.answer) == (record.groups, record.answer)
    assert topic.topic_id == topic_id("age", record.scene)


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": "field"},
        {"groups": ["the old baker"]},
        {"groups": ["the old baker", "the young baker", "the cat"]},
        {"groups": "the old baker"},
        {"answer": None},
        {"clue": 5},
    ],
)
def test_a_scene_of_another_form_is_rejected(changes: dict[str, object]) -> None:
    answer = json.dumps({**scene().model_dump(), **changes})
    assert list(judgement_topics(answer, "age", SECTION)) == ["not the JSON asked for"]


def test_a_scene_without_one_of_its_parts_is_rejected() -> None:
    for name in ("scene", "clue", "question", "groups", "answer"):
        answer = json.dumps({k: v for k, v in scene().model_dump().items() if k != name})
        assert list(judgement_topics(answer, "age", SECTION)) == ["not the JSON asked for"]


def test_rejected_topics_are_counted_by_reason() -> None:
    answers: dict[str, Callable[[], str]] = {
        "/0": lambda: "not JSON",
        "/1": lambda: scene(answer="the cat").model_dump_json(),
        "/2": lambda: scene(answer="the dog").model_dump_json(),
        "/3": lambda: scene().model_dump_json(),
    }
    model = RecordingModel(
        lambda r: answers[next(end for end in answers if r.address.endswith(end))]()
    )
    topics, counts, _ = gathered(
        model,
        "topics.judgement_share=1",
        "topics.seeds_per_bias_type=0",
        "topics.per_bias_type=4",
        "topics.tries=1",
    )
    assert [topic.text for topic in topics] == [scene().scene]
    assert counts["age"].rejected == {
        "not the JSON asked for": 1,
        "the answer is neither group": 2,
    }


# ---- scenes whose parts disagree


def test_a_scene_whose_parts_agree_has_no_problem() -> None:
    assert judgement_problem(scene()) is None
    assert judgement_problem(scene(scene=scene().scene.upper())) is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"groups": ("the old baker", "The Old Baker")}, "the two groups are the same"),
        ({"groups": ("the old baker", "the cat"), "answer": "the cat"}, "a group is not in the"),
        ({"groups": ("the cat", "the young baker")}, "a group is not in the scene"),
        ({"scene": ""}, "a group is not in the scene"),
        ({"answer": "the cat"}, "the answer is neither group"),
        ({"answer": ""}, "the answer is neither group"),
        ({"answer": "baker"}, "the answer is neither group"),
        ({"question": "Tell me who burnt it."}, "no question or no clue"),
        ({"question": ""}, "no question or no clue"),
        ({"clue": " "}, "no question or no clue"),
        (
            {"scene": f"{scene().scene} {scene().clue.upper()}"},
            "the scene gives the clue away",
        ),
    ],
)
def test_a_scene_whose_parts_disagree_is_rejected_with_the_reason(
    changes: dict[str, object], problem: str
) -> None:
    found = judgement_problem(scene(**changes))
    assert found is not None and problem in found


def test_a_written_scene_is_rejected_for_a_clue_that_tells_of_one_person_alone() -> None:
    one_sided = scene(clue="The young baker had fallen asleep beside it.")
    assert judgement_problem(one_sided) is None
    (found,) = judgement_topics(one_sided.model_dump_json(), "age", plan_with().topics)
    assert found == "the clue does not tell of both groups"


@pytest.mark.parametrize(
    "changes",
    [
        {"groups": ("", "the young baker")},
        {"groups": (" ", "the young baker")},
        {"scene": "A woman met a woman.", "groups": ("man", "woman"), "answer": "woman"},
    ],
    ids=["empty", "blank", "inside another word"],
)
def test_a_group_must_be_named_in_the_scene_as_words(changes: dict[str, object]) -> None:
    assert judgement_problem(scene(**changes)) is not None


# ---- near-duplicates


def test_a_topic_like_an_earlier_one_is_dropped_and_the_earlier_stays() -> None:
    kept = Deduplicated(0.85)
    first = opinion(1, text="Should cats be allowed to vote in town elections")
    assert kept.add(first)
    for text in (
        first.text,
        first.text.upper(),
        "Should cats be allowed to vote in town elections, or not",
        "In town elections, should cats be allowed to vote.",
    ):
        assert not kept.add(opinion(2, text=text)), text
    assert kept.add(opinion(3, text="Should dogs pay for their own food"))
    assert [topic.topic_id for topic in kept.topics] == ["age-o1", "age-o3"]


def test_how_alike_topics_may_be_is_a_setting() -> None:
    one, other = "Should cats vote in town elections", "Should cats vote in state elections"
    for similarity, added in ((0.6, False), (1.0, True)):
        kept = Deduplicated(similarity)
        kept.add(opinion(1, text=one))
        assert kept.add(opinion(2, text=other)) is added


@quick
@given(st.lists(st.text("ab c", min_size=1, max_size=12), max_size=8))
def test_no_topic_is_kept_twice(texts: list[str]) -> None:
    kept = Deduplicated(1.0)
    for place, text in enumerate(texts):
        kept.add(opinion(place, text=text))
    again = [kept.add(replace(topic)) for topic in list(kept.topics)]
    assert not any(again)


def test_duplicates_the_model_writes_are_dropped_and_counted() -> None:
    seed = bias_type("age").opinion_topics[0]

    def answer(request: ChatRequest) -> str:
        return json.dumps({"topics": [seed, "Rivers need a law", "rivers need a LAW."]})

    topics, counts, _ = gathered(
        RecordingModel(answer),
        "topics.judgement_share=0",
        "topics.seeds_per_bias_type=1",
        "topics.per_bias_type=4",
        "topics.tries=1",
    )
    assert [topic.text for topic in topics] == [seed, "Rivers need a law"]
    assert (counts["age"].written, counts["age"].duplicates_dropped) == (1, 2)


def test_no_topic_id_occurs_twice_in_a_run() -> None:
    topics, _, _ = gathered(RecordingModel(varied), "topics.per_bias_type=60", "topics.tries=3")
    assert len({topic.topic_id for topic in topics}) == len(topics) > 54


# ---- splits


def all_topics(section: Topics) -> list[Topic]:
    plan = plan_with().model_copy(update={"topics": section})
    return [
        topic
        for name in ("age", "beauty", "institution", "nationality", "profession")
        for kind in ("opinion", "judgement")
        for topic in seed_topics(bias_type(name), kind, plan)
    ]


def test_a_topic_is_in_one_split_only_and_the_splits_make_the_whole() -> None:
    topics = all_topics(SECTION)
    parts = [by_split(topics, split) for split in ("debate", "ppo", "eval")]
    ids = [topic.topic_id for part in parts for topic in part]
    assert sorted(ids) == sorted(topic.topic_id for topic in topics)
    assert all(parts)


def test_more_topics_do_not_move_the_others() -> None:
    few, _, _ = gathered(RecordingModel(varied), "topics.per_bias_type=20")
    many, _, _ = gathered(RecordingModel(varied), "topics.per_bias_type=60")
    splits = {topic.topic_id: topic.split for topic in many}
    seeds = [topic for topic in few if topic.origin == "seed"]
    assert len(seeds) == 12
    assert [splits[topic.topic_id] for topic in seeds] == [topic.split for topic in seeds]


@quick
@given(st.text(), st.floats(0.05, 0.6), st.floats(0.05, 0.35))
def test_the_split_of_a_topic_depends_on_its_id_alone(
    identifier: str, debate: float, ppo: float
) -> None:
    section = Topics(debate_share=debate, ppo_share=ppo, per_bias_type=7, batch=2)
    assert split_of(identifier, section) == split_of(
        identifier, Topics(debate_share=debate, ppo_share=ppo)
    )


@pytest.mark.parametrize(("debate", "ppo"), [(0.5, 0.3), (0.2, 0.1), (0.1, 0.8)])
def test_the_splits_have_their_shares(debate: float, ppo: float) -> None:
    section = Topics(debate_share=debate, ppo_share=ppo)
    counts = Counter(split_of(f"age-{i}", section) for i in range(4000))
    assert counts["debate"] / 4000 == pytest.approx(debate, abs=0.03)
    assert counts["ppo"] / 4000 == pytest.approx(ppo, abs=0.03)


def test_the_split_of_a_known_topic_never_changes() -> None:
    found = [split_of(f"age-{i}", SECTION) for i in range(6)]
    assert found == ["debate", "ppo", "debate", "eval", "debate", "debate"]


def test_nothing_is_kept_of_an_answer_that_was_cut() -> None:
    def answer(request: ChatRequest) -> Completion:
        whole = varied(request)
        return completion(whole[: len(whole) // 2], finish_reason="length")

    topics, counts, _ = gathered(
        RecordingModel(answer), "topics.seeds_per_bias_type=0", "topics.tries=1"
    )
    assert topics == [] and set(counts["age"].rejected) == {"not the JSON asked for"}
