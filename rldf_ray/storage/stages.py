"""The stages of a run: their order, and what everybody has to know about each.

This is the one table of them. What a stage does is a function in `rldf_ray/stages/`; the table is
down here because a store, a check or a report has to know a stage without carrying it out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of the pipeline.

    Attributes:
        name: names its manifest, stages/NAME.json.
        files: the files and folders it writes in the run folder, beside its manifest.
        needs: stages that have to have finished before it.
        reads: stages whose results it reads where they are there.
        speaks: the plan's speakers talk in it; their engines stay up from one such stage to the
            next.
        asks_referee: a referee that is to be fitted has to be fitted before it.
        trains: it leaves a model, in a folder that bears its name.
        computes: models of the run itself compute in it, on the cluster's workers.
    """

    name: str
    files: tuple[str, ...]
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    speaks: bool = False
    asks_referee: bool = False
    trains: bool = False
    computes: bool = False


# All there are; `pipeline` is those of one run in its order. Nothing needs the audit: it is a
# measurement that the report alone reads. The referee is a stage only where the plan has it fitted.
PIPELINE: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(name="referee", files=("labelled", "referee"), trains=True, computes=True),
        Stage(name="topics", files=("data/topics.parquet",), speaks=True),
        Stage(
            name="audit",
            files=("eval/referee.parquet", "audit.json"),
            speaks=True,
            asks_referee=True,
        ),
        Stage(
            name="debates",
            # The second where another protocol than multirole was held (docs/sources.md).
            files=("data/transcripts.parquet", "source"),
            needs=("topics",),
            speaks=True,
            asks_referee=True,
        ),
        Stage(
            name="data",
            files=(
                "data/sft.parquet",
                "data/pairs.parquet",
                "data/prompts.parquet",
                "data/README.md",
            ),
            needs=("topics", "debates"),
        ),
        Stage(name="sft", files=("sft",), needs=("data",), trains=True, computes=True),
        Stage(name="reward", files=("reward",), needs=("data", "sft"), trains=True, computes=True),
        Stage(name="ppo", files=("ppo",), needs=("sft", "reward"), trains=True, computes=True),
        Stage(name="dpo", files=("dpo",), needs=("data", "sft"), trains=True, computes=True),
        Stage(name="kto", files=("kto",), needs=("data", "sft"), trains=True, computes=True),
        Stage(
            name="eval",
            files=("eval/items.parquet", "eval/answers.parquet"),
            needs=("sft",),
            reads=("reward",),
            computes=True,
        ),
    )
}
POLICIES = ("ppo", "dpo", "kto")
"""Stages that train the policy after SFT; a plan's `train.after` names its own."""
SPEAKING = tuple(stage.name for stage in PIPELINE.values() if stage.speaks)
TRAINING = tuple(stage.name for stage in PIPELINE.values() if stage.trains)


def pipeline(after: Sequence[str]) -> dict[str, Stage]:
    """The stages of a run whose `train.after` this is, in its order.

    Each of `after` begins as the one before it left the policy; what comes after training reads
    the last. Without PPO a whole run does not train a reward model (`whole_run`), but may.
    """
    stages = {name: stage for name, stage in PIPELINE.items() if name not in (*POLICIES, "eval")}
    previous: tuple[str, ...] = ()
    for name in after:
        stage = PIPELINE[name]
        stages[name] = replace(stage, needs=(*stage.needs, *previous))
        previous = (name,)
    scored = ("reward",) if "ppo" in after else ()
    evaluation = PIPELINE["eval"]
    stages["eval"] = replace(evaluation, needs=(*evaluation.needs, *scored, *previous))
    return stages


def whole_run(after: Sequence[str]) -> tuple[str, ...]:
    """The stages that `rldf run` carries out: nothing but PPO needs a reward model."""
    return tuple(name for name in pipeline(after) if name != "reward" or "ppo" in after)


def begins_as(name: str, after: Sequence[str]) -> str:
    """The stage whose policy one of `after` begins as."""
    return ("sft", *after)[after.index(name)]


def needed_by(name: str, after: Sequence[str] = ("ppo",)) -> list[str]:
    """All that has to have finished before a stage, in the order of the pipeline."""
    stages = pipeline(after)
    needed = {*stages[name].needs}
    for stage in reversed(stages.values()):
        if stage.name in needed:
            needed |= {*stage.needs}
    return [other for other in stages if other in needed]


def depending_on(names: Collection[str], after: Sequence[str] = ("ppo",)) -> list[str]:
    """These stages and all that has to be done anew after them, in the order of the pipeline."""
    stages, again = pipeline(after), {*names}
    for stage in stages.values():
        if again & {*stage.needs, *stage.reads} or (stage.asks_referee and "referee" in again):
            again.add(stage.name)
    return [other for other in stages if other in again]


def redo_advice(name: str) -> str:
    """What to do about a broken file of a run folder: which stage, or command, writes it again."""
    top, _, below = name.partition("/")
    writer = below.removesuffix(".json") if top == "stages" else writer_of(name)
    if writer in PIPELINE:
        return f"do the stage {writer} again (delete stages/{writer}.json, then `rldf run`)"
    return (
        "`rldf report` writes it again" if below == "" else "delete it, and run its command again"
    )


def writer_of(name: str) -> str | None:
    """The stage that writes a file of a run folder; None where none does."""
    files = {file: stage.name for stage in PIPELINE.values() for file in stage.files}
    return files.get(name, files.get(name.partition("/")[0]))


def is_large(name: str) -> bool:
    """Whether an object of a run is a log, or a part of a model or of a checkpoint."""
    return name.partition("/")[0] == "logs" or is_of_model(name)


def is_of_model(name: str) -> bool:
    """Whether an object of a run is a part of a model or of a checkpoint.

    What lies directly in the folder of a training stage is small and is read by later stages.
    """
    top, _, below = name.partition("/")
    return top == "model" or (top in TRAINING and "/" in below)
