"""`rldf referee`: whether a plan's referee is to be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from rich.table import Table

from rldf_ray.cluster.provenance import provenance
from rldf_ray.console import Progress, table_console, write
from rldf_ray.errors import UserError
from rldf_ray.figures.pipes import pipes
from rldf_ray.models.limits import spent_together
from rldf_ray.plan import Plan, PlanError, load_plan
from rldf_ray.storage.json_text import exact_json, json_text
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.yaml_text import read_yaml

if TYPE_CHECKING:
    from rldf_ray.referee.comparison import RefereeRow
    from rldf_ray.stages.run import StageFunction

app = typer.Typer(help="The referee by itself.", no_args_is_help=True)


@app.command()
def audit(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="a preset's name or a YAML file")],
    out: Annotated[
        str, typer.Option("--out", help="the run folder, new or begun before; s3://... as well")
    ],
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
    progress = Progress.beside(as_json)
    run = RunFolder.at(out)
    with spent_together(run.root, [loaded]):
        pipeline.run(loaded, out, progress, only=("audit",), statements=given)
        others = _other_seeds(loaded, run, seeds, given, progress) if seeds > 1 else []
    summary = run.read_object("audit.json", ("verdict", "bag_of_words"))
    if others:
        summary["seeds"] = _over_seeds(loaded, [out, *others])
        with run.locked():
            run.write_json("audit.json", summary)
    write(json_text(summary, indent=2) if as_json else "\n".join(_in_words(summary)))


@app.command()
def compare(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="a preset's name or a YAML file")],
    out: Annotated[
        str,
        typer.Option("--out", metavar="DIR", help="a folder for all of them; s3://... as well"),
    ],
    referee: Annotated[
        list[str],
        typer.Option(
            "--referee",
            metavar="NAME=FIELDS",
            help="a referee: its name, and what differs from the plan's `referee` section, as "
            "'pair={kind: debate, rounds: 1}'; the first is what the others are held against",
        ),
    ],
    set_: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
    ] = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="print comparison.json")] = False,
) -> None:
    """Several referees on the same labelled statements: AUC, biases, cost, and which to take."""
    from rldf_ray import pipeline
    from rldf_ray.referee.comparison import (
        as_facts,
        check_same,
        comparison_table,
        recommendation,
    )
    from rldf_ray.referee.fit import shared_statements
    from rldf_ray.stages.audit import audit_with_biases
    from rldf_ray.stages.table import STAGES

    plans = {name: load_plan(plan, [*set_, *fields]) for name, fields in _named(referee).items()}
    audited = shared_statements(plans)
    progress = Progress.beside(as_json)
    folder = RunFolder.at(out)
    for name, loaded in plans.items():
        progress.say(f"{name}: {loaded.referee.kind}")
        with spent_together(folder.root, plans.values()):
            pipeline.run(
                loaded,
                folder.address(name),
                progress,
                only=("audit",),
                stages_of={**STAGES, "audit": partial(audit_with_biases, statements=audited)},
            )
    runs = {name: RunFolder.at(folder.address(name)) for name in plans}
    rows = [_row(name, loaded, runs[name]) for name, loaded in plans.items()]
    check_same(rows)
    facts = as_facts(rows) | {"made_by": provenance()}
    table = comparison_table(rows)
    with folder.locked():
        folder.write_json("comparison.json", facts)
        folder.write_text("comparison.md", f"{pipes(table)}\n\n{recommendation(rows)}\n")
    if as_json:
        write(json_text(facts, indent=2))
        return
    shown = Table(*table[0], box=None)
    for cells in table[1:]:
        shown.add_row(*cells)
    table_console().print(shown)
    write(recommendation(rows))


def _named(referees: list[str]) -> dict[str, list[str]]:
    """Each referee's name and overrides of the plan."""
    found: dict[str, list[str]] = {}
    for text in referees:
        name, equals, fields = text.partition("=")
        if not equals or not name.replace("-", "").replace("_", "").isalnum() or name in found:
            raise PlanError(
                f"--referee {text!r}: expected NAME={{FIELD: VALUE, ...}} with a name of its own "
                "of letters, digits, '-' and '_'"
            )
        try:
            values = read_yaml(fields) or {}
        except yaml.YAMLError as error:
            raise PlanError(f"--referee {text!r}: {fields!r} is no YAML ({error})") from error
        if not isinstance(values, dict):
            raise PlanError(f"--referee {text!r}: {fields!r} are no fields, as {{kind: debate}}")
        found[name] = [
            f"{field}={exact_json(value, field, default=str)}"
            for field, value in _dotted("referee", values)
        ]
    return found


def _dotted(above: str, values: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The fields in a section and the sections in it, so that all others stay the plan's."""
    for name, value in values.items():
        field = f"{above}.{name}"
        if isinstance(value, dict):
            yield from _dotted(field, value)
        else:
            yield field, value


def _row(name: str, plan: Plan, folder: RunFolder) -> RefereeRow:
    from rldf_ray.referee.comparison import RefereeRow
    from rldf_ray.referee.labelled_statements import LabelledStatement
    from rldf_ray.storage.results import finish

    field = "expected_score" if plan.referee.label_source == "expected" else "score"
    rows = folder.read_table("eval/referee.parquet").to_pylist()
    scored = [row for row in rows if row[field] is not None]
    names = LabelledStatement.model_fields
    statements = [LabelledStatement.model_validate({n: row[n] for n in names}) for row in rows]
    done = finish(folder, "audit")
    tokens = (done.tokens if done else None) or {}
    return RefereeRow(
        name=name,
        audit=folder.read_object("audit.json", ("auc", "biases")),
        scores={(row["context"], row["text"]): row[field] for row in scored},
        labels={(s.context, s.text): s.label for s in statements},
        clusters={(s.context, s.text): s.cluster for s in statements},
        seconds=done.seconds if done else 0.0,
        tokens=tokens.get("prompt", 0) + tokens.get("generated", 0),
    )


def _other_seeds(
    plan: Plan, out: RunFolder, seeds: int, given: Path | None, progress: Progress
) -> list[str]:
    """The folders of the seeds after the plan's, audited on the statements of the first.

    By a seed of its own each would draw another sample (`referee.audit_pairs`).
    """
    from rldf_ray import pipeline
    from rldf_ray.referee.fit import audit_statements
    from rldf_ray.stages.audit import audit_on
    from rldf_ray.stages.table import STAGES

    stages: dict[str, StageFunction] = {**STAGES}
    if given is None:
        stages["audit"] = partial(audit_on, statements=audit_statements(plan))
    folders = [out.address(f"seeds/{plan.seed + i}") for i in range(1, seeds)]
    for i, folder in enumerate(folders, start=1):
        of_seed = plan.model_copy(update={"seed": plan.seed + i})
        pipeline.run(of_seed, folder, progress, only=("audit",), statements=given, stages_of=stages)
    return folders


def _over_seeds(plan: Plan, folders: Sequence[str | Path]) -> dict[str, Any]:
    """What `seeds` in audit.json holds: each seed's AUC, and how alike their scores are.

    Raises:
        UserError: the audit in a folder is of other statements.
    """
    from rldf_ray.referee.self_agreement import over_seeds

    field = "expected_score" if plan.referee.label_source == "expected" else "score"
    runs = [RunFolder.at(folder) for folder in folders]
    tables = [run.read_table("eval/referee.parquet").to_pylist() for run in runs]
    first, *others = [{(row["context"], row["text"]) for row in rows} for rows in tables]
    for folder, statements in zip(folders[1:], others, strict=True):
        if statements != first:
            raise UserError(
                f"{folder} was audited on {len(statements)} statements, and {folders[0]} on "
                f"{len(first)} that are not the same: its audit is of an earlier command; delete "
                "that folder, and give the command again"
            )
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
            line += f"; the referee is {beyond['value']:+.2f} from it"
            if beyond["low"] is not None:
                line += f" (95 % interval {beyond['low']:+.2f} to {beyond['high']:+.2f})"
        lines.append(line)
    seeds = summary.get("seeds")
    if seeds is not None:
        aucs = ", ".join("none" if auc is None else f"{auc:.3f}" for auc in seeds["aucs"])
        line = f"Seeds: AUC {aucs} on {seeds['statements']} statements, the same of each"
        if seeds["labels_agree"] is not None:
            line += f"; two seeds label {seeds['labels_agree']['value']:.0%} of statements alike"
        lines.append(line)
    return lines
