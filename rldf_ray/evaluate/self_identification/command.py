"""`rldf eval self-identification`: the same answers as one's own, another's, a competitor's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.plan import load_plan
from rldf_ray.storage.run_folder import local_copy

PLACE = 5


def self_identification(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="a model folder, a run's folder, 'embedded', or openai:NAME"
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="where results are written")],
    answers: Annotated[
        str | None,
        typer.Option(
            "--answers",
            metavar="PATH",
            help="question-answer pairs: jsonl, or a run's folder; default: our own writing",
        ),
    ] = None,
    of: Annotated[
        str, typer.Option("--of", help="whose answers to take from a run: base, sft or policy")
    ] = "policy",
    items: Annotated[
        int | None, typer.Option("--items", min=1, help="pairs, a seeded sample; all by default")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="replies to each pair under each framing")
    ] = 4,
    attention: Annotated[
        bool, typer.Option("--attention/--no-attention", help="maps, for a model folder")
    ] = True,
    plan: Annotated[
        str, typer.Option("--plan", help="whose engines, endpoint and seed to use")
    ] = "quickstart",
    set_: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
    ] = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """How many biases a model names in answers shown as its own, another's, a competitor's."""
    loaded = load_plan(plan, set_)
    from rldf_ray.evaluate.self_identification import run as work
    from rldf_ray.evaluate.self_identification.pairs import ANSWERS, OWN_WRITING, question_answers

    needed = ("plan.yaml", "stages", ANSWERS)
    source = OWN_WRITING if answers is None else local_copy(answers, *needed)
    pairs = question_answers(source, of, items, loaded.seed)
    request = work.Request(
        model=model, plan=loaded, source=source, samples=samples, attention=attention
    )
    work.leave(work.identify(request, pairs, out), as_json)


COMMANDS = {"self-identification": self_identification}
