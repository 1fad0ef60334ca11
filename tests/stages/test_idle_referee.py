"""A referee that labels nothing is neither fitted nor audited, unless somebody asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldf_ray.preflight.estimate import estimate
from rldf_ray.stages.order import debating, with_referee, without_idle_referee
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import whole_run
from tests.fakes import plan_with

WHOLE = whole_run(("ppo",))
DEBATES = plan_with("referee.kind=trained")
SOURCE = plan_with("referee.kind=trained", "debate.protocol=mabrf")
HELD = {"debates": 1, "statements": 6, "failures": {}, "label_sources": {}}
TOKENS = {"prompt": 1, "cached": 0, "generated": 1}


def folder_of(path: Path, **debates: Any) -> RunFolder:
    folder = RunFolder(path)
    folder.finish("topics", "key", {})
    folder.finish("debates", "key", {**HELD, **debates})
    return folder


def test_a_source_s_run_asks_no_referee(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    whole = without_idle_referee(SOURCE, folder, WHOLE)
    assert whole == [name for name in WHOLE if name not in ("referee", "audit")]
    assert with_referee(SOURCE, folder, whole) == whole
    assert debating(SOURCE) == ("topics", "debates")
    assert with_referee(SOURCE, folder, debating(SOURCE)) == ["topics", "debates"]


def test_debates_are_left_to_a_referee_that_is_audited(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert without_idle_referee(DEBATES, folder, WHOLE) == [*WHOLE]
    assert debating(DEBATES) == ("topics", "audit", "debates")
    held = folder_of(tmp_path / "held", tokens=TOKENS)
    assert without_idle_referee(DEBATES, held, WHOLE) == [*WHOLE]


def test_statements_or_pairs_that_were_given_need_no_referee_until_debates_are_held_anew(
    tmp_path: Path,
) -> None:
    given = folder_of(tmp_path)
    assert {"referee", "audit"}.isdisjoint(without_idle_referee(DEBATES, given, WHOLE))
    assert without_idle_referee(DEBATES, given, WHOLE, WHOLE) == [*WHOLE]


@pytest.mark.parametrize("plan", [SOURCE, DEBATES])
def test_an_audit_that_is_asked_for_is_done_with_its_referee(tmp_path: Path, plan: Any) -> None:
    assert with_referee(plan, folder_of(tmp_path), ("audit",)) == ["referee", "audit"]


def test_what_an_earlier_version_audited_stays(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, source="mabrf", tokens=TOKENS)
    folder.finish("audit", "key", {})
    assert "audit" not in without_idle_referee(SOURCE, folder, WHOLE)
    assert folder.manifest("audit") is not None


def test_an_estimate_of_a_source_has_no_audit() -> None:
    plans = {"multirole": plan_with(), "mabrf": plan_with("debate.protocol=mabrf")}
    names = {name: {stage.name for stage in estimate(plan)} for name, plan in plans.items()}
    assert names["multirole"] - names["mabrf"] == {"audit"}
    assert "referee" not in {stage.name for stage in estimate(SOURCE)}
