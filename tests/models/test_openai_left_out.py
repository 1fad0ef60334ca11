"""Fields that a server refuses by name are left out, once that is sure, and the run goes on."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.models import openai_retry
from rldf_ray.models.base import ChatRequest, Completion, Message, ModelError, PromptTooLongError
from rldf_ray.models.openai_http import OpenAIModel
from rldf_ray.plan import Endpoint
from tests.endpoint import Answer, Server, completion, ok, refusal, serving, with_top

REQUEST = ChatRequest(messages=(Message("user", "Hello?"),), max_tokens=8, seed=3)
SCORES = tuple(str(score) for score in range(11))
SCORED = replace(REQUEST, choices=SCORES, choice_probabilities=True)
SCHEMA: dict[str, object] = {"type": "object", "properties": {"topics": {"type": "array"}}}
LOGPROBS = "logprobs are not supported by this model"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(openai_retry, "FIRST_WAIT_S", 0.005)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


def ask(
    server: Server, *requests: ChatRequest, left_out: Path | None = None, **limits: Any
) -> list[tuple[Completion, ...]]:
    """The answers of one model, one request after another."""

    async def whole() -> list[tuple[Completion, ...]]:
        endpoint = Endpoint(**{"base_url": server.url, **limits})
        model = OpenAIModel("m", endpoint, left_out=left_out)
        try:
            return [await model.complete(request) for request in requests]
        finally:
            await model.close()

    return asyncio.run(whole())


def refusing(field: str, status: int, error: object) -> Callable[[dict[str, Any]], Answer]:
    return lambda body: Answer(status, error) if field in body else ok(body)


def sent(server: Server, field: str) -> list[bool]:
    return [field in request.body for request in server.received]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name.startswith("rldf_ray")]


@pytest.mark.parametrize(
    ("field", "status", "error"),
    [
        (
            "temperature",
            400,
            {
                "error": {
                    "message": "Unsupported value: 'temperature' does not support 0.7 here.",
                    "param": "temperature",
                    "code": "unsupported_value",
                }
            },
        ),
        ("top_p", 400, {"error": {"message": "Unknown parameter: 'top_p'.", "param": "top_p"}}),
        ("top_p", 400, {"error": "temperature and top_p cannot both be specified"}),
        ("n", 400, {"error": {"message": "Unknown parameter: 'n'."}}),
        # Google's, a list; Mistral's, pydantic's errors in the message or beside it
        ("seed", 400, [{"error": {"code": 400, "message": 'Unknown name "seed": no field.'}}]),
        (
            "seed",
            422,
            {
                "object": "error",
                "message": {
                    "detail": [{"loc": ["body", "seed"], "msg": "Extra inputs", "input": 3}]
                },
            },
        ),
        (
            "seed",
            422,
            {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs", "input": "top_p"}]},
        ),
        ("logprobs", 400, {"error": {"message": LOGPROBS}}),
        ("logprobs", 404, {"error": {"message": LOGPROBS}}),
        ("logprobs", 500, {"error": {"message": LOGPROBS}}),
        ("logprobs", 400, {"error": {"message": "no", "param": "top_logprobs"}}),
        ("structured_outputs", 400, [{"error": {"message": 'Unknown name "structured_outputs"'}}]),
        ("structured_outputs", 500, {"error": {"message": "guided decoding is not supported"}}),
    ],
)
def test_a_field_refused_by_name_is_left_out_and_said_once(
    server: Server, caplog: pytest.LogCaptureFixture, field: str, status: int, error: object
) -> None:
    server.otherwise = refusing(field, status, error)
    answers = ask(server, SCORED, SCORED, SCORED)
    assert [answer.text for (answer,) in answers] == ["answer 0"] * 3
    # Twice, as the first refusal may pass; then never again.
    assert sent(server, field) == [True, True, False, False, False]
    (line,) = said(caplog)
    assert f"does not take {field}" in line and f"status {status}" in line


def test_the_limit_goes_by_its_other_name_and_never_by_none(server: Server) -> None:
    refused = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server.otherwise = refusing("max_tokens", 400, {"error": {"message": refused}})
    ask(server, REQUEST, REQUEST)
    assert sent(server, "max_completion_tokens") == [False, False, True, True]

    server.otherwise = lambda body: refusal(400, f"no {'max_tokens, max_completion_tokens'}")
    with pytest.raises(ModelError, match="no max_tokens"):
        ask(server, REQUEST)
    assert all("max_tokens" in r.body or "max_completion_tokens" in r.body for r in server.received)


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_refused_schema_stands_in_the_prompt(server: Server, status: int) -> None:
    error = {"error": {"message": "This response_format type is unavailable now"}}
    fenced = completion('```json\n{"topics": []}\n```')
    server.otherwise = lambda body: Answer(status, error) if "response_format" in body else fenced
    ((answer,),) = ask(server, replace(REQUEST, json_schema=SCHEMA))
    assert answer.text == '{"topics": []}'
    (message,) = server.received[-1].body["messages"]
    assert message["content"].startswith("Hello?") and json.dumps(SCHEMA) in message["content"]
    assert len(server.received) == 3


def test_a_server_without_n_is_asked_for_samples_one_by_one(server: Server) -> None:
    error = {"error": {"message": "Unknown parameter", "param": "n"}}
    server.otherwise = refusing("n", 400, error)
    (samples,) = ask(server, replace(REQUEST, n=3))
    assert len(samples) == 3
    assert [r.body["seed"] for r in server.received] == [3, 3, 3, 4, 5]


def test_a_server_that_ignores_n_is_too(server: Server) -> None:
    server.otherwise = lambda body: completion("one")
    first, second = ask(server, replace(REQUEST, n=2), replace(REQUEST, n=2))
    assert len(first) == len(second) == 2
    assert sent(server, "n") == [True, False, False, False]


BARE: list[object] = [None, {}, {"error": {"message": "Bad request"}}, {"detail": "Error"}]


def bare(status: int, error: object, *fields: str) -> Callable[[dict[str, Any]], Answer]:
    return lambda body: (
        Answer(status, error) if any(name in body for name in fields) else completion("7")
    )


@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.parametrize("error", BARE)
@pytest.mark.parametrize("field", ["logprobs", "structured_outputs"])
def test_a_field_refused_without_its_name_is_left_out_and_said_once(
    server: Server, caplog: pytest.LogCaptureFixture, status: int, error: object, field: str
) -> None:
    server.otherwise = bare(status, error, field)
    answers = ask(server, SCORED, SCORED, SCORED)
    assert [answer.text for (answer,) in answers] == ["7"] * 3
    # Twice with it; without guided decoding, and if need be without log-probabilities; once more.
    assert sent(server, field).count(True) == (3 if field == "structured_outputs" else 4)
    assert len(server.received) <= 5 + 2
    other = "structured_outputs" if field == "logprobs" else "logprobs"
    assert all(sent(server, other)[-2:]) and not any(sent(server, field)[-2:])
    (line,) = said(caplog)
    assert f"does not take {field} (status {status}" in line


def test_two_fields_refused_without_their_names(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.otherwise = bare(400, {}, "logprobs", "structured_outputs")
    ask(server, SCORED, SCORED)
    assert len(server.received) == 2 + 2 + 1 + 1 + 1
    assert [name in line for name, line in zip(
        ("structured_outputs", "logprobs"), said(caplog), strict=True
    )] == [True, True]  # fmt: skip


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_schema_refused_without_its_name_stands_in_the_prompt(
    server: Server, status: int
) -> None:
    server.otherwise = bare(status, {}, "response_format")
    ((answer,),) = ask(server, replace(REQUEST, json_schema=SCHEMA))
    assert answer.text == "7"
    assert json.dumps(SCHEMA) in server.received[2].body["messages"][0]["content"]
    assert len(server.received) == 4


@pytest.mark.parametrize("refusals", [1, 2, 3, 4, 5])
def test_a_server_that_is_down_for_some_tries_keeps_its_fields(
    server: Server, refusals: int
) -> None:
    top = dict.fromkeys(SCORES, 1 / 11)
    server.otherwise = lambda body: with_top("7", top) if "logprobs" in body else completion("7")
    server.script = [refusal(500, "")] * refusals
    first, second = ask(server, SCORED, SCORED)
    assert first[0].choice_probabilities is not None and second[0].choice_probabilities is not None
    assert sent(server, "structured_outputs")[-1] and sent(server, "logprobs")[-1]


@pytest.mark.parametrize("status", [500, 501])
@pytest.mark.parametrize("text", ["Overloaded", LOGPROBS])
def test_a_server_that_says_when_to_come_back_is_left_alone_until_then(
    server: Server, status: int, text: str
) -> None:
    """Even where it may be the fields that it cannot answer with."""
    server.script = [refusal(status, text, **{"Retry-After": "0.3"})] * 2
    ask(server, SCORED, retries=2)
    assert len(server.received) == 3 and min(server.gaps_s) >= 0.3
    assert all(sent(server, "structured_outputs"))
    assert sent(server, "logprobs") == [True, True, text == "Overloaded"]


@pytest.mark.parametrize("text", ["Overloaded", LOGPROBS])
def test_a_server_that_says_to_come_back_much_later_is_not_asked_again(
    server: Server, text: str
) -> None:
    server.otherwise = lambda body: refusal(500, text, **{"Retry-After": "301"})
    with pytest.raises(ModelError, match="asks for a wait of 301 s"):
        ask(server, SCORED)
    assert len(server.received) == 1


def test_a_wait_that_a_refusal_for_good_names_is_none(server: Server) -> None:
    error = {"error": {"message": LOGPROBS}}
    server.otherwise = lambda body: (
        Answer(400, error, {"Retry-After": "600"}) if "logprobs" in body else ok(body)
    )
    ask(server, SCORED)
    assert sent(server, "logprobs") == [True, True, False]


def test_what_was_taken_before_is_not_suspected(server: Server) -> None:
    top = dict.fromkeys(SCORES, 1 / 11)
    server.otherwise = bare(500, {}, "logprobs")
    server.script = [with_top("7", top)]
    with pytest.raises(ModelError, match="in 3 tries"):
        ask(server, SCORED, SCORED, retries=2)
    assert all(sent(server, "logprobs"))


def test_a_request_without_such_fields_is_refused_at_once(server: Server) -> None:
    server.otherwise = lambda body: Answer(400, {})
    with pytest.raises(ModelError, match="status 400"):
        ask(server, REQUEST)
    assert len(server.received) == 1


@pytest.mark.parametrize("text", ["no such model: m", "The model `m` does not exist", "too long"])
def test_a_refusal_for_a_known_reason_is_final_at_once(server: Server, text: str) -> None:
    server.otherwise = lambda body: refusal(404, text)
    with pytest.raises(ModelError, match=text):
        ask(server, SCORED)
    assert len(server.received) == 1


@pytest.mark.parametrize("text", ["Bad request", LOGPROBS])
def test_a_refusal_that_passes_changes_nothing(server: Server, text: str) -> None:
    """One 400 among good answers, before or after them; that of no name is an error as ever."""
    top = dict.fromkeys(SCORES, 1 / 11)
    server.otherwise = lambda body: with_top("7", top) if "logprobs" in body else completion("7")
    server.script = [with_top("7", top), refusal(400, text)]
    if text == LOGPROBS:
        answers = ask(server, SCORED, SCORED, SCORED)
        assert all(answer.choice_probabilities is not None for (answer,) in answers)
    else:
        with pytest.raises(ModelError, match=text):
            ask(server, SCORED, SCORED)
    assert all(sent(server, "logprobs"))


def test_labels_of_two_kinds_are_said(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.script = [with_top("7", dict.fromkeys(SCORES, 1 / 11))]
    server.otherwise = refusing("logprobs", 400, {"error": {"message": LOGPROBS}})
    ask(server, SCORED, SCORED)
    assert "labels are of two kinds" in said(caplog)[0]


def test_a_prompt_that_is_too_long_is_no_refusal_of_its_limit(server: Server) -> None:
    server.otherwise = lambda body: refusal(400, "max_tokens is too large: context length is 10")
    with pytest.raises(PromptTooLongError, match="too large"):
        ask(server, REQUEST)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "said", "too_long"),
    [
        (400, "This model's maximum context length is 8192 tokens.", True),
        (413, "prompt is too long: 9000 tokens > 8000 maximum", True),
        (400, "the input exceeds the context window", True),
        (400, "unknown role", False),
        (404, "the path is too long", False),
    ],
)
def test_what_a_prompt_that_is_too_long_is_called(
    server: Server, status: int, said: str, too_long: bool
) -> None:
    server.otherwise = lambda body: refusal(status, said)
    with pytest.raises(ModelError) as raised:
        ask(server, REQUEST)
    assert isinstance(raised.value, PromptTooLongError) is too_long


def test_a_refusal_that_stays_without_the_field_leaves_nothing_out(server: Server) -> None:
    server.script = [refusal(400, "seed is odd")] * 2 + [refusal(400, "something else")]
    with pytest.raises(ModelError, match="something else"):
        ask(server, REQUEST)
    ask(server, REQUEST)
    assert sent(server, "seed") == [True, True, False, True]


def test_what_was_left_out_stays_so_in_later_starts(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal" / "left_out.json"
    server.otherwise = refusing("logprobs", 400, {"error": {"message": LOGPROBS}})
    ask(server, SCORED, left_out=path)
    server.otherwise = ok
    server.received.clear()
    caplog.clear()
    ask(server, SCORED, SCORED, left_out=path)
    assert sent(server, "logprobs") == [False, False]
    (line,) = said(caplog)
    assert "as in earlier starts" in line and str(path) in line
    assert next(iter(json.loads(path.read_text(encoding="utf-8")).values())).keys() == {"logprobs"}


def test_a_torn_file_of_fields_is_written_anew(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "left_out.json"
    path.write_text("{torn", encoding="utf-8")
    server.otherwise = refusing("seed", 400, {"error": {"message": "seed?"}})
    ask(server, REQUEST, left_out=path)
    assert len(json.loads(path.read_text(encoding="utf-8"))) == 1


@pytest.fixture(autouse=True)
def _warnings_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
