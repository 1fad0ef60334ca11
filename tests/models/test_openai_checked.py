"""Replies of status 200 that are not what they should be: checked before anything is kept."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.models import openai_retry
from rldf_ray.models.base import BudgetSpentError, ChatRequest, Completion, Message, ModelError
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.limits import Budget
from rldf_ray.models.openai_http import OpenAIModel
from rldf_ray.plan import Endpoint
from rldf_ray.storage.journal import Journal
from tests.endpoint import Answer, Server, completion, ok, serving

CASES = Path(__file__).parents[3] / "shared/cases/endpoint"
SCORES = tuple(str(score) for score in range(11))
REQUEST = ChatRequest(
    messages=(Message("user", "Hello?"),),
    max_tokens=8,
    choices=SCORES,
    choice_probabilities=True,
    logprobs=True,
    address="d/1",
)
PLAIN = replace(REQUEST, choices=None, choice_probabilities=False, logprobs=False)
TEXT = "People differ."
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(openai_retry, "FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(openai_retry, "LONGEST_WAIT_S", 0.002)
    # Reading all certificates takes longer than most tests here, and none of them uses TLS.
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: NO_CERTIFICATES)
    caplog.set_level(logging.WARNING)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


def ask(
    server: Server,
    *requests: ChatRequest,
    journal: Path | None = None,
    budget: Budget | None = None,
) -> list[Completion]:
    """The first samples of one model's answers; with `journal`, as a run has them."""

    async def whole() -> list[Completion]:
        remote = OpenAIModel("m", Endpoint(base_url=server.url, retries=2), budget)
        calls = None if journal is None else Journal(journal)
        model = remote if calls is None else JournaledModel(remote, calls)
        try:
            return [(await model.complete(request))[0] for request in requests]
        finally:
            await remote.close()
            if calls is not None:
                calls.close()

    return asyncio.run(whole())


def answer(content: Any = TEXT, **choice: Any) -> Answer:
    made = completion("")
    made.body["choices"][0] |= {"message": {"role": "assistant", "content": content}, **choice}
    return made


def with_body(**changes: Any) -> Answer:
    made = answer()
    made.body.update(changes)
    return made


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name.startswith("rldf_ray")]


# --- what holds no answer


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (answer(7), "choices[0].message.content is 7"),
        (answer(True), "choices[0].message.content is True"),
        (answer({"text": "a"}), "choices[0].message.content is {'text': 'a'}"),
        (answer([7]), "choices[0].message.content is [7]"),
        (answer([{"type": "text", "text": 7}]), "choices[0].message.content is [{"),
        (answer("I like \ud83d it"), r"choices[0].message.content is 'I like \ud83d it'"),
        (answer([{"type": "text", "text": "\udc00"}]), "half a character"),
        (with_body(choices=[]), "choices is []"),
        (with_body(choices=None), "choices is None"),
        (with_body(choices=["a"]), "choices[0] is 'a'"),
        (with_body(choices=[{"text": "old api"}]), "choices[0].message is missing"),
        (with_body(choices=[{"message": None}]), "choices[0].message is None"),
        (answer([KEY]), "is ['[key]']"),
    ],
)
def test_a_malformed_reply_is_tried_again_and_then_named_by_its_field(
    server: Server, tmp_path: Path, wrong: Answer, named: str
) -> None:
    path = tmp_path / "calls.jsonl"
    server.otherwise = lambda body: wrong
    with pytest.raises(ModelError) as raised:
        ask(server, PLAIN, journal=path)
    text = str(raised.value)
    assert named in text and server.url in text and "in 3 tries" in text
    assert KEY not in text and text.isprintable() and text.encode("utf-8")
    assert path.read_bytes() == b""

    server.received.clear()
    server.otherwise = ok
    server.script = [wrong, wrong]
    assert ask(server, PLAIN, journal=path)[0].text == "answer 0"
    assert len(server.received) == 3


def test_a_malformed_reply_is_paid_for(server: Server) -> None:
    budget = Budget(tokens=1000)
    server.script = [answer(7), replace(answer(7), body={"choices": []})]
    ask(server, PLAIN, budget=budget)
    assert (budget.spent.prompt, budget.spent.generated) == (7 + 2 + 7, 5 + 0 + 5)


# --- what an answer can do without


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": TEXT}],
        [{"type": "text", "text": "People "}, {"type": "text", "text": "differ."}],
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"text": TEXT}],
    ],
)
def test_text_in_parts_is_joined(server: Server, content: Any) -> None:
    server.script = [answer(content)]
    assert ask(server, PLAIN)[0].text == TEXT


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": "7", "completion_tokens": "5"}, (7, 5, 0)),
        ({"prompt_tokens": 2**70, "completion_tokens": 5}, (2, 5, 2)),
        ({"prompt_tokens": -1, "completion_tokens": float("nan")}, (2, 4, 6)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (2, 4, 6)),
        ({"prompt_tokens": [7], "completion_tokens": {}}, (2, 4, 6)),
        ([7, 5], (2, 4, 6)),
        ("12", (2, 4, 6)),
        (None, (2, 4, 6)),
    ],
)
def test_unusable_figures_are_counted_by_characters(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, usage: Any,
    expected: tuple[int, int, int],
) -> None:  # fmt: skip
    path = tmp_path / "calls.jsonl"
    server.otherwise = lambda body: with_body(usage=usage)
    first, _ = ask(server, PLAIN, replace(PLAIN, address="d/2"), journal=path)
    used = first.usage
    assert (used.prompt, used.generated, used.by_characters) == expected
    assert sum("counted by the characters" in line for line in said(caplog)) == (expected[2] > 0)
    assert ask(server, PLAIN, journal=path)[0] == first
    assert len(server.received) == 2


@pytest.mark.parametrize("cached", [None, "a", -1, 2**70, [1]])
def test_unusable_cached_tokens_are_none(server: Server, cached: Any) -> None:
    details = {"cached_tokens": cached}
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": details}
    server.script = [with_body(usage=usage)]
    used = ask(server, PLAIN)[0].usage
    assert (used.prompt, used.generated) == (7, 5) and 0 <= used.cached <= 7


@pytest.mark.parametrize("fingerprint", [["a"], 7, {}, "", "\ud83d", "x" * 1000, None])
def test_an_unusable_fingerprint_is_none(server: Server, fingerprint: Any) -> None:
    server.script = [with_body(system_fingerprint=fingerprint)]
    assert ask(server, PLAIN)[0].revision == "tiny-chat-0101"
    server.script = [with_body(system_fingerprint=fingerprint, model=fingerprint)]
    assert ask(server, PLAIN)[0].revision == "m"


@pytest.mark.parametrize(
    "logprob", [float("nan"), float("inf"), float("-inf"), "-0.1", None, True, 1000.0, [1]]
)
@pytest.mark.parametrize("top", [True, False])
def test_unusable_log_probabilities_are_none(
    server: Server, tmp_path: Path, logprob: Any, top: bool
) -> None:
    path = tmp_path / "calls.jsonl"
    position = {"token": "7", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    wrong = {"token": "7", "logprob": logprob, "bytes": None}
    position |= {"top_logprobs": [wrong]} if top else wrong
    server.otherwise = lambda body: answer("7", logprobs={"content": [position]})
    (first,) = ask(server, REQUEST, journal=path)
    assert first.text == "7"
    assert first.logprobs is None and first.choice_probabilities is None
    assert ask(server, REQUEST, journal=path) == [first]
    assert len(server.received) == 1


@pytest.mark.parametrize("logprobs", [7, [], "a", {"content": 7}, {"content": [1, 2]}, {}])
def test_log_probabilities_of_another_form_are_none(server: Server, logprobs: Any) -> None:
    server.script = [answer("7", logprobs=logprobs)]
    (first,) = ask(server, REQUEST)
    assert first.text == "7" and first.logprobs is None and first.choice_probabilities is None


@pytest.mark.parametrize("reason", [7, [], {}, "\ud83d"])
def test_an_unusable_reason_to_end_is_no_end(server: Server, reason: Any) -> None:
    server.script = [answer(finish_reason=reason)]
    assert ask(server, PLAIN)[0].finish_reason == "length"


# --- errors in replies of status 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "Provider returned error", "code": 502}}, 502),
        ({"error": {"message": "Provider returned error", "code": "503"}}, 503),
        ({"error": {"message": "slow down", "type": "rate_limit_exceeded"}}, 429),
        ({"error": {"message": "later", "type": "overloaded_error"}}, 503),
        ({"error": "Provider returned error"}, 500),
        ({"error": {"message": "later"}, "choices": []}, 500),
        ({"object": "error", "message": "later", "code": 500}, 500),
        ({"choices": [{"error": {"code": 502, "message": "later"}, "message": {}}]}, 502),
        ({"choices": [{"finish_reason": "error", "message": {"content": "He"}}]}, 500),
    ],
)
def test_an_error_in_a_reply_is_tried_again_as_what_it_names(
    server: Server, body: Any, status: int
) -> None:
    server.script = [Answer(body=body)]
    assert ask(server, PLAIN)[0].text == "answer 0"
    assert len(server.received) == 2
    server.otherwise = lambda _: Answer(body=body)
    with pytest.raises(ModelError, match=f"in 3 tries.*status {status}"):
        ask(server, PLAIN)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ({"message": "no", "code": 401}, "OPENAI_API_KEY"),
        ({"message": "no", "type": "invalid_request_error"}, "the request itself"),
        ({"message": "no such model", "type": "not_found_error"}, "check the model's name"),
    ],
)
def test_a_final_error_in_a_reply_is_final(server: Server, error: Any, advice: str) -> None:
    server.otherwise = lambda body: Answer(body={"error": error})
    with pytest.raises(ModelError, match=advice):
        ask(server, PLAIN)
    assert len(server.received) == 1


def test_a_filter_that_answers_with_200_refuses_one_item(server: Server) -> None:
    error = {"message": "flagged", "code": "content_filter"}
    server.script = [Answer(body={"error": error})]
    first, second = ask(server, PLAIN, PLAIN)
    assert first.refusal is not None and "flagged" in first.refusal
    assert second.refusal is None


@pytest.mark.parametrize("content", [None, "", " ", "<think>He may be</think>"])
def test_an_answer_that_the_filter_took_is_that_items_refusal(
    server: Server, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    server.otherwise = lambda body: answer(content, finish_reason="content_filter")
    first, second = ask(server, PLAIN, PLAIN)
    assert first.refusal == second.refusal and "content filter" in str(first.refusal)
    (line,) = said(caplog)
    assert "the run goes on" in line


@pytest.mark.parametrize(
    "thought",
    ["He may be.", [{"type": "text", "text": "He may"}, {"type": "text", "text": " be."}]],
)
def test_a_thought_among_the_parts_of_the_content_is_kept_apart(
    server: Server, thought: object
) -> None:
    parts = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": "It is open."}]
    server.script = [answer(parts)]
    (first,) = ask(server, PLAIN)
    assert (first.text, first.thinking) == ("It is open.", "He may be.")


def test_what_the_filter_leaves_of_an_answer_is_cut_off(server: Server) -> None:
    server.script = [answer("He is", finish_reason="content_filter")]
    (first,) = ask(server, PLAIN)
    assert (first.text, first.finish_reason, first.refusal) == ("He is", "length", None)


def test_reasons_with_half_a_character_can_be_printed(server: Server) -> None:
    server.otherwise = lambda body: Answer(400, {"error": {"message": "no \ud83d"}})
    with pytest.raises(ModelError) as raised:
        ask(server, PLAIN)
    assert rb"no \ud83d" in str(raised.value).encode("utf-8")


# --- budgets without figures


def test_a_budget_ends_without_figures_too(server: Server) -> None:
    server.otherwise = lambda body: with_body(usage=None)
    requests = [replace(PLAIN, address=f"d/{i}") for i in range(100)]
    with pytest.raises(BudgetSpentError, match="60 tokens are spent"):
        ask(server, *requests, budget=Budget(tokens=68))
    assert len(server.received) == 10


def test_bytes_count_where_a_character_is_a_token(server: Server) -> None:
    server.script = [answer("人各不同。")]
    server.script[0].body["usage"] = None
    assert ask(server, PLAIN)[0].usage.generated == 4


# --- the cases at hand


def _cases(name: str) -> list[Any]:
    path = CASES / name
    if not path.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"{path} is not there"))]
    lines = path.read_text(encoding="utf-8").splitlines()
    return [pytest.param(case, id=case["case"]) for case in map(json.loads, filter(None, lines))]


NO_ANSWER = ("content int", "lone surrogate", "error in a 200", "no choices")


@pytest.mark.parametrize("case", _cases("replies.jsonl"))
@pytest.mark.parametrize("request_", [PLAIN, REQUEST], ids=["plain", "scored"])
def test_every_odd_reply(
    server: Server, tmp_path: Path, case: dict[str, Any], request_: ChatRequest
) -> None:
    path = tmp_path / "calls.jsonl"
    server.otherwise = lambda body: Answer(body=case["body"])
    if case["case"] in NO_ANSWER:
        with pytest.raises(ModelError, match=re.escape(server.url)):
            ask(server, request_, journal=path)
        assert path.read_bytes() == b""
        server.otherwise = ok
        assert ask(server, request_, journal=path)[0].text == "answer 0"
        return
    first = ask(server, request_, journal=path)
    assert first[0].choice_probabilities is None and first[0].logprobs is None
    received = len(server.received)
    assert ask(server, request_, journal=path) == first
    assert len(server.received) == received


WHEN: dict[str, Callable[[dict[str, Any]], bool]] = {
    "temperature other than 1": lambda body: body.get("temperature", 1) != 1,
    "top_p present": lambda body: "top_p" in body,
    "seed present": lambda body: "seed" in body,
    "logprobs true": lambda body: body.get("logprobs") is True,
    "one prompt in four": lambda body: body["messages"][0]["content"] == "3",
}


@pytest.mark.parametrize("case", _cases("refusals.jsonl"))
def test_every_refusal(server: Server, case: dict[str, Any]) -> None:
    refused = Answer(case["status"], case["body"], case.get("headers", {}))
    when = WHEN.get(case.get("when", ""), lambda body: True)
    server.otherwise = lambda body: refused if when(body) else ok(body)
    requests = [
        replace(REQUEST, temperature=0.0, messages=(Message("user", str(i)),)) for i in range(4)
    ]
    if case["case"] == "redirect":
        with pytest.raises(ModelError, match="where none is sent"):
            ask(server, *requests)
        return
    answers = ask(server, *requests)
    refusals = [answer.refusal is not None for answer in answers]
    assert refusals == [False, False, False, case["case"] == "content filter"]
    assert len(server.received) <= 4 + 2
