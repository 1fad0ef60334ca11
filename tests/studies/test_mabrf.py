"""A whole study of MABRF in one process, with a corpus; replayed without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldf_ray.console import Progress
from rldf_ray.search.backend import SearchError, opened
from rldf_ray.storage.run_folder import RunFolderError
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from tests.protocols.mabrf.script import Script, verdict
from tests.studies.conftest import Played


def otherwise(place: str) -> str:
    if "judge" in place:
        return verdict(1 if place.endswith("2/judge") else 4)
    if place.endswith("queries"):
        return json.dumps({"queries": ["old people and phones"]})
    if place == "groups":
        return json.dumps({"groups": ["old"]})
    if place.endswith(("answer", "terminate")):
        return "1"
    return "1. A step."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.jsonl").write_text(
        '{"title": "Phones", "text": "Many old people use phones."}\n', encoding="utf-8"
    )
    rows = [
        {
            "id": f"q{n}",
            "question": "Who?",
            "context": "An old man.",
            "options": ["a", "b"],
            "label": 1,
        }
        for n in range(3)
    ]
    path = tmp_path / "own.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return tmp_path


def plan(folder: Path, search: str) -> list[str]:
    return [
        f"settings.data={folder / 'own.jsonl'}",
        "settings.kind=choices",
        f"settings.searches={{without: none, with: '{search}'}}",
        "models.model='scripted:0'",
    ]


def studied(folder: Path, out: Path, search: str) -> dict[str, object]:
    run_study("mabrf", load_study("mabrf", "smoke", plan(folder, search)), out, Progress())
    report: dict[str, object] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return report


def test_a_study_s_folder_and_its_replay_without_the_corpus(
    data: Path, played_by: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(data / "cache"))
    played_by(Script({}, otherwise))
    report = studied(data, data / "out", f"local:{data / 'texts'}")
    names = {table["name"] for table in report["tables"]}  # type: ignore[attr-defined]
    assert {"health", "categories", "beside", "changes", "search", "cost"} <= names
    assert {path.stem for path in (data / "out/figures").glob("*.svg")} == {"passes", "relevancy"}
    journal = data / "out/journal/calls.jsonl"
    searches = [
        json.loads(line)
        for line in journal.read_text(encoding="utf-8").splitlines()
        if '"search local' in line
    ]
    # One query, whatever the item and the pass.
    assert [one["query"] for one in searches] == ["old people and phones"]
    again = studied(data, data / "again", f"replay:{journal}")
    assert without_texts(again) == without_texts(report)
    assert again["searched"] != report["searched"]
    other = json.loads(journal.read_text(encoding="utf-8").splitlines()[0])
    assert other["address"]
    played_by(Script({"with/1/queries": json.dumps({"queries": ["another query"]})}, otherwise))
    with pytest.raises(SearchError, match="no search for"):
        opened_query(journal)


def opened_query(journal: Path) -> None:
    import asyncio

    asyncio.run(opened(f"replay:{journal}").search("another query", 4))


def without_texts(report: dict[str, object]) -> list[object]:
    tables = report["tables"]
    assert isinstance(tables, list)
    return [table for table in tables if table["name"] != "searched"]


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ("local:/nowhere", "settings.searches.with: /nowhere: no such file or folder"),
        ("google", "settings.searches.with: 'google' is no search; allowed: ddgs, local, none"),
        ("local:{}/own.pdf", r"settings.searches.with: .*own\.pdf: neither a corpus"),
        ("local:{}/bad", r"settings.searches.with: .*a\.jsonl, line 1: text: Field required"),
    ],
)
def test_a_search_that_is_none_is_refused_before_anything_is_asked_and_leaves_nothing(
    data: Path, played_by: Played, monkeypatch: pytest.MonkeyPatch, search: str, words: str
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(data / "cache"))
    (data / "own.pdf").write_bytes(b"%PDF")
    (data / "bad").mkdir()
    (data / "bad/a.jsonl").write_text("{}", encoding="utf-8")
    script = Script({}, otherwise)
    played_by(script)
    with pytest.raises(SearchError, match=words):
        studied(data, data / "out", search.format(data))
    assert not script.asked
    assert not [path for path in (data / "out").rglob("*") if path.name != ".lock"]
    # Mended, it goes on in the same folder.
    assert studied(data, data / "out", f"local:{data / 'texts'}")["items"] == 3


def test_the_report_names_what_was_searched_and_other_texts_are_refused(
    data: Path, played_by: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDF_CACHE", str(data / "cache"))
    played_by(Script({}, otherwise))
    where = f"local:{data / 'texts'}"
    digest = opened(where).digest
    report = studied(data, data / "out", where)
    assert report["searched"] == {"with": {"search": where, "digest": digest}}
    page = (data / "out/report.html").read_text(encoding="utf-8")
    assert "What was searched" in page and digest in page
    (data / "texts/a.jsonl").write_text('{"text": "Other words."}', encoding="utf-8")
    # Finished, it is what it was; cut off, it cannot go on with other texts.
    assert studied(data, data / "out", where)["searched"] == report["searched"]
    (data / "out/stages/hold.json").unlink()
    with pytest.raises(RunFolderError, match=rf"settings\.searches\.with have changed.*{digest}"):
        studied(data, data / "out", where)
