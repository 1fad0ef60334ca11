"""`rldf study list`, `fields` and `rows` take what they read, and refuse what they would ignore."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldf_ray.cli import app

IGNORED = {
    "list": ["PLAN", "--out", "--set", "--estimate"],
    "fields": ["--out", "--set", "--estimate"],
    "rows": ["--set", "--estimate"],
}
WORDS = {
    "PLAN": ["mabrf"],
    "--out": ["--out", "somewhere"],
    "--set": ["--set", "settings.seed=1"],
    "--estimate": ["--estimate"],
}


@pytest.mark.parametrize(("name", "what"), [(n, w) for n, words in IGNORED.items() for w in words])
def test_what_would_be_ignored_is_refused(
    name: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = {"list": [], "fields": ["mabrf"], "rows": ["study", "--out", "rows"]}[name]
    done = CliRunner().invoke(app, ["study", name, *taken, *WORDS[what]])
    # Without the frame around it.
    said = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code == 2 and f"and not {what}" in said
    assert not list(tmp_path.iterdir())


def test_what_they_take_is_taken() -> None:
    assert "mabrf" in CliRunner().invoke(app, ["study", "list", "--json"]).output
    assert "settings.searches" in CliRunner().invoke(app, ["study", "fields", "mabrf"]).output
