"""`rldf doctor --study`: what is wrong is found before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rldf_ray.cli import app
from tests.studies.pairs import plan_file


def doctor(plan: Path | str, *words: str) -> tuple[int, dict[str, Any], list[Any]]:
    done = CliRunner().invoke(app, ["doctor", str(plan), "--study", "judges", "--json", *words])
    found = json.loads(done.output)
    return done.exit_code, {c["name"]: c for c in found["checks"]}, found["estimate"]


def test_a_study_that_fits_is_said_to_fit_with_what_it_takes(tmp_path: Path) -> None:
    status, checks, estimate = doctor(plan_file(tmp_path))
    assert status == 0 and all(check["ok"] for check in checks.values())
    assert checks["data"]["found"] == "6 items"
    assert estimate[-1]["model"] == "in all" and estimate[-1]["calls"] > 0


@pytest.mark.parametrize(
    ("changes", "wrong", "said"),
    [
        (["settings.data=nowhere.jsonl"], "data", "settings.data"),
        (["models.a='vllm:no/such/folder'"], "models", "models.a"),
        (["models.a='openai:m'", "endpoint.api_key_env=NO_SUCH_KEY"], "endpoint", "NO_SUCH_KEY"),
    ],
)
def test_what_is_wrong_is_named(
    changes: list[str], wrong: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = [word for change in changes for word in ("--set", change)]
    status, checks, estimate = doctor(plan_file(tmp_path), *words)
    assert status == 1 and not checks[wrong]["ok"] and said in checks[wrong]["found"]
    # What can be reckoned is, and where there are no data nothing is.
    assert bool(estimate) is (wrong != "data")
