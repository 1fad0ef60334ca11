"""`rldf eval human`: from answers to sheets and back."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.commands.conftest import Rldf
from tests.fakes import rated as fill


@pytest.fixture
def answers(tmp_path: Path) -> str:
    rows = [
        {
            "method": method,
            "prompt_id": f"p{i}",
            "bias_type": "age",
            "prompt": f"Question {i}?",
            "answer": f"{method[0]} says {i}",
        }
        for method in ("Default", "RLDF", "SFT")
        for i in range(3)
    ]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    return "a.jsonl"


def test_answers_go_out_blind_and_come_back_with_their_methods(
    rldf: Rldf, answers: str, tmp_path: Path
) -> None:
    words = ["eval", "human", "export", answers, "--out", "people"]
    status, out, err = rldf(*words, "--methods", "Default,RLDF", "--prompts", "2")
    assert status == 0 and "4 answers" in out and "key.parquet" in out, err
    sheet = tmp_path / "people/for_raters/sheet.csv"
    assert sorted(path.name for path in sheet.parent.iterdir()) == ["form.html", "sheet.csv"]
    files = [
        fill(sheet, tmp_path / "ann.csv", "ann", lambda text: 20 if text[0] == "R" else 80),
        fill(sheet, tmp_path / "bob.csv", "bob", lambda text: 30 if text[0] == "R" else 90),
    ]
    back = ["eval", "human", "import", *files, "--key", "people/key.parquet"]
    status, out, err = rldf(*back, "--json")
    assert status == 0, err
    summary = json.loads(out)
    assert summary["methods"]["RLDF"]["BS"]["mean"] == 25
    assert summary["methods"]["Default"]["BS"]["mean"] == 85
    assert summary["agreement"]["BS"]["kappa"] == pytest.approx(0.2)
    assert summary["agreement"]["BS"]["alpha"] > 0.9
    table = pq.read_table(tmp_path / "people/eval/human.parquet")
    assert table.num_rows == 24 and set(table["method"].to_pylist()) == {"Default", "RLDF"}
    status, out, _ = rldf(*back)
    assert status == 0 and "Fleiss' kappa" in out and "25.0" in out


def test_another_sheets_key_is_not_overwritten(rldf: Rldf, answers: str, tmp_path: Path) -> None:
    words = ["eval", "human", "export", answers, "--out", "people"]
    assert rldf(*words)[0] == 0 and rldf(*words)[0] == 0
    before = (tmp_path / "people/key.parquet").read_bytes()
    status, _, err = rldf(*words, "--seed", "1")
    assert status == 1 and "holds the key of another sheet" in err
    assert (tmp_path / "people/key.parquet").read_bytes() == before


def test_wrong_requests_and_sheets_are_named(rldf: Rldf, answers: str, tmp_path: Path) -> None:
    status, _, err = rldf("eval", "human", "export", answers, "--out", "p", "--methods", "X")
    assert status == 1 and "--methods X; the answers have Default, RLDF, SFT" in err
    rldf("eval", "human", "export", answers, "--out", "p")
    wrong = fill(tmp_path / "p/for_raters/sheet.csv", tmp_path / "ann.csv", "ann", lambda text: 500)
    status, _, err = rldf("eval", "human", "import", wrong, "--key", "p/key.parquet")
    assert status == 1 and "row 1" in err and "BS is '500'" in err and "and 17 more" in err
    assert not (tmp_path / "p/eval").exists()
