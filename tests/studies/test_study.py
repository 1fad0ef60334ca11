"""A study on scripted engines: what its folder holds, and what a kill does to it: nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rldf_ray.storage.json_text import json_text
from tests.studies.pairs import plan_file

RLDF = str(Path(sys.executable).with_name("rldf"))

pytestmark = pytest.mark.slow


def study(plan: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [RLDF, "study", "judges", str(plan), "--out", str(out), *more]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)


def calls(out: Path) -> list[str]:
    path = out / "journal/calls.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line)["address"] for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    done = study(plan_file(folder, 24), folder / "out")
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def test_a_studys_folder_holds_data_tables_figures_and_a_report(whole: Path) -> None:
    out = whole / "out"
    assert pq.read_table(out / "data/items.parquet").num_rows == 24
    turns = pq.read_table(out / "data/turns.parquet").to_pylist()
    assert sorted(t["address"] for t in turns) == sorted(calls(out))
    outcomes = pq.read_table(out / "data/outcomes.parquet").to_pylist()
    # Six conditions: two openings, a debate of rounds 0 to 2, a pool in two modes.
    assert len(outcomes) == 24 * 6 * (2 + 3 + 2)
    for kind in ("md", "tex", "csv"):
        assert {p.stem for p in (out / "tables").glob(f"*.{kind}")} >= {"verdicts", "bias", "meta"}
    for stem in ("consistency-by-round", "selected-referees"):
        assert (out / f"figures/{stem}.png").exists() or stem == "selected-referees"
    report = json.loads((out / "report.json").read_text())
    assert report["study"] == "judges" and report["items"] == 24
    assert {"command", "commit", "versions", "machine"} <= set(report["made_by"])
    assert report["held"]["tokens"]["generated"] > 0
    page = (out / "report.html").read_text()
    assert (
        "24 items, written by" in page
        and "did not parse" in page
        and "<svg" in page
        and "http" not in page.split("<body>")[0]
    )


def test_a_finished_study_asks_nothing_again_and_its_own_plan_continues_it(whole: Path) -> None:
    out = whole / "out"
    before = (out / "journal/calls.jsonl").stat().st_mtime_ns
    done = study(out / "plan.yaml", out, "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["facts"]["cells"]
    assert "held before" in done.stderr
    assert (out / "journal/calls.jsonl").stat().st_mtime_ns == before


def test_another_plan_or_other_data_is_refused(whole: Path) -> None:
    out, plan = whole / "out", whole / "plan.yaml"
    other = study(plan, out, "--set", "settings.rounds=1")
    assert other.returncode == 1 and "differs in settings.rounds" in other.stderr
    pairs = whole / "pairs.jsonl"
    text = pairs.read_text()
    pairs.write_text(text.replace("It is 4.", "It is four."))
    changed = study(plan, out)
    pairs.write_text(text)
    assert changed.returncode == 1 and "begun on other items" in changed.stderr


def killed(
    name: str, plan: Path, whole: Path, out: Path, kills: int, after: int
) -> tuple[list[str], list[str]]:
    """Calls of a study undisturbed, and of one killed at random moments until it ended."""
    chance = random.Random(5)
    command = [RLDF, "study", name, str(plan), "--out", str(out)]
    for kill in range(kills):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        target = len(calls(out)) + chance.randint(1, after)
        while len(calls(out)) < target and process.poll() is None:
            time.sleep(0.02)
        assert process.poll() is None, f"ended before kill {kill}"
        # All of it: the driver, Ray and its actors, as when a machine goes down.
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return calls(whole), calls(out)


def same_tables(names: tuple[str, ...], one: Path, other: Path) -> None:
    for name in names:
        tables = [pq.read_table(folder / f"data/{name}.parquet") for folder in (one, other)]
        assert tables[0].equals(tables[1]), name


def test_killed_three_times_it_comes_to_the_same_and_asks_nothing_twice(
    whole: Path, tmp_path: Path
) -> None:
    every = len(calls(whole / "out"))
    undisturbed, made = killed(
        "judges", whole / "plan.yaml", whole / "out", tmp_path / "out", 3, every // 5
    )
    assert len(made) == len(set(made)) == len(undisturbed)
    same_tables(("items", "outcomes"), whole / "out", tmp_path / "out")


LABELS = """
models: {a: 'scripted:0.02', b: 'scripted:0.02', judge: 'scripted:0.02'}
in_flight: 4
settings: {data: examples, targets: [the mayor], distribution: token, arms: [main, schedule,
  swapped], stop: {max_rounds: 3}, baselines: [one_shot, self_consistency]}
"""
REWRITTEN = """
models: {model: 'scripted:0.02'}
in_flight: 4
settings: {kind: choices, data: DIR/items.jsonl, searches: {without: none, with: 'local:DIR/texts'}}
"""
PERSUADED = """
models: {debater: 'scripted:0.02', judge: 'scripted:0.02'}
in_flight: 4
settings: {data: DIR/items.jsonl, rounds: 2, debaters: {n2: {best_of: 2, critiques: 2}},
  interactive: [false, true], max_tokens: 64}
"""


def write_data(folder: Path) -> None:
    """Items that both studies of one's own questions read, and a folder of texts."""
    items = [
        {
            "question": f"Who of the two came {n}th?",
            "options": ["the old man", "the young man", "not known"],
            "label": n % 3,
            "correct": "the old man",
            "incorrect": "the young man",
            "story": f"Two men waited. The old man came {n}th, the young man after him.",
        }
        for n in range(8)
    ]
    lines = [json_text(item) for item in items]
    (folder / "items.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "texts").mkdir()
    (folder / "texts/a.txt").write_text("Old men and young men wait.\n\nSome came first.\n")


@pytest.mark.parametrize(
    ("study", "text", "tables"),
    [
        ("evince", LABELS, ("items", "outcomes", "rounds", "arguments")),
        ("mabrf", REWRITTEN, ("items", "outcomes", "passes")),
        ("persuasion", PERSUADED, ("items", "outcomes", "arguments", "candidates", "course")),
    ],
    ids=["labels", "rewriting", "persuasion"],
)
def test_a_study_killed_comes_to_the_same(
    tmp_path: Path, study: str, text: str, tables: tuple[str, ...]
) -> None:
    write_data(tmp_path)
    plan = tmp_path / "plan.yaml"
    plan.write_text(text.replace("DIR", str(tmp_path)), encoding="utf-8")
    command = [RLDF, "study", study, str(plan), "--out", str(tmp_path / "whole")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    every = len(calls(tmp_path / "whole"))
    undisturbed, made = killed(study, plan, tmp_path / "whole", tmp_path / "out", 2, every // 4)
    assert len(made) == len(set(made)) == len(undisturbed)
    same_tables(tables, tmp_path / "whole", tmp_path / "out")
