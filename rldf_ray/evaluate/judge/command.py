"""`rldf eval judge`: BS, CE and LS of free answers by a judging model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.storage.run_folder import local_copy

PLACE = 3


def judge(
    source: Annotated[
        str, typer.Argument(metavar="ANSWERS", help="a run's folder, or a .parquet or .jsonl file")
    ],
    judge_: Annotated[
        str, typer.Option("--judge", metavar="BACKEND", help="vllm:MODEL or openai:MODEL")
    ],
    measures: Annotated[
        str | None,
        typer.Option(
            "--measures",
            help="some of BS,CE,LS and the names of rubrics of yours, separated by commas; "
            "default: all of them",
        ),
    ] = None,
    rubric: Annotated[
        list[Path],
        typer.Option(
            "--rubric",
            metavar="FILE",
            help="a measure of your own, in the form of the shipped ones (docs/judging.md)",
        ),
    ] = [],  # noqa: B006
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
    """Bias, communication, logic and measures of your own of free answers, 0-100."""
    from rldf_ray.evaluate.judge.answers import RUN_ANSWERS
    from rldf_ray.evaluate.judge.run import judged
    from rldf_ray.evaluate.judge.tables import leave

    summary = judged(
        local_copy(source, "plan.yaml", "stages", RUN_ANSWERS),
        judge_,
        measures=None if measures is None else [name.strip() for name in measures.split(",")],
        rubrics=rubric,
        prompts=prompts,
        against=against,
        audit_pairs=audit_pairs,
        plan=plan,
        overrides=set_,
        seed=seed,
        out=out,
    )
    leave(summary, as_json)


COMMANDS = {"judge": judge}
