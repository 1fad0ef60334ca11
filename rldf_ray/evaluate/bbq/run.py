"""What `rldf eval bbq` does once its options are read: items, answers, files, tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from rldf_ray.cluster.provenance import provenance
from rldf_ray.console import Progress, TextConsole, table_console, write
from rldf_ray.engines.endpoint_answers import is_endpoint, remembering
from rldf_ray.evaluate.bbq.ask import (
    DType,
    ask_endpoint,
    asked_items,
    check_mode,
    model_folder,
    rank_locally,
)
from rldf_ray.evaluate.bbq.predictions import read_predictions, read_subset
from rldf_ray.evaluate.bbq.prompt import ItemPrompt, Mode
from rldf_ray.evaluate.bbq.summary import PREDICTIONS, Answer, Evaluation
from rldf_ray.evaluate.bbq.variants import FIGURES, Variant
from rldf_ray.evaluate.contamination import overlap_sentence, overlap_with
from rldf_ray.loops import complete
from rldf_ray.models.embedded import short_name
from rldf_ray.plan import Endpoint
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQError, BBQSet, Key
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

OnAnswers = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A model and how to ask it.

    Attributes:
        model: a model folder, a run's folder, a hub id, `embedded`, or `openai:NAME`.
        permute: options in an order drawn by `seed`, else as published.
        dtype, tokens: of a model folder: precision, and size of a forward pass.
        endpoint: of `openai:NAME`.
    """

    model: str
    mode: Mode
    variant: Variant
    permute: bool
    seed: int
    dtype: DType
    tokens: int
    endpoint: Endpoint


def read_items(folder: Path, number: int | None, seed: int, only: Path | None) -> BBQSet:
    """All items, a sample of `number` a category, or the subset a file names.

    Raises:
        BBQError, LinesError: a sample of a subset is asked for, or as `load_bbq` and `read_subset`.
    """
    if only is not None and number is not None:
        raise BBQError("--items and --only: allowed is one of them")

    if only is None:
        return load_bbq(folder, None, number, seed)
    every_item = load_bbq(folder)
    return every_item.only(set(read_subset(only, every_item)))


def scored(
    path: Path, folder: Path, variant: Variant, seed: int, only: Path | None = None
) -> Evaluation:
    """Predictions of a file as an evaluation, of the items that `only` names if it is given."""

    given = read_predictions(path, folder, only)
    if given.unscored:
        write(
            f"{given.unscored} items of {only} are of categories that {path} says nothing about: "
            "they are not scored",
            to_stderr=True,
        )
    digits = sum(
        text.strip() in ("0", "1", "2") and given.predictions[key] is None
        for key, text in given.texts.items()
    )
    if digits:
        write(
            f"{digits} predictions of {path} are the text of a digit, which is no option: they "
            "count as unparsed; an index is a number without quotes",
            to_stderr=True,
        )
    answers = {
        key: Answer(prediction, text=given.texts.get(key))
        for key, prediction in given.predictions.items()
    }
    return Evaluation(
        model=path.stem,
        mode=PREDICTIONS,
        variant=variant,
        items=given.items,
        answers=answers,
        seed=seed,
        missing=given.missing,
    )


def evaluate(request: Request, items: BBQSet, out: RunFolder) -> Evaluation:
    """Ask the model; what an endpoint has answered is kept in `out` and not asked again."""

    check_mode(request.model, request.mode)
    prompts = asked_items(items.items, request.mode, request.permute, request.seed)
    progress = Progress(TextConsole(stderr=True, soft_wrap=True))
    with progress.bar("BBQ items", len(items.items)) as bar:
        if is_endpoint(request.model):
            answers = _from_endpoint(request, items, prompts, out, progress, bar.advance)
        else:
            answers = _from_folder(request, items, prompts, bar.advance)
    return Evaluation(
        model=request.model,
        mode=request.mode,
        variant=request.variant,
        items=items,
        answers=answers,
        seed=request.seed,
    )


def _from_folder(
    request: Request, items: BBQSet, prompts: Sequence[ItemPrompt], on_answers: OnAnswers
) -> Mapping[Key, Answer]:

    return rank_locally(
        model_folder(request.model),
        items.items,
        prompts,
        mode=request.mode,
        dtype=request.dtype,
        tokens=request.tokens,
        on_answers=on_answers,
    )


def _from_endpoint(
    request: Request,
    items: BBQSet,
    prompts: Sequence[ItemPrompt],
    out: RunFolder,
    progress: Progress,
    on_answers: OnAnswers,
) -> Mapping[Key, Answer]:

    with remembering(request.model, request.endpoint, out, progress) as model:
        return complete(
            ask_endpoint(model, items.items, prompts, request.mode, request.seed, on_answers)
        )


def default_out(model: str, mode: str) -> Path:
    """`runs/bbq/NAME-MODE`, the model's short name without what a file's name cannot hold."""
    name = model if is_endpoint(model) else short_name(model)
    return Path("runs/bbq") / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.')}-{mode}"


def save(evaluation: Evaluation, out: RunFolder) -> dict[str, Any]:
    """eval/bbq.parquet and eval/bbq.json; returns what the latter says."""
    written = out.write_table("eval/bbq.parquet", evaluation.table())
    overlap = overlap_with(evaluation.model, evaluation.items.items)
    summary = evaluation.summary() | {"overlap": overlap, "written": str(written)} | provenance()
    out.write_json("eval/bbq.json", summary)
    return summary


def leave(evaluation: Evaluation, out: RunFolder, as_json: bool) -> None:
    """Write the files, and print JSON or the tables."""
    summary = save(evaluation, out)
    if as_json:
        print(json_text(summary, indent=2))
        return
    console = table_console()
    console.print(scores_table(summary))
    console.print(positions_table(summary))
    for line in remarks(summary):
        console.print(line, markup=False)


def scores_table(summary: Mapping[str, Any]) -> Table:
    """Categories, the overall row, the columns' mean, and the rows of reference."""
    title = f"{summary['model']}, {summary['mode']}, variant {summary['variant']}"
    table = Table("", "items", *FIGURES, title=title)
    for name, one in [*summary["categories"].items(), ("all items", summary["overall"])]:
        table.add_row(name, str(one["n"]), *(_cell(one, figure) for figure in FIGURES))
    means = summary["mean_of_categories"]
    table.add_row("mean of categories", "", *(_cell(means[f], "value") for f in FIGURES))
    for name, one in summary["reference"].items():
        table.add_row(name.replace("_", " "), "", *(_cell(one, figure) for figure in FIGURES))
    return table


def positions_table(summary: Mapping[str, Any]) -> Table:
    """What was chosen, and what was right, by the place it was shown at."""
    table = Table("shown as", "share of answers", "accuracy where right")
    for letter, chosen in summary["positions"]["chosen"].items():
        right = summary["positions"]["accuracy"][letter]
        table.add_row(letter, _cell(chosen or {}, "share"), _cell(right or {}, "share"))
    return table


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """What a reader must know besides the figures."""
    unparsed, refusals = summary["unparsed"], summary["refusals"]
    lines = [
        f"{unparsed['number']} answers were no option, {refusals['number']} of them refusals"
        + (f", {summary['missing']} items had no prediction" if summary["missing"] else ""),
        f"95 % intervals resample {summary['set']['templates']} question templates.",
        _unknown(summary),
        summary["positions"]["verdict"],
        "Places are those of the published order: a file does not say what was shown."
        if summary["mode"] == PREDICTIONS
        else None,
        summary["set"]["why_no_bias_scores"],
        summary["overlap"] and overlap_sentence(summary["overlap"], "BBQ"),
        f"every item: {summary['written']}",
    ]
    return [line for line in lines if line]


def _unknown(summary: Mapping[str, Any]) -> str | None:
    """How often it abstains, and the abstention AUROC; None without disambiguated items."""
    abstained, right = (summary["overall"][name] for name in ("unknown_disambig", "accuracy_named"))
    if abstained is None:
        return None
    auc, both = summary["unknown_auc"], summary["both_right"]
    text = f'Where the context tells, {abstained:.2f} of the answers are "unknown"'
    if right is not None:
        text += f", and {right:.2f} of the others right (a guess: 0.50)"
    if auc is not None:
        text += (
            f'; abstention AUROC of the margin of "unknown" for where it does not: {auc:.2f}; at '
            f"some threshold, an item of each kind is right in {both:.2f} (a guess: 0.25)"
        )
    return f"{text}."


def _cell(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if value is None:
        return "n/a"
    bounds = ("low", "high") if name == "share" else (f"{name}_low", f"{name}_high")
    low, high = (values.get(bound) for bound in bounds)
    return f"{value:.3f}" + ("" if low is None else f" ({low:.2f} to {high:.2f})")
