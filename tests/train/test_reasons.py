"""What is said of a worker group that failed."""

from __future__ import annotations

import pytest

from rldf_ray.train.reasons import reason_of

KILLED = """Training failed due to worker errors:
[Rank 0 Error Snippet]:
Task was killed due to the node running low on memory.
Memory on the node (IP: 192.0.2.2, ID: c05d) was 22.46GB used / 23.54GB limit (0.954174)
Top 10 memory users: PID MEM(GB) COMMAND
6160 8.89 ray::RayTrainWorker

Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/
"""


def test_of_a_worker_killed_for_memory_it_says_where_and_what_to_change() -> None:
    reason = reason_of(RuntimeError(KILLED), "run/sft")
    assert reason.startswith("host 192.0.2.2 ran out of memory (22.46GB of 23.54GB used)")
    assert "micro_batch" in reason and "is kept" in reason and "Refer" not in reason
    # What the plan of a run cannot have changed takes another run, and its debates along.
    assert "smaller engines.kv_cache_gib; or begin another run" in reason and "journal/" in reason


@pytest.mark.parametrize(
    ("text", "reason"), [("stack\n  File x\nValueError: too long\n\n", "ValueError: too long")]
)
def test_otherwise_it_is_the_workers_last_word(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text), "run/sft") == reason


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 28] No space left on device",
        "SafetensorError: I/O error: No space left on device (os error 28)",
        "RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed",
    ],
)
def test_a_full_disk_is_said_with_its_folder(text: str) -> None:
    reason = reason_of(RuntimeError(text), "run/sft")
    assert reason == f"{text} (while writing to run/sft): make room; the same command continues"


def test_an_error_without_words_is_named() -> None:
    assert reason_of(KeyboardInterrupt(), "run/sft") == "KeyboardInterrupt"
