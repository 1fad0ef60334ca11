"""A whole study of MABRF in one process, with a corpus; replayed without it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldf_ray.cli import app
from rldf_ray.console import Progress
from rldf_ray.dataset.given_files import read_rows
from rldf_ray.dataset.imported import PairRow
from rldf_ray.errors import UserError
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.protocols.known import study_named
from rldf_ray.search.backend import SearchError, opened
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.studies.finished import write_training_rows
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from tests.protocols.mabrf.script import Script, verdict
from tests.studies.conftest import Played, Stored


def otherwise(place: str) -> str:
    if "judge" in place:
        return verdict(1 if place.endswith("2/judge") else 4)
    if place.endswith("queries"):
        return json.dumps({"queries": ["old people and phones"]})
    if place == "groups":
        return json.dumps({"groups": ["old"]})
    if place.endswith(("answer", "terminate")):
        return "1"
    return "1. A fairer step." if "rephrase" in place else "1. A step."


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


def test_training_rows_are_written_and_pairs_can_be_imported(data: Path, played_by: Played) -> None:
    played_by(Script({}, otherwise))
    studied(data, data / "out", "none")
    done = CliRunner().invoke(
        app, ["study", "rows", str(data / "out"), "--out", str(data / "rows"), "--json"]
    )
    assert json.loads(done.stdout) == {
        str(data / "rows/sft.jsonl"): 3,
        str(data / "rows/pairs.jsonl"): 3,
    }
    sft = [json.loads(line) for line in (data / "rows/sft.jsonl").open(encoding="utf-8")]
    assert [row["item_id"] for row in sft] == ["q0", "q1", "q2"]
    assert sft[0]["completion"][0]["content"] == "1. A fairer step.\n\nb"
    pairs = read_rows(data / "rows/pairs.jsonl", PairRow)
    assert [(pair.topic, len(pair.preference.prompt)) for pair in pairs] == [
        (f"q{n}", 1) for n in range(3)
    ]


def test_rows_of_a_study_in_a_store_are_those_of_its_folder(
    data: Path, played_by: Played, stored: Stored
) -> None:
    played_by(Script({}, otherwise))
    studied(data, data / "out", "none")
    there = write_training_rows(RunFolder.at(stored(data / "out")), data / "there")
    here = write_training_rows(RunFolder.at(data / "out"), data / "here")
    assert list(there.values()) == list(here.values()) == [3, 3]
    for one, other in zip(there, here, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_what_is_left_out_of_one_s_own_file_is_said_at_the_start_and_in_the_report(
    data: Path, played_by: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    played_by(Script({}, otherwise))
    given = [*plan(data, "none"), "settings.per_category=2"]
    run_study("mabrf", load_study("mabrf", "smoke", given), data / "out", Progress())
    assert "2 items (1 of the data left out)" in "".join(capsys.readouterr())
    report = json.loads((data / "out/report.json").read_text(encoding="utf-8"))
    reason = "the sample has enough (settings.per_category, settings.items)"
    assert report["facts"]["left_out"] == {reason: 1}
    assert f"Items of the data left out: 1 as {reason}." in report["notes"]
    (cost,) = [table for table in report["tables"] if table["name"] == "cost"]
    assert [row[0] for row in cost["rows"]] == ["without", "with", "shared by all arms"]


def test_rows_of_what_is_no_finished_study_are_refused(data: Path, played_by: Played) -> None:
    def refused(folder: Path) -> str:
        done = CliRunner().invoke(app, ["study", "rows", str(folder), "--out", str(data / "rows")])
        assert isinstance(done.exception, UserError), done.output
        assert not (data / "rows").exists()
        return str(done.exception)

    assert "holds no study; needed: a finished study of evince or judges or mab" in refused(data)
    played_by(Script({}, otherwise))
    studied(data, data / "out", "none")
    (data / "out/stages/hold.json").unlink()
    assert "the study has not ended; `rldf study mabrf " in refused(data / "out")
    (data / "out/plan.yaml").write_text("study: chess\n", encoding="utf-8")
    assert "holds a study of chess" in refused(data / "out")


def test_hard_items_by_a_study_s_judge_and_a_study_of_them(
    data: Path, played_by: Played, tmp_path: Path
) -> None:
    # Of four items one has no verdict, one is clean, and two are flagged.
    played_by(Judging({}, otherwise))
    overrides = [
        f"settings.data={SCENES}",
        "settings.categories=[Age]",
        "settings.loop.max_passes=0",
        "models.model='scripted:0'",
    ]
    run_study("mabrf", load_study("mabrf", "smoke", overrides), data / "ref", Progress())
    hard = data / "hard.jsonl"
    command = ["eval", "bbq-hard", str(data / "ref"), "--bbq", str(SCENES), "--out", str(hard)]
    done = CliRunner().invoke(app, [*command, "--hard-by", "judge"])
    assert "2 of 3 items are hard for scripted:0 by the judge scripted:0" in done.stdout
    assert "1 without a verdict are left out" in done.stdout
    rows = [json.loads(line) for line in hard.open(encoding="utf-8")]
    assert [(row["why"], row["bias"], row["prediction"]) for row in rows] == [(["judge"], 4, 1)] * 2
    of_them = load_study("mabrf", "smoke", [*overrides, f"settings.only={hard}"])
    items = study_named("mabrf").items(of_them.settings, of_them.plan.seed)
    assert {item.item_id for item in items} == {f"Age-{row['example_id']}" for row in rows}
    refused = CliRunner().invoke(
        app, ["eval", "bbq-hard", str(data), *command[3:], "--hard-by", "judge"]
    )
    assert "holds no study of MABRF; --hard-by judge reads one" in str(refused.exception)


class Judging(Script):
    """Judges four items in the order in which they come."""

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        (given,) = await super().complete(request)
        item, _, place = request.address.partition("/")
        if not place.startswith("first/judge"):
            return (given,)
        self.judged = getattr(self, "judged", [])
        if item not in self.judged:
            self.judged.append(item)
        text = ["no verdict", verdict(1), verdict(4), verdict(4)][self.judged.index(item)]
        return (replace(given, text=text),)
