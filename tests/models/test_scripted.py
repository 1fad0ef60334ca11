"""`ScriptedModel`: same request, same answer; every format is kept."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import replace
from functools import partial
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.models.base import ChatRequest, Completion, Message, ModelError, Usage
from rldf_ray.models.scripted import ScriptedModel, instance, sentence, sentences
from rldf_ray.topics.writer import JUDGEMENT_SCHEMA

REQUEST = ChatRequest(
    messages=(Message("system", "Be brief."), Message("user", "Is tea better than coffee?")),
    max_tokens=64,
    address="debate/1",
)
TOPICS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "topics": {
            "type": "array",
            "items": {"type": "string", "minLength": 12, "maxLength": 110},
            "minItems": 5,
            "maxItems": 5,
        }
    },
    "required": ["topics"],
    "additionalProperties": False,
}
short_text = st.text("ab1 ", max_size=4)
numbers = st.integers(0, 2**64 - 1)


def answers(request: ChatRequest, model: ScriptedModel | None = None) -> tuple[Completion, ...]:
    return asyncio.run((model or ScriptedModel()).complete(request))


def answer(request: ChatRequest, model: ScriptedModel | None = None) -> Completion:
    (said,) = answers(request, model)
    return said


def test_the_same_request_has_the_same_answer() -> None:
    assert answers(REQUEST) == answers(REQUEST)
    assert ScriptedModel().name == answer(REQUEST).model == "scripted"


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, seed=1),
        replace(REQUEST, address="debate/2"),
        replace(REQUEST, messages=(Message("user", "Is tea worse?"),)),
    ],
)
def test_seed_address_and_last_message_change_the_answer(other: ChatRequest) -> None:
    assert answer(other).text != answer(REQUEST).text


def test_what_comes_before_the_last_message_changes_nothing_but_usage() -> None:
    alone = replace(REQUEST, messages=REQUEST.messages[1:])
    assert answer(alone).text == answer(REQUEST).text


def test_samples_differ() -> None:
    samples = answers(replace(REQUEST, n=200))
    assert len({sample.text for sample in samples}) == 200


def test_usage_counts_words_and_the_prompt_once() -> None:
    first, second = answers(replace(REQUEST, n=2))
    assert first.usage == Usage(prompt=7, cached=0, generated=len(first.text.split()))
    assert second.usage == Usage(prompt=0, cached=0, generated=len(second.text.split()))


def test_an_answer_is_cut_at_max_tokens() -> None:
    whole = answer(REQUEST)
    cut = answer(replace(REQUEST, max_tokens=4))
    assert whole.finish_reason == "stop"
    assert cut.finish_reason == "length"
    assert cut.usage.generated == 4
    assert whole.text.startswith(cut.text)


def test_tags_that_are_asked_for_are_written_in_their_order() -> None:
    asked = "Think between <thinking> and </thinking>, then <argument> and </argument>. <other>"
    (one,) = answers(replace(REQUEST, messages=(Message("user", asked),)))
    assert re.fullmatch(r"<thinking>[^<>]+</thinking>\n<argument>[^<>]+</argument>", one.text), (
        one.text
    )


def test_answers_take_as_long_as_told() -> None:
    started = time.monotonic()
    answer(REQUEST, ScriptedModel(delay_s=0.05))
    assert time.monotonic() - started >= 0.05


@settings(deadline=None, max_examples=60)
@given(numbers)
def test_sentences_are_short_english(number: int) -> None:
    assert 7 <= len(sentence(number).split()) <= 14
    assert len(sentence(number)) <= 80
    assert sentences(number).startswith(sentence(number // 9))
    assert sentences(number)[0].isupper() and sentences(number).endswith(".")


@settings(deadline=None, max_examples=60)
@given(st.lists(short_text, min_size=1, max_size=12, unique=True), st.integers(0, 2**31 - 1))
def test_choices(choices: list[str], seed: int) -> None:
    request = replace(REQUEST, choices=tuple(choices), choice_probabilities=True, seed=seed)
    said = answer(request)
    probabilities = said.choice_probabilities
    assert probabilities is not None and list(probabilities) == choices
    assert sum(probabilities.values()) == pytest.approx(1)
    assert said.text == max(probabilities, key=lambda choice: probabilities[choice])
    assert answer(request) == said


def test_every_choice_is_said_about_equally_often() -> None:
    request = replace(REQUEST, choices=("a", "b", "c", "d"), n=400)
    said = [sample.text for sample in answers(request)]
    assert all(60 < said.count(choice) < 140 for choice in "abcd")
    assert all(sample.choice_probabilities is None for sample in answers(request))


@settings(deadline=None, max_examples=60)
@given(numbers)
def test_topics_are_valid_and_differ(number: int) -> None:
    value = instance(TOPICS, number)
    jsonschema.validate(value, TOPICS)
    assert isinstance(value, dict) and len(set(value["topics"])) == 5


strings = st.fixed_dictionaries({"type": st.just("string")}) | st.builds(
    lambda shortest, more: {"type": "string", "minLength": shortest, "maxLength": shortest + more},
    st.integers(0, 200),
    st.integers(0, 50),
)
plain = st.one_of(
    strings,
    st.fixed_dictionaries({"enum": st.lists(short_text, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"const": st.none() | st.integers() | short_text}),
    st.sampled_from([{"type": name} for name in ("boolean", "null", "integer", "number")]),
    st.fixed_dictionaries({"type": st.just("integer"), "minimum": st.integers(-9, 9)}),
    st.fixed_dictionaries({"type": st.just("number"), "maximum": st.integers(-9, 9)}),
)


def _object(properties: dict[str, Any], required: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(properties)} if required else schema


schemas = st.recursive(
    plain,
    lambda inner: (
        st.builds(_object, st.dictionaries(short_text, inner, max_size=3), st.booleans())
        | st.builds(
            lambda items, least: {"type": "array", "items": items, "minItems": least},
            inner,
            st.integers(0, 3),
        )
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(schemas, numbers)
def test_an_instance_is_valid(schema: dict[str, Any], number: int) -> None:
    value = instance(schema, number)
    jsonschema.validate(value, schema)
    assert instance(schema, number) == value


def test_json_answers_differ_between_samples() -> None:
    samples = answers(replace(REQUEST, json_schema=JUDGEMENT_SCHEMA, n=4))
    found = [json.loads(sample.text) for sample in samples]
    for value in found:
        jsonschema.validate(value, JUDGEMENT_SCHEMA)
    assert len({value["scene"] for value in found}) == 4


@pytest.mark.parametrize(
    "schema", [{"type": "string", "pattern": "a+"}, {"$ref": "#/x"}, {"anyOf": []}, {}]
)
def test_an_unknown_schema_is_an_error_not_a_guess(schema: dict[str, object]) -> None:
    with pytest.raises(ModelError, match="cannot make an instance"):
        answer(replace(REQUEST, json_schema=schema))


def test_a_reply_of_ones_own_is_returned_as_it_is() -> None:
    model = ScriptedModel(reply=lambda request: f"seed {request.seed},  n {request.n}")
    samples = answers(replace(REQUEST, n=2, seed=5, max_tokens=1), model)
    assert [sample.text for sample in samples] == ["seed 5,  n 1", "seed 6,  n 1"]


def _say(text: str, _: ChatRequest) -> str:
    return text


def test_a_reply_that_is_a_choice_is_the_likeliest() -> None:
    request = replace(REQUEST, choices=("0", "1", "2"), choice_probabilities=True)
    for choice in "012":
        said = answer(request, ScriptedModel(reply=partial(_say, choice)))
        probabilities = said.choice_probabilities
        assert probabilities is not None
        assert max(probabilities, key=lambda c: probabilities[c]) == said.text == choice
        assert sum(probabilities.values()) == pytest.approx(1)


def test_a_reply_that_is_no_choice_tells_no_probabilities() -> None:
    request = replace(REQUEST, choices=("0", "1"), choice_probabilities=True)
    said = answer(request, ScriptedModel(reply=lambda _: "perhaps"))
    assert said.text == "perhaps" and said.choice_probabilities is None
