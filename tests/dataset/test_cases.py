"""Odd files that people have given, as they lie beside the repository."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rldf_ray import cli
from rldf_ray.dataset.begin_run import Given, import_run
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.overlap import NOTHING_EVALUATED
from tests.fakes import plan_with

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="shared/cases is not beside the repository"
)
PLAN = plan_with()


def test_sides_that_are_whole_conversations_are_answers_to_their_prompt(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    import_run(PLAN, run, Given(pairs=CASES / "pairs_conversations.jsonl"), NOTHING_EVALUATED)
    rows = run.read_table("data/pairs.parquet").to_pylist()
    assert len(rows) == 8
    for row in rows:
        assert [message["role"] for message in row["prompt"]] == ["user"]
        assert len(row["chosen"]) == len(row["rejected"]) == 1
        assert row["chosen"] != row["rejected"]


ACCEPTED = {"conflicting", "duplicates", "esc", "good", "html"}
# All its statements are the same text, with another score each.
REPEATS = {"html": {"contradicting": 5}}
FILES = sorted((CASES / "import").iterdir()) if CASES.is_dir() else []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_taken_whole_or_refused_in_one_message(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    kind = "--pairs" if path.name.startswith("pairs_") else "--transcripts"
    words = ["rldf", "data", "import", str(run), "--plan", "smoke", kind, str(path)]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert "\033" not in said.out + said.err and "Traceback" not in said.err
    if path.stem in ACCEPTED:
        assert ended.value.code == 0 and (run / "plan.yaml").exists()
        assert ("say something else of the same text" in said.out) is (path.stem in REPEATS)
        manifest = RunFolder(run).manifest("topics") or {}
        assert manifest["imported_repeats"] == REPEATS.get(path.stem, {})
        return
    assert ended.value.code == 1 and list(tmp_path.iterdir()) == []
    assert said.err.startswith(f"error: {path}") and len(said.err) < 3000
    if path.suffix == ".jsonl":
        assert ": line " in said.err or "\n  line " in said.err


@pytest.mark.parametrize(
    ("name", "changed", "counted", "said"),
    [
        ("duplicates", "", {"duplicate": 8}, "8 rows repeat an earlier one, 0 say"),
        (
            "conflicting",
            '"label": "high", ',
            {"contradicting": 8},
            "0 rows repeat an earlier one, 8",
        ),
    ],
)
def test_rows_that_are_given_twice_are_counted_and_said(
    name: str,
    changed: str,
    counted: dict[str, int],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The rows of a case, and once more with something else said of them, or not."""
    rows = (
        (CASES / f"import/{name}.jsonl").read_text(encoding="utf-8").replace('"label"', '"debate"')
    )
    again = rows.replace('"text"', f'{changed}"text"')
    (tmp_path / "rows.jsonl").write_text(rows + again, encoding="utf-8")
    words = ["rldf", "data", "import", str(tmp_path / "run"), "--plan", "smoke"]
    monkeypatch.setattr(sys, "argv", [*words, "--transcripts", str(tmp_path / "rows.jsonl")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0 and said in capsys.readouterr().out
    manifest = RunFolder(tmp_path / "run").manifest("topics") or {}
    assert manifest["imported_repeats"] == counted
