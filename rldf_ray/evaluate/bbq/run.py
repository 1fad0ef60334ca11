"""What `rldf eval bbq` does once its options are read: items, answers, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldf_ray.cluster.provenance import provenance
from rldf_ray.console import Progress, TextConsole, write
from rldf_ray.engines.endpoint_answers import is_endpoint, remembering
from rldf_ray.evaluate.bbq.ask import (
    DType,
    ask_endpoint,
    asked_items,
    check_mode,
    model_folder,
    rank_locally,
)
from rldf_ray.evaluate.bbq.hub import bbq_folder
from rldf_ray.evaluate.bbq.predictions import read_predictions
from rldf_ray.evaluate.bbq.prompt import ItemPrompt, Mode
from rldf_ray.evaluate.bbq.summary import PREDICTIONS, Answer, Evaluation
from rldf_ray.evaluate.bbq.variants import Variant
from rldf_ray.evaluate.contamination import overlap_with
from rldf_ray.loops import complete
from rldf_ray.models.journaled import settled
from rldf_ray.models.names import short_name
from rldf_ray.plan import TREE_TOKENS, Endpoint, PlanError
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQError, BBQSet, Key
from rldf_ray.sets.bbq.subset import read_subset
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
        asked = ask_endpoint(model, items.items, prompts, request.mode, request.seed, on_answers)
        return complete(settled(asked, (model,)))


def default_out(model: str, mode: str) -> Path:
    """`runs/bbq/NAME-MODE`, the model's short name without what a file's name cannot hold."""
    name = model if is_endpoint(model) else short_name(model)
    return Path("runs/bbq") / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.')}-{mode}"


def evaluated(
    model: str | None,
    *,
    bbq: str,
    mode: Mode = "rank",
    variant: Variant = "paper",
    items: int | None = None,
    seed: int = 0,
    permute: bool = True,
    predictions: Path | None = None,
    only: Path | None = None,
    out: Path | None = None,
    dtype: DType = "bfloat16",
    tokens: int = TREE_TOKENS,
    endpoint: Endpoint,
) -> dict[str, Any]:
    """BBQ's scores of a model, or of predictions made elsewhere; the files are in `out`.

    Args:
        bbq: a folder of BBQ's files, or `hub`.
        items: items of each category, stratified; all where none is given.
        only: a file that names the items, as `rldf eval bbq-hard` writes it.
        out: `runs/bbq/MODEL-MODE` where none is given.

    Returns:
        What eval/bbq.json says.

    Raises:
        PlanError: both a model and predictions are given, or neither.
        BBQError, LinesError: the items or predictions cannot be read.
        ModelError: the endpoint did not answer.
    """
    if (model is None) == (predictions is None):
        raise PlanError("rldf eval bbq: needed is either MODEL or --predictions FILE, not both")
    if predictions is not None and items is not None:
        raise PlanError(
            "rldf eval bbq: --items draws what a model is asked; with --predictions allowed is "
            "--only FILE, which names the items to score"
        )
    if predictions is not None:
        evaluation = scored(predictions, bbq_folder(bbq), variant, seed, only)
        target = RunFolder(out or _of_subset(default_out(predictions.stem, PREDICTIONS), only))
        return save(evaluation, target)
    request = Request(
        model=model or "",
        mode=mode,
        variant=variant,
        permute=permute,
        seed=seed,
        dtype=dtype,
        tokens=tokens,
        endpoint=endpoint,
    )
    answers = out or default_out(request.model, mode)
    item_set = read_items(bbq_folder(bbq), items, seed, only)
    evaluation = evaluate(request, item_set, RunFolder(answers))
    return save(evaluation, RunFolder(out or _of_subset(answers, only)))


def _of_subset(folder: Path, only: Path | None) -> Path:
    """Where figures of a subset go, so that those of all items stay."""
    return folder if only is None else folder.with_name(f"{folder.name}-{only.stem}")


def save(evaluation: Evaluation, out: RunFolder) -> dict[str, Any]:
    """eval/bbq.parquet and eval/bbq.json; returns what the latter says."""
    written = out.write_table("eval/bbq.parquet", evaluation.table())
    overlap = overlap_with(evaluation.model, evaluation.items.items)
    summary = evaluation.summary() | {"overlap": overlap, "written": str(written)} | provenance()
    out.write_json("eval/bbq.json", summary)
    return summary
