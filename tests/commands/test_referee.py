"""`rldf referee audit` for real: the trained referee of the preset `opinions`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

RLDF = str(Path(sys.executable).with_name("rldf"))


def audit(out: Path, *words: str) -> dict[str, Any]:
    command = [RLDF, "referee", "audit", "opinions", "--out", str(out), "--json", *words]
    command += ["--set", "bias_types=[age, profession]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2000)  # noqa: PLW1510
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    print(done.stderr)
    return json.loads((out / "audit.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "run"


@pytest.fixture(scope="module")
def own(out: Path) -> dict[str, Any]:
    """The audit on our own held-out statements."""
    return audit(out)


def test_the_embedded_model_fitted_in_the_run_tells_biased_from_fair(
    out: Path, own: dict[str, Any]
) -> None:
    assert own["kind"] == "trained" and own["failures"] == 0
    assert own["held_out"]["n"] == 184
    assert own["auc"] >= 0.85
    assert own["auc"] - own["bag_of_words"]["auc"] >= 0.05
    assert own["beyond_bag_of_words"]["low"] > 0
    assert own["brier"]["value"] < 0.2
    rows = pq.read_table(out / "eval/referee.parquet").to_pylist()
    assert all(r["score"] == round(r["expected_score"]) for r in rows)
    assert (out / "eval/referee.png").stat().st_size > 10_000


def test_a_second_audit_of_the_same_folder_fits_nothing_and_finds_the_same(
    out: Path, own: dict[str, Any]
) -> None:
    fitted = (out / "stages/referee.json").read_text(encoding="utf-8")
    (out / "stages/audit.json").unlink()
    (out / "journal/calls.jsonl").unlink()
    assert audit(out) == own
    assert (out / "stages/referee.json").read_text(encoding="utf-8") == fitted


def test_referees_are_compared_on_the_same_statements(tmp_path: Path) -> None:
    command = [RLDF, "referee", "compare", "smoke", "--out", str(tmp_path), "--json"]
    shape = ["teacher=scripted:0", "referee={kind: prompted, label_source: expected}"]
    command += [word for field in shape for word in ("--set", field)]
    command += ["--set", "referee.audit_pairs=4"]
    pool = "meta={kind: meta, pool: ['scripted:0', 'scripted:0.01'], mode: select}"
    for one in ("single={}", "pair={kind: debate, rounds: 1}", pool):
        command += ["--referee", one]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)  # noqa: PLW1510
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads(done.stdout)
    assert list(facts["referees"]) == ["single", "pair", "meta"]
    kinds = [one["audit"]["kind"] for one in facts["referees"].values()]
    assert kinds == ["prompted", "debate", "meta"]
    for one in facts["referees"].values():
        assert one["audit"]["failures"] == 0 and one["audit"]["held_out"]["n"] == 16
        assert set(one["audit"]["biases"]) == {"verbosity", "bandwagon", "cot"}
    assert facts["recommendation"] and (tmp_path / "comparison.md").exists()
    wrong = subprocess.run(
        [*command[:6], "--referee", "a"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 1 and "--referee 'a': expected NAME=" in wrong.stderr
