"""`rldf referee`: whether a plan's referee is to be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rldf_ray.console import Progress, write
from rldf_ray.plan import Plan, load_plan
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

app = typer.Typer(help="The referee by itself.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `audit` a command of its own while it is the only one."""


@app.command()
def audit(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="a preset's name or a YAML file")],
    out: Annotated[Path, typer.Option("--out", help="the run folder, new or begun before")],
    statements: Annotated[
        Path | None,
        typer.Option("--statements", metavar="FILE", help="jsonl: text, label, maybe context"),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="audit this many seeds, the plan's and the next")
    ] = 1,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
    ] = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="print audit.json")] = False,
) -> None:
    """How well the referee tells biased from fair statements whose label is known.

    A trained referee is fitted first, with --seeds once for every seed.
    """
    from rldf_ray import pipeline
    from rldf_ray.referee.labelled_statements import given_statements

    given = statements.resolve() if statements else None
    if given is not None:
        given_statements(given)
    loaded = load_plan(plan, set_)
    folders = [out, *(out / "seeds" / str(loaded.seed + i) for i in range(1, seeds))]
    for i, folder in enumerate(folders):
        of_seed = loaded.model_copy(update={"seed": loaded.seed + i})
        pipeline.run(of_seed, folder, Progress(), only=("audit",), statements=given)
    run = RunFolder.at(out)
    summary = run.read_object("audit.json", ("verdict", "bag_of_words"))
    if seeds > 1:
        summary["seeds"] = _over_seeds(loaded, folders)
        run.write_json("audit.json", summary)
    write(json_text(summary, indent=2) if as_json else "\n".join(_in_words(summary)))


def _over_seeds(plan: Plan, folders: list[Path]) -> dict[str, Any]:
    """What `seeds` in audit.json holds: each seed's AUC, and how alike their scores are."""
    from rldf_ray.referee.self_agreement import over_seeds

    field = "expected_score" if plan.referee.label_source == "expected" else "score"
    runs = [RunFolder.at(folder) for folder in folders]
    tables = [run.read_table("eval/referee.parquet").to_pylist() for run in runs]
    scores = [
        {(row["context"], row["text"]): row[field] for row in rows if row[field] is not None}
        for rows in tables
    ]
    aucs = [run.read_object("audit.json", ("auc",))["auc"] for run in runs]
    return {"aucs": aucs, **over_seeds(scores, plan.referee.threshold, plan.seed)}


def _in_words(summary: dict[str, Any]) -> list[str]:
    lines = [summary["verdict"]]
    words, beyond = summary["bag_of_words"], summary.get("beyond_bag_of_words")
    if words is not None:
        line = f"A bag of words, fitted to our other half: AUC {words['auc']:.2f}"
        if beyond is not None:
            line += (
                f"; the referee is {beyond['value']:+.2f} from it (95 % interval "
                f"{beyond['low']:+.2f} to {beyond['high']:+.2f})"
            )
        lines.append(line)
    seeds = summary.get("seeds")
    if seeds is not None:
        aucs = ", ".join("none" if auc is None else f"{auc:.3f}" for auc in seeds["aucs"])
        line = f"Seeds: AUC {aucs}"
        if seeds["labels_agree"] is not None:
            line += f"; two seeds label {seeds['labels_agree']['value']:.0%} of statements alike"
        lines.append(line)
    return lines
