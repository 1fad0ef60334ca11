"""Tables of a stage that is to be done again are nobody's: no command takes them for the run's."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import rldf_ray
from rldf_ray.evaluate.bbq.run_models import ITEM_SCHEMA
from rldf_ray.evaluate.held_out.answers import ANSWER_SCHEMA
from rldf_ray.plan import load_plan
from rldf_ray.protocols.transcripts import ENDED_DEBATES, Transcripts
from rldf_ray.records import STATEMENT_SCHEMA, table_of
from rldf_ray.report.build import report_so_far, write_report
from rldf_ray.stages.order import forget
from rldf_ray.storage.left_over import left_over
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.storage.stages import PIPELINE, depending_on
from tests.commands.conftest import Rldf
from tests.fakes import opinion, statement

PLAN = load_plan("smoke")
SAID, ANSWERED = "Nobody is like all others.", "The old policy's own words."
FINISHED = {"seconds": 1.0, "peak_pss_gib": 1.0}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run whose debates and evaluation have finished."""
    folder = RunFolder(tmp_path / "run")
    folder.write_text("plan.yaml", PLAN.to_yaml())
    said = [statement(SAID, 1.0, "low", topic=opinion(0), rank=1)]
    folder.write_table("data/transcripts.parquet", table_of(said, STATEMENT_SCHEMA))
    row = {"prompt_id": "age-1", "bias_type": "age", "kind": "opinion", "clue_shown": False}
    asked = {"prompt": "Q?", "answer": ANSWERED, "finish_reason": "stop", "tokens": 5}
    rows = [{**row, **asked, "model": name, "reward": None} for name in ("base", "policy")]
    folder.write_table("eval/answers.parquet", pa.Table.from_pylist(rows, schema=ANSWER_SCHEMA))
    folder.write_table("eval/items.parquet", ITEM_SCHEMA.empty_table())
    debates = {"debates": 1, "statements": 1, "failures": {}, "label_sources": {"said": 1}}
    folder.finish("debates", PLAN.digest(), FINISHED | debates)
    folder.finish("eval", PLAN.digest(), FINISHED)
    return folder


def page(folder: RunFolder) -> str:
    write_report(folder, PLAN)
    return (folder.root / "report.html").read_text(encoding="utf-8")


def test_the_page_shows_answers_and_debates_of_finished_stages_alone(run: RunFolder) -> None:
    finished = page(run)
    assert SAID in finished and "old policy" in finished
    forget(run, depending_on(["ppo"]))
    undone = page(run)
    assert SAID in undone and "old policy" not in undone
    assert report_so_far(run, PLAN)["debates"]["statements"] == 1
    forget(run, depending_on(["debates"]))
    assert SAID not in page(run)
    assert report_so_far(run, PLAN)["debates"] is None


@pytest.mark.parametrize(
    "words",
    [
        ("eval", "judge", "run", "--judge", "openai:m"),
        ("eval", "human", "export", "run", "--out", "sheet"),
        ("eval", "self-identification", "openai:m", "--answers", "run", "--out", "named"),
    ],
    ids=lambda words: words[1],
)
def test_answers_of_an_evaluation_that_was_undone_are_refused(
    words: tuple[str, ...], run: RunFolder, rldf: Rldf, tmp_path: Path
) -> None:
    forget(run, depending_on(["ppo"]))
    status, _, err = rldf(*words)
    err = " ".join(err.split())
    assert status == 1 and "eval/answers.parquet is left over: the stage eval is to be done" in err
    assert "`rldf eval" in err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_file_that_is_named_itself_is_taken_for_what_it_holds(run: RunFolder, rldf: Rldf) -> None:
    forget(run, depending_on(["ppo"]))
    status, out, err = rldf("eval", "human", "export", "run/eval/answers.parquet", "--out", "sheet")
    assert status == 0, err
    assert "1 answers" in out


def test_no_figure_is_drawn_of_them(run: RunFolder, rldf: Rldf) -> None:
    assert rldf("eval", "figures", "run")[0] == 0
    forget(run, depending_on(["ppo"]))
    status, _, err = rldf("eval", "figures", "run")
    assert status == 1 and "nothing to draw" in err


def test_debates_that_are_held_again_are_shown_once_they_have_ended(
    run: RunFolder, rldf: Rldf
) -> None:
    assert SAID in rldf("show", "run")[1]
    forget(run, depending_on(["debates"]))
    status, _, err = rldf("show", "run")
    assert status == 1 and "transcripts.parquet is left over" in " ".join(err.split())
    with closing(Transcripts(run.path(ENDED_DEBATES), 1)) as transcripts:
        transcripts.keep(0, [statement("Anew.", 1.0, "low", topic=opinion(0), rank=1)])
        status, out, err = rldf("show", "run", "--json")
    assert status == 0, err
    assert [s["text"] for s in json.loads(out)[0]["statements"]] == ["Anew."]


def test_functions_refuse_them(run: RunFolder) -> None:
    there = rldf_ray.Run(str(run.root))
    assert there.statements.num_rows == 1
    forget(run, depending_on(["debates"]))
    with pytest.raises(RunFolderError, match=r"transcripts\.parquet is left over"):
        _ = there.statements


def test_every_file_of_every_stage_counts_with_its_manifest(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    files = {name: stage for stage in PIPELINE.values() for name in stage.files}
    for name in files:
        folder.path(f"{name}{'' if '.' in name else '/part'}").touch()
    assert not any(left_over(tmp_path, name) for name in files)
    folder.write_text("plan.yaml", PLAN.to_yaml())
    for name, stage in files.items():
        why = left_over(tmp_path, name)
        assert why is not None and f"the stage {stage.name} is to be done again" in why
    for stage in PIPELINE:
        folder.finish(stage, "key", {})
    assert not any(left_over(tmp_path, name) for name in files)
    for name in ("report.json", "eval/judge.parquet", "eval/none.parquet", "model"):
        assert left_over(tmp_path, name) is None
