"""One trial of a sweep, as a program and so as a Ray job of its own.

    python -m tune.trial PLAN --out FOLDER --store STORE --most-topics N --until data|sft|eval

    store -> topics, debates | run -> data | store -> sft, reward | run -> ppo, eval -> store
    (or dpo, kto, without reward, as the plan's train.after has it)

When a program ends, however it ends, Ray ends the actors and placement groups of its job.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from rldf_ray.apps.tune.keys import debates_key, referee_key, reward_key, sft_key, topics_key
from rldf_ray.apps.tune.measure import pairs_by_type, sft_accuracy, trained_accuracy
from rldf_ray.apps.tune.orphan import end_with_parent
from rldf_ray.apps.tune.prefix import begin_with
from rldf_ray.apps.tune.store import KnownCalls, Store, generated_tokens
from rldf_ray.console import Progress
from rldf_ray.pipeline import run
from rldf_ray.plan import Plan, load_plan
from rldf_ray.storage.results import finish
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE, TRAINING, whole_run

Until = Literal["data", "sft", "eval"]


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
    def _sweep(self) -> Path:
        """The sweep's folder: trials are in trials/KEY."""
        return self.folder.root.parent.parent

    def until(self, stage: Until) -> dict[str, float]:
        """Go on until `stage` has finished; what was measured there, by bias type and `overall`."""
        self._speak()
        if stage == "data":
            return pairs_by_type(self.folder)
        self._fetch("sft", sft_key(self.plan, self.folder))
        if stage == "sft":
            self._run("sft")
            self.store.keep("sft", sft_key(self.plan, self.folder), self.folder)
            return sft_accuracy(self.plan, self.folder)
        if self.folder.manifest("eval") is None:
            keys = {"sft": sft_key}
            if "ppo" in self.plan.train.after:
                self._fetch("reward", reward_key(self.plan, self.folder))
                keys["reward"] = reward_key
            self._run("eval")
            for name, key in keys.items():
                self.store.keep(name, key(self.plan, self.folder), self.folder)
        return trained_accuracy(self.folder)

    def _speak(self) -> None:
        """Topics, debates and data; no engine starts where the store has them."""
        if self.folder.manifest("topics") is None:
            self._begin_topics()
        key = debates_key(self.plan, self.most_topics)
        self._fetch("debates", key)
        trained = self.plan.referee.fitted
        if trained and self.folder.manifest("debates") is None:
            self._fetch("referee", referee_key(self.plan))
        calls = self.store.calls(self._sweep / "cache")
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
        source = RunFolder(self._sweep / "topics" / key)
        if not self.store.fetch("topics", key, source):
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
    measured = trial.until(until)  # type: ignore[arg-type]
    folder.write_json(
        "result.json",
        {
            "key": trial.plan.digest(),
            "measured": {**before["measured"], until: measured},
            "tokens": tokens_of(folder),
            "fetched": sorted({*before["fetched"], *trial.fetched}),
            "seconds": _seconds(folder, trial.fetched),
        },
    )
    if until == "eval":
        trial.drop_models()


def result_of(folder: RunFolder) -> dict[str, Any] | None:
    """What a trial has measured so far, None if nothing."""
    if not (folder.root / "result.json").exists():
        return None
    found: dict[str, Any] = folder.read_json("result.json")
    return found


def _seconds(folder: RunFolder, fetched: list[str]) -> float:
    """Of the stages that were carried out here."""
    stages = [finish(folder, name) for name in PIPELINE if name not in ("topics", *fetched)]
    return sum(stage.seconds for stage in stages if stage is not None)


if __name__ == "__main__":
    typer.run(main)
