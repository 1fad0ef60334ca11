"""The forms in which results can be written, by the name that `--to` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rldf_ray.eval_logs import harness, inspect_log
from rldf_ray.eval_logs.records import EvalLog, ExportError

FORMS: Mapping[str, Callable[[Sequence[EvalLog], Path], list[Path]]] = {
    "inspect": inspect_log.write,
    "lm-eval": harness.write,
}


def check_form(form: str, folder: Path) -> None:
    """Refuse what cannot be written, before anything is read.

    Raises:
        ExportError: there is no such form, or `folder` holds something.
    """
    if form not in FORMS:
        raise ExportError(f"--to {form}: no such form; allowed: {', '.join(FORMS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(f"--out {folder}: exists and is no empty folder; give another")


def write_logs(logs: Sequence[EvalLog], form: str, folder: Path) -> list[Path]:
    """Write the logs into `folder`, which is made where there is none; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    return FORMS[form](logs, folder)
