"""A question through the loop over HTTP: streamed pass by pass, within limits."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from rldf_ray.apps.serve import debias
from rldf_ray.apps.serve.launch import check_corpora
from rldf_ray.apps.serve.settings import read_settings
from rldf_ray.errors import UserError
from tests.serve.conftest import Start
from tests.serve.test_evince import found

ASKED = [
    {"role": "user", "content": "The old man and the young man waited."},
    {"role": "user", "content": "Who could not use the phone?"},
]
OPTIONS = ["The old man", "The young man", "Not known"]


def test_a_question_is_solved_rewritten_and_answered(start: Start) -> None:
    body = {"messages": ASKED, "options": OPTIONS, "max_passes": 2}
    events = found(start().client.post("/v1/debias", json=body).text)
    kinds = [kind for kind, _ in events]
    assert kinds[0] == "solved" and kinds[-2:] == ["answer", "done"]
    assert set(kinds[1:-2]) <= {"pass"} and len(kinds) <= 5
    first, last = events[0][1], dict(events)["answer"]
    assert first["answer"] in OPTIONS and last["answer"] in OPTIONS
    assert first["verdict"]["bias"] in range(1, 11)
    assert last["stop"] in ("clean at once", "clean", "max passes")
    assert last["changed"] == (first["answer"] != last["answer"])
    for kind, one in events:
        if kind == "pass":
            assert one["queries"] == [] and one["sources"] == []


def test_a_free_question_has_words_for_an_answer(start: Start) -> None:
    body = {"messages": ASKED[1:], "max_passes": 0}
    events = found(start().client.post("/v1/debias", json=body).text)
    assert [kind for kind, _ in events] == ["solved", "answer", "done"]
    assert events[1][1]["answer"]
    # Words that differ may say the same.
    assert events[1][1]["changed"] is None


def test_a_corpus_of_the_server_s_settings_is_searched(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.jsonl").write_text('{"title": "T", "text": "old people taken together"}\n')
    server = start(corpora={"texts": str(texts)})
    body = {"messages": ASKED, "options": OPTIONS, "corpus": "texts", "max_passes": 1}
    events = found(server.client.post("/v1/debias", json=body).text)
    passes = [one for kind, one in events if kind == "pass"]
    assert all(one["queries"] for one in passes)
    assert server.client.get("/v1/about").json()["corpora"] == ["texts"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"corpus": "/etc"}, "corpus: one of none are served"),
        ({"options": ["one"]}, "options: give two or more"),
        ({"max_passes": 99}, "max_passes: at most"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "the last one is the user's"),
        ({"messages": [{"role": "user", "content": " "}]}, "the question is empty"),
        ({"model": "none"}, "none"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    start: Start, changed: dict[str, Any], words: str
) -> None:
    reply = start().client.post("/v1/debias", json={"messages": ASKED, **changed})
    assert 400 <= reply.status_code < 500
    assert words in reply.text


def test_texts_that_cannot_be_searched_are_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    models = {"policy": {"folder": "p"}}
    settings = read_settings({"models": models, "corpora": {"mine": "texts"}})
    assert settings.corpora == {"mine": str(tmp_path / "texts")}
    with pytest.raises(UserError, match=r"corpora\.mine: .*holds none of \.jsonl"):
        check_corpora(settings)
    (tmp_path / "texts/a.txt").write_text("Some words.", encoding="utf-8")
    check_corpora(settings)


def test_a_corpus_that_is_gone_or_damaged_is_the_request_s_error_and_no_other_s(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    damaged = tmp_path / "my.corpus"
    damaged.write_bytes(b"SQLite format 3\0" + bytes(4096))
    server = start(corpora={"gone": str(tmp_path / "gone"), "damaged": str(damaged)})
    for name, words in (("gone", "no such file"), ("damaged", "is no corpus")):
        reply = server.client.post("/v1/debias", json={"messages": ASKED, "corpus": name})
        assert reply.status_code == 503
        error = reply.json()["error"]
        assert name in error["message"] and words not in error["message"]
        assert str(tmp_path) not in reply.text
    assert server.client.post("/v1/debias", json={"messages": ASKED}).status_code == 200


class Nothing:
    """A corpus in which nothing is found."""

    name, digest = "local", ""

    async def search(self, query: str, k: int) -> tuple[()]:
        return ()


async def test_the_server_answers_others_while_a_corpus_is_opened(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, opened = threading.Event(), threading.Event(), []

    def slowly(argument: str) -> Nothing:
        begun.set()
        assert go.wait(30), "nothing else made progress"
        opened.append(argument)
        return Nothing()

    monkeypatch.setattr(debias, "opened", slowly)
    transport = httpx.ASGITransport(start(corpora={"mine": "/mine"}).guard)
    body = {"messages": ASKED, "options": OPTIONS, "corpus": "mine", "max_passes": 1}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        asked = [asyncio.create_task(client.post("/v1/debias", json=body)) for _ in range(3)]
        while not begun.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        # A client that goes does not take what the others wait for with it.
        asked[0].cancel()
        assert (await client.get("/health")).status_code == 200
        assert not opened
        go.set()
        replies = await asyncio.gather(*asked[1:])
    assert all(found(reply.text)[-1][0] == "done" for reply in replies)
    assert opened == ["local:/mine"]


def test_a_corpus_that_could_not_be_opened_is_tried_again(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    client = start(corpora={"mine": str(tmp_path / "mine")}).client
    body = {"messages": ASKED, "options": OPTIONS, "corpus": "mine", "max_passes": 0}
    assert client.post("/v1/debias", json=body).status_code == 503
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.txt").write_text("Some words.", encoding="utf-8")
    assert client.post("/v1/debias", json=body).status_code == 200
