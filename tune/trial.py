"""One trial of a sweep, as a program and so as a Ray job of its own.

    python -m tune.trial PLAN --out FOLDER --store STORE --most-topics N --until data|sft|eval

    store -> topics, debates | run -> data | store -> sft, reward | run -> ppo, eval -> store
    (or dpo, kto, without reward, as the plan's train.after has it)

When a program ends, however it ends, Ray ends the actors and placement groups of its job.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from rldf_ray.apps.tune.keys import debates_key, referee_key, reward_key, sft_key, topics_key
from rldf_ray.apps.tune.measure import (
    items_drawn,
    pairs_by_type,
    sft_accuracy,
    trained_accuracy,
)
from rldf_ray.apps.tune.orphan import end_with_parent
from rldf_ray.apps.tune.prefix import begin_with
from rldf_ray.apps.tune.store import KnownCalls, Store, generated_tokens
from rldf_ray.console import Progress, write
from rldf_ray.errors import UserError
from rldf_ray.models.base import BudgetSpentError
from rldf_ray.models.limits import spent_together
from rldf_ray.pipeline import run
from rldf_ray.plan import Plan, load_plan
from rldf_ray.plan.saved import PLAN
from rldf_ray.storage.folders import visible
from rldf_ray.storage.results import finish
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE, TRAINING, whole_run

Until = Literal["data", "sft", "eval"]
OUT_OF_BUDGET = "out-of-budget.json"
"""In a sweep's folder: what a trial said whose calls the budget did not cover."""


@dataclass(kw_only=True)
class TrialRun:
    """A trial in its run folder, and what it took from the store."""

    plan: Plan
    folder: RunFolder
    store: Store
    most_topics: int
    progress: Progress
    fetched: list[str] = field(default_factory=list)

    @property
    def sweep(self) -> Path:
        """The sweep's folder: trials are in trials/KEY."""
        return self.folder.root.parent.parent

    def until(self, stage: Until) -> dict[str, float]:
        """Go on until `stage` has finished; what was measured there, by bias type and `overall`."""
        if stage == "eval" and self.folder.manifest("eval") is not None:
            # Its models may be gone.
            return trained_accuracy(self.plan, self.folder)
        self._speak()
        if stage == "data":
            return pairs_by_type(self.folder)
        self._fetch("sft", sft_key(self.plan, self.folder))
        if stage == "sft":
            self._run("sft")
            self.store.keep("sft", sft_key(self.plan, self.folder), self.folder)
            return sft_accuracy(self.plan, self.folder)
        keys = {"sft": sft_key}
        if "ppo" in self.plan.train.after:
            self._fetch("reward", reward_key(self.plan, self.folder))
            keys["reward"] = reward_key
        self._run("eval")
        for name, key in keys.items():
            self.store.keep(name, key(self.plan, self.folder), self.folder)
        return trained_accuracy(self.plan, self.folder)

    def _speak(self) -> None:
        """Topics, debates and data; no engine starts where the store has them."""
        if self.folder.manifest("topics") is None:
            self._begin_topics()
        key = debates_key(self.plan, self.most_topics)
        self._fetch("debates", key)
        trained = self.plan.referee.fitted
        if trained and self.folder.manifest("debates") is None:
            self._fetch("referee", referee_key(self.plan))
        if self.folder.manifest("data") is None:
            calls = self.store.calls(self.sweep / "cache")
            self._run("data", calls)
            calls.close()
        self.store.keep("debates", key, self.folder)
        self.store.keep("referee", referee_key(self.plan), self.folder)
        self.store.keep_calls(self.plan.digest(), self.folder.path("journal/calls.jsonl"))

    def _begin_topics(self) -> None:
        """The first of the sweep's topics, which are written now if no trial had them written."""
        topics = self.plan.topics.model_copy(update={"per_bias_type": self.most_topics})
        whole = self.plan.model_copy(update={"topics": topics})
        key = topics_key(whole, self.most_topics)
        source = RunFolder(self.sweep / "topics" / key)
        if not self.store.fetch("topics", key, source):
            if source.manifest("topics") is None:
                # A trial that was cut off here may have had another plan with the same topics.
                source.write_text(PLAN, whole.to_yaml())
                run(whole, source.root, self.progress, only=("topics",))
            self.store.keep("topics", key, source)
        begin_with(source, self.plan, self.folder)

    def _fetch(self, stage: str, key: str) -> None:
        if self.folder.manifest(stage) is None and self.store.fetch(stage, key, self.folder):
            self.fetched.append(stage)
            self.progress.say(f"{stage}: from the store")

    def _run(self, last: str, calls: KnownCalls | None = None) -> None:
        # The audit measures the referee, which is every trial's; `rldf run` does it. A trained one
        # is fitted where debates are held.
        whole = whole_run(self.plan.train.after)
        names = tuple(name for name in whole if name not in ("referee", "audit"))
        only = names[: names.index(last) + 1]
        run(self.plan, self.folder.root, self.progress, only=only, earlier=calls)

    def drop_models(self) -> None:
        """A sweep keeps figures; `rldf run` of the best plan makes its model again."""
        for name in (*TRAINING, "model"):
            shutil.rmtree(self.folder.root / name, ignore_errors=True)


def tokens_of(folder: RunFolder) -> dict[str, int]:
    """Generated tokens of a trial's debates: what they hold, and what was made for them here."""
    debates = finish(folder, "debates")
    assert debates is not None
    assert debates.tokens is not None
    return {
        "held": debates.tokens["generated"],
        "made": generated_tokens(folder.path("journal/calls.jsonl")),
    }


def main(
    plan: str,
    out: Annotated[Path, typer.Option()],
    store: Annotated[str, typer.Option()],
    most_topics: Annotated[int, typer.Option()],
    until: Annotated[str, typer.Option()],
) -> None:
    """Go on with a trial and write result.json into its folder."""
    if until not in get_args(Until):
        raise typer.BadParameter(f"{until!r}: allowed are {', '.join(get_args(Until))}")
    end_with_parent()
    folder = RunFolder(out.resolve())
    before = result_of(folder) or {"measured": {}, "fetched": []}
    if until in before["measured"]:
        return
    trial = TrialRun(
        plan=load_plan(plan),
        folder=folder,
        store=Store.at(store),
        most_topics=most_topics,
        progress=Progress(),
    )
    sweep = trial.sweep
    try:
        with spent_together(sweep, _plans(sweep)):
            measured = trial.until(until)  # type: ignore[arg-type]
    except BudgetSpentError as error:
        RunFolder(sweep).write_json(OUT_OF_BUDGET, {"why": str(error)})
        raise
    fetched = sorted({*before["fetched"], *trial.fetched})
    if until == "eval":
        # Before the result is there, after which nobody comes back to this trial.
        trial.drop_models()
    folder.write_json(
        "result.json",
        {
            "key": trial.plan.digest(),
            "measured": {**before["measured"], until: measured},
            "items": None if until == "data" else items_drawn(trial.plan),
            "tokens": tokens_of(folder),
            "fetched": fetched,
            "seconds": _seconds(folder, fetched),
        },
    )


def _plans(sweep: Path) -> Iterator[Plan]:
    """Of all trials: a budget is the whole sweep's."""
    for path in visible(sweep / "trials", "*/trial.yaml"):
        yield load_plan(str(path), saved=True)


def result_of(folder: RunFolder) -> dict[str, Any] | None:
    """What a trial has measured so far, None if nothing."""
    if not (folder.root / "result.json").exists():
        return None
    found: dict[str, Any] = folder.read_json("result.json")
    return found


def _seconds(folder: RunFolder, fetched: list[str]) -> float:
    """Of the stages that were carried out here, at whatever rung."""
    stages = [finish(folder, name) for name in PIPELINE if name not in ("topics", *fetched)]
    return sum(stage.seconds for stage in stages if stage is not None)


def out_of_budget(sweep: Path) -> str | None:
    """Why a trial of the sweep stopped, where the plan's budget was spent; None where it is not."""
    folder = RunFolder(sweep)
    if not (sweep / OUT_OF_BUDGET).exists():
        return None
    return str(folder.read_object(OUT_OF_BUDGET, ("why",))["why"])


def program(trial: Callable[[], None] = lambda: typer.run(main)) -> None:
    """A trial whose expected errors are one line and their status, as the command's are."""
    try:
        trial()
    except UserError as error:
        write(f"{error.heading}: {error}", to_stderr=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    program()
