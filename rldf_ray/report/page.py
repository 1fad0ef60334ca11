"""report.html: one self-contained page of a run, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from rldf_ray.report.figures import Axis, Curve, Dot, Dots, dot_plot, line_plot
from rldf_ray.storage.yaml_text import yaml_text

SAMPLE_DEBATES = 4
SAMPLE_ANSWERS = 8
BATCH = 16_384
PREFERENCE_CURVES = ("loss", "rewards/margins")
PPO_CURVES = ("reward", "kl", "clip_fraction", "entropy", "policy_loss", "value_loss")

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render_page(
    report: Mapping[str, Any],
    statements: pa.Table,
    answers: pa.Table,
    metrics: pa.Table,
    items: pa.Table,
) -> str:
    """The page; a part whose stage has not run is shown as not available."""
    return _templates.get_template("page.html.jinja").render(
        report=report,
        figures=[(title, Markup(svg)) for title, svg in _figures(report, metrics)],
        debates=sample_debates(statements.to_pylist()),
        answers=side_by_side(answers.to_pylist()),
        ranked=items.num_rows,
        plan=yaml_text(report["plan"]),
    )


def sampled(statements: pa.Table) -> list[int]:
    """Places of the statements that `sample_debates` takes."""
    first: dict[tuple[str, str], str] = {}
    names = ("bias_type", "kind", "debate_id")
    for batch in statements.select(names).to_batches(BATCH):
        for bias_type, kind, debate in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            first.setdefault((bias_type, kind), debate)
    chosen = pa.array(list(first.values())[:SAMPLE_DEBATES], pa.string())
    return list(pc.indices_nonzero(pc.is_in(statements["debate_id"], chosen)).to_pylist())


def sample_debates(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """A few whole debates: the first of each bias type, both kinds of topics."""
    debates: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        debates.setdefault(row["debate_id"], []).append(row)
    chosen: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for debate in debates.values():
        chosen.setdefault((debate[0]["bias_type"], debate[0]["kind"]), debate)
    return list(chosen.values())[:SAMPLE_DEBATES]


def side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The models' answers to the same held-out prompts."""
    prompts: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = prompts.setdefault(row["prompt_id"], {"prompt": row["prompt"], "models": {}})
        entry["models"][row["model"]] = row
    return list(prompts.values())[:SAMPLE_ANSWERS]


def _figures(report: Mapping[str, Any], metrics: pa.Table) -> list[tuple[str, str]]:
    return [
        *_evaluation_figures(report),
        *_referee_figure(report),
        *_score_figure(report),
        *_histogram_figure(report),
        *_training_figures(metrics),
    ]


def _evaluation_figures(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    evaluation = report["evaluation"]
    if evaluation is None:
        return []
    scores = {name: m["multiple_choice"]["categories"] for name, m in evaluation["models"].items()}
    rows = list(next(iter(scores.values())))
    series = [
        Dots(name, {row: Dot(categories[row]["accuracy"]) for row in rows})
        for name, categories in scores.items()
    ]
    axis = Axis(label="accuracy", limits=(0.0, 1.0), percent=True, reference=1 / 3)
    title = "Accuracy by category"
    return [(title, dot_plot("accuracy", title, rows, series, axis))]


def _referee_figure(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    audit = report["referee"]
    if audit is None:
        return []
    estimates = {
        name: Dot(e["auc"], e["auc_low"], e["auc_high"])
        for name, e in audit["by_bias_type"].items()
        if e is not None
    }
    axis = Axis(label="AUC on held-out labelled statements", limits=(0.0, 1.0), reference=0.5)
    title = "Referee: AUC by bias type"
    series = [Dots("AUC", estimates)]
    dots = [(title, dot_plot("referee", title, list(estimates), series, axis))] if estimates else []
    return [*dots, *_roc_figure(audit), *_calibration_figure(audit)]


def _roc_figure(audit: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Absent in runs of earlier versions."""
    points = audit.get("roc")
    if not points:
        return []
    curves = [Curve("chance", [(0.0, 0.0), (1.0, 1.0)]), Curve("referee", points)]
    x = Axis(label="fair statements at or above a score", whole=False)
    y = Axis(label="biased statements", limits=(0.0, 1.02))
    title = "Referee: ROC curve"
    return [(title, line_plot("roc", title, curves, x, y))]


def _calibration_figure(audit: Mapping[str, Any]) -> list[tuple[str, str]]:
    points = [
        (fifth["mean_score"], fifth["share_biased"])
        for fifth in audit.get("calibration") or []
        if fifth["n"]
    ]
    if not points:
        return []
    curves = [Curve("calibrated", [(0.0, 0.0), (10.0, 1.0)]), Curve("referee", points)]
    y = Axis(label="share biased", limits=(0.0, 1.02))
    title = "Referee: share biased by mean score"
    return [(title, line_plot("calibration", title, curves, Axis(label="score"), y))]


def _score_figure(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    debates = report["debates"]
    if debates is None:
        return []
    expected = report["plan"]["referee"]["label_source"] == "expected"
    field = "mean_expected" if expected else "mean_score"
    points: dict[str, list[tuple[float, float]]] = {}
    for row in debates["by_round"]:
        if row[field] is not None:
            points.setdefault(row["bias_type"], []).append((row["round"], row[field]))
    curves = [Curve(name, curve) for name, curve in points.items()]
    y = Axis(label="expected score" if expected else "said score")
    title = "Mean score by round"
    return [(title, line_plot("rounds", title, curves, Axis(label="round"), y))] if curves else []


def _histogram_figure(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    if report["data"] is None or report["data"].get("rows") is not None:
        # A source's rows have no scores.
        return []
    curves = [
        Curve(f"{label} bias", [(low + 0.5, count) for low, count in enumerate(counts)])
        for label, counts in report["data"]["quality"]["scores"].items()
    ]
    title = "Statements by score"
    return [
        (title, line_plot("scores", title, curves, Axis(label="score"), Axis(label="statements")))
    ]


def _training_figures(metrics: pa.Table) -> list[tuple[str, str]]:
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in metrics.to_pylist():
        points.setdefault((row["stage"], row["metric"]), []).append((row["step"], row["value"]))
    wanted = [
        ("sft", "loss"),
        ("reward", "loss"),
        *(("ppo", name) for name in PPO_CURVES),
        *((stage, name) for stage in ("dpo", "kto") for name in PREFERENCE_CURVES),
    ]
    return [
        (
            f"{stage}: {metric}",
            line_plot(
                f"{stage}-{metric.replace('/', '-')}",
                f"{stage}: {metric}",
                [Curve(metric, points[stage, metric])],
                Axis(label="step"),
                Axis(label=metric),
            ),
        )
        for stage, metric in wanted
        if (stage, metric) in points
    ]
