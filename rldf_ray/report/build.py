"""report.json, metrics.parquet and report.html, from what the stages left in the run folder.

The schema of report.json is described in docs/report.md. A part whose stage has not run is null.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from rldf_ray.cluster.provenance import provenance
from rldf_ray.evaluate.bbq.run_models import ITEM_SCHEMA
from rldf_ray.evaluate.held_out.answers import ANSWER_SCHEMA
from rldf_ray.plan import Plan
from rldf_ray.records import STATEMENT_SCHEMA
from rldf_ray.report.notes import notes_of
from rldf_ray.report.page import render_page
from rldf_ray.report.parts import Manifests, read_parts
from rldf_ray.report.samples import sample_debates, sampled, shown
from rldf_ray.storage.results import Finish, ResultError, Tokens, finish_of
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE, pipeline, writer_of

SCHEMA = 1
TRANSCRIPTS = "data/transcripts.parquet"
# All that is counted of statements; of a few debates the page shows the rest, too.
COUNTED = pa.schema(
    [
        STATEMENT_SCHEMA.field(name)
        for name in ("debate_id", "bias_type", "kind", "round", "score", "expected_score", "label")
    ]
)
METRIC_SCHEMA = pa.schema(
    [("stage", pa.string()), ("step", pa.int64()), ("metric", pa.string()), ("value", pa.float64())]
)


def write_report(folder: RunFolder, plan: Plan) -> dict[str, Any]:
    """Write report.json, metrics.parquet and report.html; returns the report."""
    manifests = _manifests(folder, plan)
    statements = _table(folder, manifests, TRANSCRIPTS, COUNTED, COUNTED)
    places = sampled(statements)
    rows = folder.read_rows(TRANSCRIPTS, shown(places)).to_pylist() if places else []
    debates = sample_debates(places, rows)
    answers = _table(folder, manifests, "eval/answers.parquet", ANSWER_SCHEMA)
    items = _table(folder, manifests, "eval/items.parquet", ITEM_SCHEMA)
    metrics = metrics_table(manifests)
    report = build_report(plan, manifests, statements)
    folder.write_table("metrics.parquet", metrics)
    folder.write_json("report.json", report)
    folder.write_text("report.html", render_page(report, debates, answers, metrics, items))
    return report


def report_so_far(folder: RunFolder, plan: Plan) -> dict[str, Any]:
    """The content of report.json by what has finished; nothing is written."""
    for name in ("stages", TRANSCRIPTS):
        folder.fetched(name)
    manifests = _manifests(folder, plan)
    statements = _table(folder, manifests, TRANSCRIPTS, COUNTED, COUNTED)
    return build_report(plan, manifests, statements)


def _manifests(folder: RunFolder, plan: Plan) -> dict[str, dict[str, Any]]:
    stages = pipeline(plan.train.after)
    return {name: facts for name in stages if (facts := folder.manifest(name)) is not None}


def build_report(plan: Plan, manifests: Manifests, statements: pa.Table) -> dict[str, Any]:
    """The content of report.json."""
    finishes = {name: finish_of(manifest, name) for name, manifest in manifests.items()}
    parts = read_parts(manifests, statements)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "run": {
            "name": plan.name,
            "run_id": plan.digest(),
            "plan_digest": plan.digest(),
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **provenance(),
        },
        "plan": _evaluated(plan, parts["evaluation"]).model_dump(mode="json"),
        "stages": [_stage(plan, name, finish) for name, finish in finishes.items()],
        "totals": _totals(finishes.values()),
        **parts,
    }
    return {**report, "notes": notes_of(report)}


def _evaluated(plan: Plan, evaluation: Mapping[str, Any] | None) -> Plan:
    """The plan with the folder of items that the models were asked, which need not be its own."""
    if evaluation is None or evaluation["bbq"] is None:
        return plan
    section = plan.evaluate.model_copy(update={"bbq": evaluation["bbq"]})
    return plan.model_copy(update={"evaluate": section})


def metrics_table(manifests: Manifests) -> pa.Table:
    """Every figure logged in training, one row each; one that was no finite number has none.

    Raises:
        ResultError: a history is not one.
    """
    rows = [
        {"stage": stage, "step": entry["step"], "metric": metric, "value": float(value)}
        for stage, manifest in manifests.items()
        if PIPELINE[stage].trains
        for entry in _history(manifest, stage)
        for metric, value in entry.items()
        if metric not in ("step", "steps") and value is not None
    ]
    return pa.Table.from_pylist(rows, schema=METRIC_SCHEMA)


def _history(manifest: Mapping[str, Any], stage: str) -> list[dict[str, float | None]]:
    try:
        history = msgspec.convert(manifest.get("history", []), list[dict[str, float | None]])
        if all(entry.get("step") is not None for entry in history):
            return history
        why = "an entry without a step"
    except msgspec.ValidationError as error:
        why = str(error)
    raise ResultError(
        f"stages/{stage}.json: 'history' cannot be read ({why}); do the stage {stage} again"
    )


def _table(
    folder: RunFolder,
    manifests: Manifests,
    name: str,
    schema: pa.Schema,
    columns: pa.Schema | None = None,
) -> pa.Table:
    """A stage's table; empty where the stage has not finished, whatever lies there."""
    finished = writer_of(name) in manifests and (folder.root / name).exists()
    return folder.read_table(name, columns) if finished else schema.empty_table()


def _stage(plan: Plan, name: str, finish: Finish) -> dict[str, Any]:
    return {
        "name": name,
        "seconds": finish.seconds,
        "start_seconds": finish.start_seconds,
        "idle_share": finish.idle_share,
        "tokens": finish.tokens,
        "cost": _cost(plan, finish.paid_tokens),
        "failures": finish.failures,
        "peak_pss_gib": finish.peak_pss_gib,
        "finished_at": finish.finished_at,
    }


def _cost(plan: Plan, paid: Tokens | None) -> dict[str, float] | None:
    """What the endpoint charged; None where nothing is charged or no price is known."""
    if not paid or not any(paid.values()):
        return None
    usd = plan.endpoint.usd(paid["prompt"], paid["generated"])
    return None if usd is None else {"usd": usd}


def _totals(finishes: Collection[Finish]) -> dict[str, Any]:
    tokens = [finish.tokens for finish in finishes if finish.tokens]
    return {
        "seconds": round(sum(finish.seconds for finish in finishes), 1),
        "tokens": {k: sum(t[k] for t in tokens) for k in ("prompt", "cached", "generated")},
        "peak_pss_gib": max((finish.peak_pss_gib for finish in finishes), default=None),
    }
