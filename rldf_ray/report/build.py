"""report.json, metrics.parquet and report.html, from what the stages left in the run folder.

The schema of report.json is described in docs/report.md. A part whose stage has not run is null.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.environment import machine, versions
from rldf_ray.evaluate.held_out import ANSWER_SCHEMA
from rldf_ray.evaluate.multiple_choice import ITEM_SCHEMA
from rldf_ray.evaluate.stats import share_estimate
from rldf_ray.plan import Plan
from rldf_ray.records import STATEMENT_SCHEMA
from rldf_ray.report.notes import notes_of
from rldf_ray.report.page import render_page
from rldf_ray.storage import RunFolder

SCHEMA = 1
STAGE_ORDER = ("topics", "audit", "debates", "data", "sft", "reward", "ppo", "eval")
METRIC_SCHEMA = pa.schema(
    [("stage", pa.string()), ("step", pa.int64()), ("metric", pa.string()), ("value", pa.float64())]
)

Manifests = Mapping[str, dict[str, Any]]


def write_report(folder: RunFolder, plan: Plan) -> dict[str, Any]:
    """Write report.json, metrics.parquet and report.html; returns the report."""
    manifests = {
        name: found for name in STAGE_ORDER if (found := folder.manifest(name)) is not None
    }
    statements = _table(folder, "data/transcripts.parquet", STATEMENT_SCHEMA)
    answers = _table(folder, "eval/answers.parquet", ANSWER_SCHEMA)
    items = _table(folder, "eval/items.parquet", ITEM_SCHEMA)
    metrics = metrics_table(manifests)
    report = build_report(plan, manifests, statements)
    folder.write_table("metrics.parquet", metrics)
    folder.write_json("report.json", report)
    folder.write_text("report.html", render_page(report, statements, answers, metrics, items))
    return report


def build_report(plan: Plan, manifests: Manifests, statements: pa.Table) -> dict[str, Any]:
    """The content of report.json."""
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "run": {
            "name": plan.name,
            "run_id": plan.digest(),
            "plan_digest": plan.digest(),
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": " ".join(["rldf", *sys.argv[1:]]),
            "machine": machine(),
            "versions": versions(),
        },
        "plan": plan.model_dump(mode="json"),
        "stages": [_stage(plan, name, manifest) for name, manifest in manifests.items()],
        "totals": _totals(manifests),
        "topics": manifests.get("topics", {}).get("topics"),
        "debates": _debates(statements, manifests.get("debates")),
        "referee": manifests.get("audit", {}).get("referee"),
        "data": _data(manifests.get("data")),
        "training": {
            "sft": _sft(manifests.get("sft")),
            "reward": _reward(manifests.get("reward")),
            "ppo": _ppo(manifests.get("ppo")),
        },
        "evaluation": _evaluation(manifests.get("eval", {}).get("evaluation")),
    }
    return {**report, "notes": notes_of(report)}


def metrics_table(manifests: Manifests) -> pa.Table:
    """Every figure logged in training, one row each."""
    rows = [
        {"stage": stage, "step": entry["step"], "metric": metric, "value": float(value)}
        for stage in ("sft", "reward", "ppo")
        for entry in manifests.get(stage, {}).get("history", [])
        for metric, value in entry.items()
        if metric not in ("step", "steps")
    ]
    return pa.Table.from_pylist(rows, schema=METRIC_SCHEMA)


def _table(folder: RunFolder, name: str, schema: pa.Schema) -> pa.Table:
    exists = (folder.root / name).exists()
    return folder.read_table(name) if exists else schema.empty_table()


def _stage(plan: Plan, name: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    tokens = manifest.get("tokens")
    return {
        "name": name,
        "seconds": manifest["seconds"],
        "tokens": tokens,
        "cost": _cost(plan, manifest.get("paid_tokens")),
        "failures": manifest.get("failures", {}),
        "peak_pss_gib": manifest["peak_pss_gib"],
        "finished_at": manifest["finished_at"],
    }


def _cost(plan: Plan, paid: Mapping[str, int] | None) -> dict[str, float] | None:
    """What the endpoint charged; None where nothing is charged or no price is known."""
    prices = (plan.endpoint.prompt_price, plan.endpoint.generated_price)
    if not paid or not any(paid.values()) or prices[0] is None or prices[1] is None:
        return None
    return {"usd": (paid["prompt"] * prices[0] + paid["generated"] * prices[1]) / 1e6}


def _totals(manifests: Manifests) -> dict[str, Any]:
    tokens = [m["tokens"] for m in manifests.values() if m.get("tokens")]
    return {
        "seconds": round(sum(m["seconds"] for m in manifests.values()), 1),
        "tokens": {k: sum(t[k] for t in tokens) for k in ("prompt", "cached", "generated")},
        "peak_pss_gib": max((m["peak_pss_gib"] for m in manifests.values()), default=None),
    }


def _debates(statements: pa.Table, manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if manifest is None:
        return None
    rows = statements.to_pylist()
    labels = [row["label"] for row in rows]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["bias_type"], row["round"]), []).append(row)
    scored = [r for r in rows if r["score"] is not None or r["expected_score"] is not None]
    return {
        "debates": manifest["debates"],
        "statements": len(rows),
        "refereed": len(scored),
        "high": labels.count("high"),
        "low": labels.count("low"),
        "unlabelled": labels.count(None),
        "failures": manifest["failures"],
        "label_sources": manifest["label_sources"],
        "by_round": [
            {
                "bias_type": name,
                "round": number,
                "mean_score": _mean([r["score"] for r in group]),
                "mean_expected": _mean([r["expected_score"] for r in group]),
                "statements": len(group),
            }
            for (name, number), group in sorted(groups.items())
        ],
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _evaluation(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the stage measured; null for what an earlier version did not."""
    if found is None:
        return None
    models = {name: {"perplexity": None, **model} for name, model in found["models"].items()}
    return {"always_unknown": None, "overlap": None, **found, "models": models}


def _data(manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    names = ("sft", "pairs", "ppo_prompts", "eval_prompts", "bytes", "quality")
    if manifest is None:
        return None
    return {**{name: manifest[name] for name in names}, "imported": manifest.get("imported")}


def _sft(manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    losses = _logged(manifest, "loss")
    if manifest is None or not losses:
        return None
    return {
        "examples": manifest["examples"],
        "steps": len(losses),
        "loss_first": losses[0],
        "loss_last": losses[-1],
    }


def _reward(manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    losses = _logged(manifest, "loss")
    if manifest is None or not losses:
        return None
    held_out = manifest["held_out_pairs"]
    accuracy = _logged(manifest, "eval_accuracy")
    estimate = share_estimate(round(accuracy[-1] * held_out), held_out) if accuracy else None
    return {
        "pairs": manifest["pairs"],
        "steps": len(losses),
        "loss_first": losses[0],
        "loss_last": losses[-1],
        "held_out_pairs": held_out,
        "accuracy": estimate.value if estimate else None,
        "accuracy_low": estimate.low if estimate else None,
        "accuracy_high": estimate.high if estimate else None,
    }


def _ppo(manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if manifest is None:
        return None
    history = manifest["history"]
    first, last = history[0], history[-1]
    return {
        "episodes": manifest["episodes"],
        "steps": len(history),
        "reward_first": first["reward"],
        "reward_last": last["reward"],
        "kl_last": last["kl"],
        "step0_ratio": first["first_ratio_max"],
        "step0_kl": first["kl"],
        "engine_mismatch_max": max(step["engine_mismatch_max"] for step in history),
        "share_ended_last": last["share_ended"],
    }


def _logged(manifest: Mapping[str, Any] | None, metric: str) -> list[float]:
    history = manifest["history"] if manifest else []
    return [entry[metric] for entry in history if metric in entry]
