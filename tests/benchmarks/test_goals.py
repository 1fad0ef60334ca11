"""Results name what was run, and no folder of the machine it was run on."""

from __future__ import annotations

import pytest

from benchmarks.goals import command_line


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (["--bbq", "/data/sets/bbq", "--items", "24"], "--bbq .../bbq --items 24"),
        (["--bbq=/data/bbq", "runs/a"], "--bbq=.../bbq runs/a"),
        (["--judge", "vllm:/models/judge"], "--judge vllm:.../judge"),
        (["--url", "http://127.0.0.1:8000/v1"], "--url http://127.0.0.1:8000/v1"),
    ],
)
def test_a_folder_is_named_by_its_last_part(given: list[str], written: str) -> None:
    assert command_line("eval", given) == f"python -m benchmarks.eval {written}"
