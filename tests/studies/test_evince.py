"""A whole study of EVINCE in one process: its folder, decisions, replays, training rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rldf_ray.cli import app
from rldf_ray.console import Progress
from rldf_ray.errors import UserError
from rldf_ray.models.base import ChatRequest
from rldf_ray.storage.run_folder import RunFolderError
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from tests.protocols.evince.script import Script, percent, turn
from tests.studies.conftest import Played, Stored

TEXT = "The mayor opened the bridge on Monday. Critics call the bill a scandal, and it was late."
PLAN = """
name: tried
models: {a: "scripted:0", b: "scripted:0", judge: "scripted:0"}
settings:
  data: "%s"
  targets: [the mayor]
  arms: [main, untold, schedule, swapped, same_stance, held_high, held_low, duality]
  baselines: [one_shot, mean_of_two, self_consistency]
  stop: {max_rounds: 3}
"""
SCRIPT = Script(
    {
        **{
            f"A{n}": turn(60, 20, 20, 0, 0, label="negative", quote="no such words") for n in (1, 2)
        },
        **{f"B{n}": turn(0, 10, 80, 10, 0, claim=f"claim {n}") for n in (1, 2, 3)},
        "A3": turn(0, 10, 80, 10, 0),
        "one shot": {"reason": "r", "distribution": percent(0, 0, 100, 0, 0)},
    }
)


def texts(folder: Path) -> Path:
    path = folder / "texts.jsonl"
    rows = [
        {"id": f"t{n}", "text": f"{n}. {TEXT}", "given": {"ann": "negative", "ben": "neutral"}}
        for n in range(4)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def out(tmp_path: Path, played_by: Played) -> Path:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN % texts(tmp_path), encoding="utf-8")
    played_by(SCRIPT)
    run_study("evince", load_study("evince", str(plan)), tmp_path / "out", Progress())
    return tmp_path / "out"


def rldf(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_study_s_folder(out: Path) -> None:
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert report["notes"][0].startswith("4 dialogues: 0 failed, 4 are for a person to look at")
    assert {table["name"] for table in report["tables"]} == {
        "dialogues",
        "agreement",
        "differences",
        "labels-1",
        "rounds",
        "information",
        "positions",
        "justifications",
        "duality",
    }
    for table in report["tables"]:
        assert all(len(row) == len(table["columns"]) for row in table["rows"]), table["name"]
    assert {path.stem for path in (out / "figures").glob("*.svg")} == {
        "triangle",
        "raters",
        "course",
    }
    arguments = pq.read_table(out / "data/arguments.parquet").to_pylist()
    assert {row["arm"] for row in arguments} == set(report["settings"]["arms"])
    for name in ("review.csv", "review.html", "remediation.html", "remediation.json"):
        assert (out / name).stat().st_size > 0
    assert pq.read_table(out / "data/remediation.parquet").num_rows == 4
    for page in ("report.html", "remediation.html"):
        text = (out / page).read_text(encoding="utf-8")
        for before in text.split("correct")[:-1]:
            assert "no" in before[-45:].lower(), before[-80:]


def test_the_labels_of_the_form_of_table_1(out: Path) -> None:
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    table = next(t for t in report["tables"] if t["name"] == "labels-1")
    *rows, total, ann, ben = table["rows"]
    assert table["columns"][-2] == "DR, DS, SR"
    for row in rows:
        assert row[2:7] == ["D", "", "R S g", "", ""]
        assert row[-2] == "2, 2, 0"
    assert total[-2] == "8, 8, 0"
    # Neither rater of a pair ever changes: kappa is 0 where they differ, and none where not.
    assert ann[:2] == ["S and D", "n = 4"]
    assert ann[-2] == "2.000 apart; kappa 0.000"
    assert ben[0] == "S and R"
    assert ben[-2] == "0.000 apart; kappa –"


def test_decisions_come_in_without_a_call_and_twice_is_once(out: Path) -> None:
    asked = len(SCRIPT.asked)
    rows = list(csv.DictReader((out / "review.csv").read_text(encoding="utf-8-sig").splitlines()))
    path = out.parent / "filled.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerow({**rows[0], "decision": "keep", "person": "eve"})
        writer.writerow({**rows[1], "reject": "B3.1"})
    shown = rldf("evince", "decide", out, path)
    assert "keep" in shown and "without B3.1" in shown
    files = ("data/decisions.parquet", "remediation.html", "remediation.json", "review.csv")
    before = {name: (out / name).read_bytes() for name in files}
    rldf("evince", "decide", out, path)
    assert {name: (out / name).read_bytes() for name in files} == before
    assert len(SCRIPT.asked) == asked
    # The report made again keeps them.
    run_study("evince", load_study("evince", str(out / "plan.yaml")), out, Progress())
    assert (out / "remediation.html").read_bytes() == before["remediation.html"]
    decided = pq.read_table(out / "data/decisions.parquet").to_pylist()
    assert [(row["item_id"], row["final"]) for row in decided] == [
        ("t0", ["negative", "neutral"]),
        ("t1", ["neutral"]),
    ]


def test_a_sheet_that_somebody_fills_in_is_never_written_over(out: Path) -> None:
    path = out / "review.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    rows[2] |= {"decision": "keep", "person": "eve"}

    def write() -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    write()
    half = path.read_bytes()
    run_study("evince", load_study("evince", str(out / "plan.yaml")), out, Progress())
    assert path.read_bytes() == half
    rldf("evince", "decide", out, path)
    # Taken in, it is written anew, with what was decided in it.
    assert path.read_bytes().startswith("\ufeffitem_id,".encode())
    again = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    assert (again[2]["decision"], again[2]["person"]) == ("keep", "eve")


def test_a_wrong_sheet_changes_nothing(out: Path) -> None:
    path = out.parent / "wrong.csv"
    text = (out / "review.csv").read_text(encoding="utf-8-sig")
    path.write_text(text.replace("t0", "t9", 1), encoding="utf-8")
    done = CliRunner().invoke(app, ["evince", "decide", str(out), str(path)])
    assert done.exit_code == 1
    assert not (out / "data/decisions.parquet").exists()


def test_a_replay_stops_and_steers_on_paper(out: Path) -> None:
    asked = len(SCRIPT.asked)
    rows = json.loads(rldf("evince", "replay", out, "--json"))
    assert all(row["status_again"] == row["status"] for row in rows if row["arm"] == "main")
    looser = json.loads(
        rldf("evince", "replay", out, "--json", "--set", "settings.stop.max_rounds=2")
    )
    assert {row["rounds_again"] for row in looser} == {2}
    other = json.loads(
        rldf("evince", "replay", out, "--json", "--set", "settings.steering.controller=decay")
    )
    assert other[0]["levels"] == pytest.approx([0.9, 0.75, 0.3])
    assert "32 agreed -> agreed" in rldf("evince", "replay", out)
    schedule = next(row for row in rows if row["arm"] == "schedule")
    assert schedule["levels"] == [0.9, 0.7, 0.3]
    assert len(SCRIPT.asked) == asked


def test_a_replay_says_how_many_dialogues_it_leaves_out(tmp_path: Path, played_by: Played) -> None:
    class Failing(Script):
        def _text(self, request: ChatRequest) -> str:
            failing = request.address.startswith(("t2/main/A1", "t3/main/B2"))
            return "no turn" if failing else super()._text(request)

    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    plan.write_text(
        f"""
models: {{a: "scripted:0", b: "scripted:0", judge: "scripted:0"}}
settings: {{data: "{texts(tmp_path)}", targets: [the mayor], baselines: []}}
""",
        encoding="utf-8",
    )
    played_by(Failing(SCRIPT.turns))
    run_study("evince", load_study("evince", str(plan)), out, Progress())
    shown = rldf("evince", "replay", out)
    assert "2 agreed -> agreed" in shown
    assert "not replayed, as they failed: 2" in shown


def test_training_rows(out: Path) -> None:
    rows = list(csv.DictReader((out / "review.csv").read_text(encoding="utf-8-sig").splitlines()))
    path = out.parent / "filled.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row, decision in zip(rows, ("change", "withdraw", "show both"), strict=False):
            writer.writerow({**row, "decision": decision})
    rldf("evince", "decide", out, path)
    made = out.parent / "training"
    rldf("study", "rows", out, "--out", made)
    sft = [json.loads(line) for line in (made / "sft.jsonl").read_text("utf-8").splitlines()]
    # Only what a person has settled on one label: all four are for a person.
    assert [row["item_id"] for row in sft] == ["t0"]
    assert sft[0]["completion"][0]["content"].startswith("neutral. It reports an opening")
    assert "[Text]" in sft[0]["prompt"][0]["content"]
    pairs = [json.loads(line) for line in (made / "pairs.jsonl").read_text("utf-8").splitlines()]
    # A's misquoted argument, made twice, against the four that hold, in each of four texts.
    assert len(pairs) == 4 * 4
    assert "no such words" in pairs[0]["rejected"][0]["content"]


def test_a_study_in_a_store_is_read_as_its_folder_is(out: Path, stored: Stored) -> None:
    rldf("evince", "decide", out, keeping(out))
    address = stored(out)
    there = json.loads(rldf("evince", "replay", address, "--json"))
    assert there == json.loads(rldf("evince", "replay", out, "--json"))
    for study, name in ((out, "here"), (address, "there")):
        rldf("study", "rows", study, "--out", out.parent / name)
    for file in ("sft.jsonl", "pairs.jsonl"):
        here, there = ((out.parent / name / file).read_bytes() for name in ("here", "there"))
        assert here == there


def test_a_folder_that_holds_no_study_is_not_made(out: Path, tmp_path: Path) -> None:
    typo = tmp_path / "typo"
    done = CliRunner().invoke(app, ["evince", "decide", str(typo), str(out / "review.csv")])
    assert "holds no study; needed: a finished study of evince" in str(done.exception)
    assert not typo.exists()


def keeping(out: Path) -> Path:
    """The study's sheet, with a decision on its first text."""
    rows = list(csv.DictReader((out / "review.csv").read_text(encoding="utf-8-sig").splitlines()))
    path = out.parent / "kept.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows([{**rows[0], "decision": "change"}, *rows[1:]])
    return path


SCALE = """
title: How harsh
question: Is {target} treated harshly?
labels:
  - {name: negative, meaning: "harsh"}
  - {name: weakly negative, meaning: "somewhat harsh"}
  - {name: neutral, meaning: "%s"}
  - {name: weakly positive, meaning: "somewhat kind"}
  - {name: positive, meaning: "kind"}
"""


def test_a_scale_of_one_s_own_is_part_of_the_study(tmp_path: Path, played_by: Played) -> None:
    scale, plan = tmp_path / "harsh.yaml", tmp_path / "plan.yaml"
    scale.write_text(SCALE % "neither", encoding="utf-8")
    plan.write_text(PLAN % texts(tmp_path) + f'  scale: "{scale}"\n', encoding="utf-8")
    played_by(SCRIPT)
    out = tmp_path / "out"
    run_study("evince", load_study("evince", str(plan)), out, Progress())
    scale.write_text(SCALE % "it reports", encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"differs in settings\.scale\.labels"):
        run_study("evince", load_study("evince", str(plan)), out, Progress())
    # Whatever becomes of the file, the study is read and continued with the scale it was held with.
    for text in (SCALE.replace("neutral", "even") % "it reports", None):
        scale.unlink() if text is None else scale.write_text(text, encoding="utf-8")
        run_study("evince", load_study("evince", str(out / "plan.yaml")), out, Progress())
        rldf("evince", "decide", out, out / "review.csv")
        assert "32 agreed -> agreed" in rldf("evince", "replay", out)
        rldf("study", "rows", out, "--out", tmp_path / "training")
        pairs = (tmp_path / "training/pairs.jsonl").read_text(encoding="utf-8")
        assert "neutral: neither" in json.loads(pairs.splitlines()[0])["prompt"][0]["content"]
    # The file that is named in the plan is gone.
    with pytest.raises(UserError, match=r"settings\.scale='.*harsh\.yaml': no such scale"):
        load_study("evince", str(plan))


def test_a_study_of_groups_is_read_back_with_their_votes(tmp_path: Path, played_by: Played) -> None:
    votes = [("One.", "Biased", -5)] * 3 + [("One.", "Non-biased", 5)] * 2 + [("One.", "Biased", 4)]
    data, plan = tmp_path / "mbic.csv", tmp_path / "plan.yaml"
    lines = "".join(f"{text},{label},{place}\n" for text, label, place in votes)
    data.write_text(f"text,label_bias,political_ideology\n{lines}", encoding="utf-8")
    plan.write_text(
        f"""
models: {{a: "scripted:0", b: "scripted:0", judge: "scripted:0"}}
settings: {{data: "{data}", reader: mbic, scale: biased, baselines: [], stop: {{max_rounds: 1}}}}
""",
        encoding="utf-8",
    )
    said = turn(0, 0, 0, 0, 0, label="biased", quote="One.")
    said["distributions"] = {"the text": {"biased": 70, "not biased": 30}}
    played_by(Script({"A1": said, "B1": said}))
    out = tmp_path / "out"
    run_study("evince", load_study("evince", str(plan)), out, Progress())
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    (table,) = [t for t in report["tables"] if t["name"] == "labels-1"]
    assert table["rows"][0][2:5] == ["R 2/3", "D 3/3 S", "0.6667, 0.3, 0.3667"]
    before = (out / "remediation.json").read_bytes()
    rldf("evince", "decide", out, out / "review.csv")
    assert (out / "remediation.json").read_bytes() == before
