"""A question through the loop over HTTP: streamed pass by pass, within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    monkeypatch.setattr(debias, "CORPORA", {})
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
    monkeypatch.setattr(debias, "CORPORA", {})
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
