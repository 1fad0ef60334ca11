"""The runs of a comparison have one budget at an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldf_ray.comparison import work
from rldf_ray.comparison.settings import Settings
from rldf_ray.console import Progress
from rldf_ray.models.limits import Budget
from rldf_ray.storage.journal import Journal
from tests.fakes import plan_with


class ReachedError(Exception):
    pass


def test_every_run_counts_what_all_of_them_have_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_with("teacher=openai:own", "endpoint.budget_tokens=1000")
    for name in ("own", "other", "judge"):
        journal = Journal(tmp_path / f"runs/{name}/journal/calls.jsonl")
        sample = {
            "text": "", "finish_reason": "stop", "model": name, "revision": "",
            "usage": {"generated": 10},
        }  # fmt: skip
        journal.append(name, {"request": "", "samples": [sample]})
        journal.close()

    def train(*_: Any) -> None:
        run = Journal(tmp_path / "runs/now/journal/calls.jsonl")
        budget = Budget.of(plan.endpoint, ("own",), run)
        assert budget.spent.generated == 30 and budget.where == tmp_path
        raise ReachedError

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr(work, "_check_runs", lambda *_: None)
    monkeypatch.setattr(work, "_train", train)
    settings = Settings(
        methods=("sft", "rldf_teacher"), teachers=("openai:own", "openai:other"), repeats=1,
        judge="openai:judge", modes=("rank",),
    )  # fmt: skip
    with pytest.raises(ReachedError):
        work.compare(plan, settings, tmp_path, Progress())
