"""What `rldf eval multirole` does once its options are read: queries, answers, files, tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from rldf_ray.cluster.provenance import provenance
from rldf_ray.console import Progress, TextConsole, table_console, write
from rldf_ray.engines.endpoint_answers import is_endpoint, remembering
from rldf_ray.evaluate.bbq.ask import DType, check_mode
from rldf_ray.evaluate.bbq.prompt import Mode
from rldf_ray.evaluate.bbq.run import default_out as bbq_out
from rldf_ray.evaluate.contamination import overlap_sentence, overlap_with
from rldf_ray.evaluate.long_format import ALL, long_table
from rldf_ray.evaluate.multirole.ask import evaluate_folder, evaluate_model
from rldf_ray.evaluate.multirole.data import load_multirole
from rldf_ray.evaluate.multirole.predictions import (
    bias_types_in,
    read_multirole_predictions,
    written_queries,
)
from rldf_ray.evaluate.multirole.summary import OUTCOMES, MultiroleEvaluation
from rldf_ray.loops import complete
from rldf_ray.models.journaled import settled
from rldf_ray.plan import Endpoint
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A model and how to ask it; the fields are those of `bbq_work.Request`."""

    model: str
    mode: Mode
    permute: bool
    seed: int
    dtype: DType
    tokens: int
    endpoint: Endpoint


def write_queries(data: Path, number: int, seed: int, path: Path) -> None:
    """The sample's queries with their options shuffled, for a model that is asked elsewhere."""
    queries = load_multirole(data, number, seed)
    text = written_queries(queries, seed)
    RunFolder(path.resolve().parent).write_text(path.name, text)
    write(f"{len(queries.queries)} queries: {path}")


def scored(path: Path, data: Path, number: int, seed: int) -> MultiroleEvaluation:
    """Predictions of a file as an evaluation, on the bias types in the file."""
    queries = load_multirole(data, number, seed, bias_types_in(path))
    given = read_multirole_predictions(path, queries)
    if given.ignored:
        write(
            f"{given.ignored} lines of {path} are about rows that are not in this sample "
            f"(--queries {number}, --seed {seed}); a larger --queries takes more rows, but none "
            "that repeats another",
            to_stderr=True,
        )
    return MultiroleEvaluation(
        model=path.stem,
        mode="predictions",
        queries=queries,
        answers=given.answers,
        seed=seed,
        missing=given.missing,
    )


def evaluate(request: Request, data: Path, number: int, out: RunFolder) -> MultiroleEvaluation:
    """Ask the model; what an endpoint has answered is kept in `out` and not asked again."""
    check_mode(request.model, request.mode)
    queries = load_multirole(data, number, request.seed)
    progress = Progress(TextConsole(stderr=True, soft_wrap=True))
    with progress.bar("queries", len(queries.queries)) as bar:
        if not is_endpoint(request.model):
            return evaluate_folder(
                request.model,
                queries,
                mode=request.mode,
                seed=request.seed,
                permute=request.permute,
                dtype=request.dtype,
                tokens=request.tokens,
                on_answers=bar.advance,
            )
        with remembering(request.model, request.endpoint, out, progress) as model:
            evaluated = evaluate_model(
                model,
                queries,
                mode=request.mode,
                seed=request.seed,
                permute=request.permute,
                on_answers=bar.advance,
            )
            return complete(settled(evaluated, (model,)))


def default_out(model: str, mode: str) -> Path:
    """`runs/multirole/NAME-MODE`."""
    return Path("runs/multirole") / bbq_out(model, mode).name


def leave(
    evaluation: MultiroleEvaluation, method: str | None, out: RunFolder, as_json: bool
) -> None:
    """eval/multirole.parquet, multirole_long.parquet, multirole.json; print JSON or the tables."""
    written = out.write_table("eval/multirole.parquet", evaluation.table())
    name = method or evaluation.model
    long = long_table(name, 0, evaluation.seed, "multirole", evaluation.values())
    out.write_table("eval/multirole_long.parquet", long)
    overlap = overlap_with(evaluation.model, evaluation.queries.items)
    summary = evaluation.summary() | {"overlap": overlap, "written": str(written)} | provenance()
    out.write_json("eval/multirole.json", summary)
    if as_json:
        print(json_text(summary, indent=2))
        return
    console = table_console()
    console.print(shares_table(summary))
    if summary["positions"] is not None:
        console.print(places_table(summary["positions"]))
    for line in remarks(summary):
        console.print(line, markup=False)


def shares_table(summary: Mapping[str, Any]) -> Table:
    """Bias types and all queries."""
    title = f"{summary['model']}, {summary['mode']}: share of answers"
    table = Table("", "queries", *(name.replace("_", "-") for name in OUTCOMES), title=title)
    for name, one in [*summary["bias_types"].items(), (f"{ALL} queries", summary[ALL])]:
        table.add_row(name, str(one["n"]), *(_cell(one[outcome]) for outcome in OUTCOMES))
    return table


def places_table(positions: Mapping[str, Any]) -> Table:
    """What was chosen by the place it was shown at, and the impartial option by where it stood."""
    table = Table("shown as", "share of answers", "impartial, where it stood there")
    for letter, chosen in positions["chosen"].items():
        table.add_row(letter, *map(_cell, (chosen, positions["accuracy"][letter])))
    return table


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """What a reader must know besides the figures."""
    lines = [
        "A guess without reading has a third of each.",
        f"95 % intervals resample {summary['set']['option_sets']} sets of three options.",
        f"{summary['missing']} queries had no prediction" if summary["missing"] else None,
        "The order of the options is not known: its effect was not measured."
        if summary["positions"] is None
        else summary["positions"]["verdict"],
        summary["overlap"] and overlap_sentence(summary["overlap"], "the set"),
        f"every query: {summary['written']}",
    ]
    return [line for line in lines if line]


def _cell(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "n/a"
    interval = "" if one["low"] is None else f" ({one['low']:.3f} to {one['high']:.3f})"
    return f"{one['share']:.3f}{interval}"
