"""What `rldf eval self-identification` does once its options are read: replies, maps, figures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from rich.table import Table

from rldf_ray.cluster.placement import ELSEWHERE, place
from rldf_ray.cluster.provenance import provenance
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.console import Progress, TextConsole
from rldf_ray.engines.speakers import Speakers
from rldf_ray.evaluate.bbq.ask import model_folder
from rldf_ray.evaluate.self_identification.figures import LABELS, PLACES, draw_attention, draw_named
from rldf_ray.evaluate.self_identification.name_biases import (
    FRAMINGS,
    Naming,
    framing_text,
    name_biases,
    namings_table,
)
from rldf_ray.evaluate.self_identification.pairs import OWN_WRITING, QuestionAnswer
from rldf_ray.evaluate.self_identification.summary import attention_summary, mean_masses, summary
from rldf_ray.models.embedded import weights_revision
from rldf_ray.plan import Plan, PlanError, Speaker
from rldf_ray.plan.speaker import named_backends
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

NAME = "self_identification"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A model and what it is shown.

    Attributes:
        model: a model folder, a run's folder, `embedded`, or `openai:NAME`.
        plan: whose engines, endpoint and seed are used.
        source: where the pairs come from.
        samples: replies to each pair under each framing.
        attention: whether to draw maps; an endpoint has none.
    """

    model: str
    plan: Plan
    source: Path
    samples: int
    attention: bool


def identify(request: Request, pairs: Sequence[QuestionAnswer], out: Path) -> dict[str, Any]:
    """Ask, measure, draw; what has been answered before a kill is not asked again.

    Raises:
        RunFolderError: `out` is in use.
        PlanError: the model is none.
        PlacementError, ModelError: with what to do about it.
    """
    folder = RunFolder.at(out)
    endpoint = Speaker.parse(request.model).backend in named_backends()
    weights = None if endpoint else model_folder(request.model)
    revision = None if weights is None else weights_revision(weights)
    plan = _plan(request, weights)
    progress = Progress(TextConsole(stderr=True, soft_wrap=True))
    with folder.locked():
        namings = _namings(plan, revision, folder, pairs, request.samples, progress)
        result: dict[str, Any] = {
            "model": request.model,
            "source": "our own writing" if request.source == OWN_WRITING else str(request.source),
            "samples": request.samples,
            "seed": plan.seed,
            "framing_texts": {framing: framing_text(framing) for framing in FRAMINGS},
            **summary(namings, plan.seed),
            "attention": None,
            **provenance(),
        }
        folder.write_table(f"eval/{NAME}.parquet", namings_table(namings))
        draw_named(result, folder.root / f"figures/{NAME}")
        if weights is not None and request.attention:
            result["attention"] = _attention(weights, revision, folder, pairs, plan, progress)
        folder.write_json(f"eval/{NAME}.json", result)
    return {**result, "written": str(folder.root)}


def _plan(request: Request, weights: str | None) -> Plan:
    """The plan, with the model asked playing all parts."""
    parts: dict[str, str | None]
    if weights is None:
        parts = {"model": request.plan.model, "teacher": request.model}
    else:
        parts = {"model": weights, "teacher": None}
    values = request.plan.model_dump(mode="json") | parts
    for section in ("topics", "debate", "referee"):
        values[section]["model"] = None
    values["debate"]["seats"] = None
    values["referee"]["kind"] = "prompted"
    try:
        return Plan.model_validate(values, context={"saved": True})
    except ValidationError as error:
        raise PlanError(f"MODEL {request.model}: {error.errors()[0]['msg']}") from error


def _namings(
    plan: Plan,
    revision: str | None,
    folder: RunFolder,
    pairs: Sequence[QuestionAnswer],
    samples: int,
    progress: Progress,
) -> list[Naming]:
    with (
        _speakers(plan, revision, folder, progress) as speakers,
        progress.bar("replies", len(pairs) * len(FRAMINGS)) as bar,
    ):
        work = name_biases(
            speakers.of("referee"), pairs, samples=samples, seed=plan.seed, on_reply=bar.advance
        )
        return speakers.run(work)


@contextmanager
def _speakers(
    plan: Plan, revision: str | None, folder: RunFolder, progress: Progress
) -> Iterator[Speakers]:
    """The model asked, on Ray where it runs on engines."""
    with ExitStack() as opened:
        if plan.speaker_of("referee").paid:
            placement = ELSEWHERE
        else:
            placement = place(plan, opened.enter_context(ray_cluster(folder.root / "logs")))
        speakers = Speakers(
            plan=plan, folder=folder, placement=placement, progress=progress, weights=revision
        )
        opened.callback(speakers.end)
        yield speakers


def _attention(
    weights: str,
    revision: str | None,
    folder: RunFolder,
    pairs: Sequence[QuestionAnswer],
    plan: Plan,
    progress: Progress,
) -> dict[str, Any]:
    from rldf_ray.evaluate.self_identification.attention import SPANS, attention_table

    threads = len(os.sched_getaffinity(0))
    journal = Journal(folder.path("journal/attention.jsonl"))
    with closing(journal), progress.bar("prompts read", len(pairs) * len(FRAMINGS)) as bar:
        table = attention_table(
            weights,
            revision,
            pairs,
            threads=threads,
            journal=journal,
            on_prompt=bar.advance,
            chat_template_kwargs=plan.chat_template_kwargs,
        )
    folder.write_table("eval/attention.parquet", table)
    rows = table.to_pylist()
    masses: dict[tuple[str, str], NDArray[np.float64]] = {
        (place, framing): mean_masses(rows, place, framing, SPANS)
        for place in PLACES
        for framing in FRAMINGS
    }
    draw_attention(masses, SPANS, folder.root / "figures/attention")
    return attention_summary(rows, plan.seed)


def leave(result: Mapping[str, Any], as_json: bool) -> None:
    """Print JSON, or the table and what it shows."""
    if as_json:
        print(json_text(result, indent=2))
        return
    console = TextConsole(soft_wrap=True)
    console.print(table(result))
    console.print(result["verdict"], markup=False)
    console.print(f"every reply, summary and figures: {result['written']}", markup=False)


def table(result: Mapping[str, Any]) -> Table:
    """A row a framing, narrow enough for a terminal of 80 columns."""
    shown = Table("shown as", "biases named (95 %)", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    known = result["known"] or {}
    for name in (*(f"if\n{group}" for group in known), "named\nnone", "parse\nfailures"):
        shown.add_column(name, justify="right", vertical="bottom")
    for framing, one in result["framings"].items():
        shown.add_row(
            LABELS[framing],
            _cell(one["named"]),
            *(_value(known[group][framing]) for group in known),
            *(f"{one[name]} of {one['replies']}" for name in ("naming_none", "parse_failures")),
        )
    return shown


def _cell(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None or estimate["low"] is None:
        return _value(estimate)
    return f"{_value(estimate)} ({estimate['low']:.2f} to {estimate['high']:.2f})"


def _value(estimate: Mapping[str, Any] | None) -> str:
    return "n/a" if estimate is None else f"{estimate['value']:.2f}"
