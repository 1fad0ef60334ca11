"""Results of any kind in the form of another program: which kind a folder holds, and its reader."""

from __future__ import annotations

from pathlib import Path

from rldf_ray.comparison.exported import COMPARE, comparison_logs
from rldf_ray.comparison.exported import SUMMARY as COMPARED
from rldf_ray.eval_logs.forms import check_form, write_logs
from rldf_ray.eval_logs.records import EvalLog, ExportError
from rldf_ray.evaluate.bbq.exported import ANSWERS, SUMMARY, bbq_logs
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.studies.exported import study_logs

STUDY = "study.json"


def export_results(where: str, out: Path, form: str, bbq: Path | None = None) -> list[Path]:
    """Write what an evaluation came to, for inspect_ai or lm-evaluation-harness.

    Args:
        where: the folder of `rldf eval bbq`, of `rldf eval compare` or of a study of judges, or its
            address.
        out: a new or empty folder.
        form: a name in `eval_logs.forms.FORMS`.
        bbq: BBQ's files, where they have moved since.

    Raises:
        ExportError: no such form, `out` holds something, or `where` holds no such results.
        UserError: the results or the items cannot be read.
    """
    check_form(form, out)
    return write_logs(_logs(RunFolder.at(where), bbq), form, out)


def _logs(folder: RunFolder, bbq: Path | None) -> list[EvalLog]:
    if folder.fetched(SUMMARY).exists():
        folder.fetched(ANSWERS)
        return bbq_logs(folder, bbq)
    if folder.fetched(f"{COMPARE}/{COMPARED}").exists():
        folder.fetched(COMPARE)
        return comparison_logs(folder, bbq)
    if folder.fetched(STUDY).exists():
        return study_logs(folder)
    raise ExportError(
        f"{folder.where} has no results to export; needed: {SUMMARY} (`rldf eval bbq`), "
        f"{COMPARE}/{COMPARED} (`rldf eval compare`) or {STUDY} (`rldf study judges`)"
    )
