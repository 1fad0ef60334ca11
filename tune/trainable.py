"""What Tune's actor does: it takes one trial to a rung, as a program of its own.

Ending the program ends its Ray job; `tune.cleanup` sees to what outlives a job.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rldf_ray.apps.tune.cleanup import PROGRAM, clear_ended_trials
from rldf_ray.apps.tune.trial import out_of_budget, result_of
from rldf_ray.cluster.import_path import import_path
from rldf_ray.errors import UserError
from rldf_ray.models.base import BudgetSpentError
from rldf_ray.storage.folders import visible
from rldf_ray.storage.run_folder import RunFolder


class SweepError(UserError):
    """A trial failed; the message says which, and where its output is."""


def trainable_of(config: dict[str, Any]) -> None:
    """Tune's function: take one trial to its rung and report what was measured there."""
    from ray import tune

    trial = config["trial"]
    folder, rung = RunFolder(Path(trial["folder"])), trial["rung"]
    result = result_of(folder)
    if result is None or rung not in result["measured"]:
        # One that has begun has its debates, and goes on.
        if result is None and _spent(trial):
            return
        _check_budget(Path(trial["sweep"]))
        _run(_command(trial, rung), folder)
        result = result_of(folder)
    assert result is not None
    tune.report({**result["measured"][rung], "made_tokens": result["tokens"]["made"]})


def _spent(trial: dict[str, Any]) -> bool:
    """Whether the debates of the whole sweep have taken the budget."""
    if trial["budget_tokens"] is None:
        return False
    limit: int = trial["budget_tokens"]
    return made_tokens(Path(trial["sweep"])) >= limit


def _check_budget(out: Path) -> None:
    """Nothing unless an earlier trial found the budget of the plan's endpoint spent.

    Raises:
        BudgetSpentError: it did. Tune goes on with a trial that failed, not with one that ended.
    """
    why = out_of_budget(out)
    if why is not None:
        raise BudgetSpentError(why)


def made_tokens(out: Path) -> int:
    """Tokens that the debates of all trials in a sweep's folder generated."""
    results = [result_of(RunFolder(path)) for path in visible(out / "trials")]
    return sum(result["tokens"]["made"] for result in results if result is not None)


def _command(trial: dict[str, Any], rung: str) -> list[str]:
    plan = str(Path(trial["folder"]) / "trial.yaml")
    options = {"out": "folder", "store": "store", "most-topics": "most_topics"}
    given = [part for name, key in options.items() for part in (f"--{name}", str(trial[key]))]
    return [sys.executable, "-m", PROGRAM, plan, *given, "--until", rung]


def _run(command: Sequence[str], folder: RunFolder) -> None:
    """A program to its end, in a process group that goes with the actor."""
    import ray

    log = folder.path("logs/trial.log")
    environment = {
        **os.environ,
        "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
        "PYTHONPATH": import_path(),
    }
    with log.open("ab") as output:
        program = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            status = program.wait()
        finally:
            _end(program)
            clear_ended_trials()
    if status == BudgetSpentError.exit_status:
        raise BudgetSpentError(f"a trial ended with status {status}: {log} has its output")
    if status != 0:
        raise SweepError(f"a trial ended with status {status}: {log} has its output")


def _end(program: subprocess.Popen[bytes]) -> None:
    """Whatever is left of the program's processes."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.wait()
