"""What a stage records, as it is written and as it is read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import UNSET

from rldf_ray.errors import UserError
from rldf_ray.storage.results import (
    DebatesResult,
    NotRecordedError,
    ResultError,
    as_manifest,
    finish,
    if_recorded,
    recorded,
    stage_result,
)
from rldf_ray.storage.run_folder import RunFolder

TOKENS = {"prompt": 3, "cached": 0, "generated": 5}
WRITTEN = {"debates": 2, "statements": 4, "failures": {"empty": 1}, "label_sources": {"said": 3}}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_what_is_written_is_read_back(folder: RunFolder) -> None:
    result = DebatesResult(
        debates=2,
        statements=4,
        failures={"empty": 1},
        label_sources={"said": 3},
        tokens=TOKENS,
        paid_tokens=TOKENS,
    )
    folder.finish("debates", "key", {"seconds": 1.0, **as_manifest(result)})
    assert stage_result(folder, DebatesResult) == result


def test_what_was_not_recorded_is_left_out_of_the_manifest(folder: RunFolder) -> None:
    result = DebatesResult(
        debates=2, statements=4, failures={"empty": 1}, label_sources={"said": 3}
    )
    assert json.loads(json.dumps(as_manifest(result))) == WRITTEN


def test_a_stage_that_has_not_finished_has_no_result(folder: RunFolder) -> None:
    assert stage_result(folder, DebatesResult) is None


def test_a_stage_has_to_give_what_it_always_records() -> None:
    with pytest.raises(TypeError, match="label_sources"):
        DebatesResult(debates=2, statements=4, failures={})  # type: ignore[call-arg]


def test_a_field_that_an_earlier_version_did_not_record_is_named_by_who_needs_it(
    folder: RunFolder,
) -> None:
    folder.finish("debates", "key", {"debates": 2, "since_dropped": 1})
    result = stage_result(folder, DebatesResult)
    assert result is not None and result.debates == 2
    assert result.statements is UNSET and if_recorded(result.statements) is None
    with pytest.raises(NotRecordedError, match=r"stages/debates\.json has no 'statements'"):
        recorded(result.statements, "debates", "statements")


@pytest.mark.parametrize(
    ("field", "value"), [("statements", "four"), ("failures", [1]), ("label_sources", None)]
)
def test_a_value_of_another_type_is_named(folder: RunFolder, field: str, value: object) -> None:
    folder.finish("debates", "key", {**WRITTEN, field: value})
    with pytest.raises(ResultError, match=rf"stages/debates\.json: '{field}'") as caught:
        stage_result(folder, DebatesResult)
    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize("facts", [{}, {"seconds": "long", "peak_pss_gib": 1.0}])
def test_a_manifest_without_what_all_have_names_its_stage(
    folder: RunFolder, facts: dict[str, object]
) -> None:
    folder.finish("sft", "key", facts)
    with pytest.raises(ResultError, match="do the stage sft again"):
        finish(folder, "sft")
