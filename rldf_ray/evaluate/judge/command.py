"""`rldf eval judge`: BS, CE and LS of free answers by a judging model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.plan import PlanError, load_plan

PLACE = 3


def judge(
    source: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="a run's folder, or a .parquet or .jsonl file")
    ],
    judge_: Annotated[
        str, typer.Option("--judge", metavar="BACKEND", help="vllm:MODEL or openai:MODEL")
    ],
    measures: Annotated[
        str, typer.Option("--measures", help="some of BS,CE,LS, separated by commas")
    ] = "BS,CE,LS",
    prompts: Annotated[
        int | None,
        typer.Option("--prompts", min=1, help="judge the answers to this many prompts, by seed"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="METHOD", help="also compare with its answers in pairs"),
    ] = None,
    audit_pairs: Annotated[
        int,
        typer.Option("--audit-pairs", min=0, help="labelled pairs of each bias type, or 0"),
    ] = 16,
    plan: Annotated[
        str | None,
        typer.Option("--plan", help="engines and endpoint of this plan; default: the run's"),
    ] = None,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
    ] = [],  # noqa: B006
    seed: Annotated[int, typer.Option("--seed", help="of sample, calls and intervals")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="default: runs/judge/ANSWERS")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """Bias score, communication effectiveness and logical soundness of free answers, 0-100."""
    from rldf_ray.evaluate.judge.rubrics import MEASURES
    from rldf_ray.evaluate.judge.run import Request, evaluate
    from rldf_ray.evaluate.judge.tables import leave
    from rldf_ray.plan.saved import saved_plan
    from rldf_ray.storage.run_folder import RunFolder

    named = [name.strip() for name in measures.split(",")]
    known = tuple(name for name in MEASURES if name in named)
    if len(known) != len(named):
        raise PlanError(f"--measures is {measures!r}; allowed: some of BS, CE, LS, each once")
    run = _run_of(source)
    saved = (run or source) / "plan.yaml"
    theirs = saved_plan(RunFolder(saved.parent)) if saved.is_file() else None
    asked_with = load_plan(plan or (str(saved) if theirs else "quickstart"), set_)
    request = Request(
        source=source,
        judge=judge_,
        plan=asked_with,
        theirs=theirs,
        measures=known,
        prompts=prompts,
        against=against,
        audit_pairs=audit_pairs,
        seed=seed,
    )
    folder = RunFolder.at(out or Path("runs/judge") / (run.name if run else source.stem))
    leave(evaluate(request, folder), as_json)


def _run_of(source: Path) -> Path | None:
    """The folder of the run or comparison whose answers these are; None of any other file."""
    from rldf_ray.evaluate.judge.answers import COMPARED_ANSWERS, RUN_ANSWERS

    whole = source.resolve()
    if whole.is_dir():
        return whole
    known = (RUN_ANSWERS, COMPARED_ANSWERS)
    return whole.parents[1] if "/".join(whole.parts[-2:]) in known else None


COMMANDS = {"judge": judge}
