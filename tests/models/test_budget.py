"""What a budget is of: of one run, or of all runs in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.models.base import BudgetSpentError, ChatRequest, Message
from rldf_ray.models.limits import Budget, spent_together
from rldf_ray.plan import Endpoint
from rldf_ray.storage.journal import Journal
from tests.fakes import plan_with

ENDPOINT = Endpoint(budget_tokens=30)
PLANS = (plan_with("teacher=openai:one"), plan_with("teacher=openai:other"))
REQUEST = ChatRequest(messages=(Message("user", "abc"),), max_tokens=8)


def call(folder: Path, model: str, tokens: int) -> Journal:
    """A run whose model generated so many tokens."""
    journal = Journal(folder / "journal/calls.jsonl")
    sample = {
        "text": "", "finish_reason": "stop", "model": model, "revision": "",
        "usage": {"generated": tokens},
    }  # fmt: skip
    journal.append(f"{model}/{tokens}", {"request": "", "samples": [sample]})
    return journal


def test_runs_that_have_a_budget_together_count_each_others_calls(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    call(sweep / "trials/a", "one", 10)
    call(sweep / "topics/b", "other", 5)
    call(sweep / "trials/a", "local", 1000)
    call(tmp_path / "elsewhere", "one", 1000)
    own = call(sweep / "trials/c", "one", 7)
    with spent_together(sweep, PLANS):
        budget = Budget.of(ENDPOINT, ("one",), own)
    assert budget.spent.generated == 22
    spent = f"22 tokens are spent by all runs in {sweep};"
    with pytest.raises(BudgetSpentError, match=spent), budget.reserved(REQUEST):
        pass
    alone = Budget.of(ENDPOINT, ("one",), own)
    assert alone.spent.generated == 7 and alone.where is None
