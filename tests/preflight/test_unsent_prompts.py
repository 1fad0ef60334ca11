"""Prompts of one's own that nobody is sent are named, as they change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.plan import Plan
from rldf_ray.preflight.unsent_prompts import JUDGES, REFEREE, _sent, unsent_prompts
from rldf_ray.prompts import PACKAGE
from tests.fakes import plan_with


def plan_of(tmp_path: Path, *names: str, referee: str) -> Plan:
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((PACKAGE / name).read_text(encoding="utf-8") + " ", encoding="utf-8")
    return plan_with(f"prompts={tmp_path}", f"referee={referee}")


@pytest.mark.parametrize(
    ("referee", "name", "sent"),
    [
        ("{kind: trained}", "score", False),
        ("{kind: trained}", "trained", True),
        ("{kind: prompted}", "score", True),
        ("{kind: prompted}", "trained_system", False),
        ("{kind: prompted}", "check", False),
        ("{kind: prompted, judgements: checked}", "check", True),
        ("{kind: debate}", "system", True),
        ("{kind: debate}", "rank", False),
        ("{kind: prompted}", "crowd", False),
    ],
)
def test_a_prompt_of_another_kind_of_referee_is_named(
    tmp_path: Path, referee: str, name: str, sent: bool
) -> None:
    said = unsent_prompts(plan_of(tmp_path, f"{REFEREE}{name}.txt", referee=referee))
    assert ("sent to nobody in this run" in said) == (not sent)
    assert sent or f"{REFEREE}{name}.txt" in said


def test_prompts_of_topics_and_debates_are_not_spoken_of(tmp_path: Path) -> None:
    names = ("topics/prompts/system.txt", "protocols/multirole/prompts/turn.txt")
    plan = plan_of(tmp_path, *names, f"{JUDGES}statement_judge.txt", referee="{kind: prompted}")
    assert unsent_prompts(plan).startswith(f"prompts: {JUDGES}statement_judge.txt: sent to nobody")
    assert unsent_prompts(plan_with()) == ""


def test_every_prompt_that_is_spoken_of_is_there() -> None:
    assert all((PACKAGE / name).exists() for name in _sent(plan_with()))
