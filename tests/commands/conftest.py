"""The command line, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldf_ray import cli

Rldf = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rldf(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Rldf:
    """Runs a command line in this process and in `tmp_path`; returns status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = 0
        try:
            cli.main(lambda: cli.app(list(arguments), prog_name="rldf"))
        except SystemExit as end:
            status = int(end.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return run
