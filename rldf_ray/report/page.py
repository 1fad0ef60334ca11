"""report.html: one self-contained page of a run, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa
from markupsafe import Markup

from rldf_ray.report.figures import Axis, Curve, Dot, Dots, dot_plot, line_plot
from rldf_ray.report.samples import SampledDebate, side_by_side
from rldf_ray.storage.yaml_text import yaml_text

PREFERENCE_CURVES = ("loss", "rewards/margins")
PPO_CURVES = ("reward", "kl", "clip_fraction", "entropy", "policy_loss", "value_loss")

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What the page calls what `quality` counts as high and low.

    Attributes:
        of_statements: they are labels of statements, and not sides of pairs.
    """

    high: str
    low: str
    of_statements: bool


def render_page(
    report: Mapping[str, Any],
    debates: Sequence[SampledDebate],
    answers: pa.Table,
    metrics: pa.Table,
    items: pa.Table,
) -> str:
    """The page; a part whose stage has not run is shown as not available."""
    return _templates.get_template("page.html.jinja").render(
        report=report,
        figures=[(title, Markup(svg)) for title, svg in _figures(report, metrics)],
        debates=debates,
        answers=side_by_side(answers.to_pylist()),
        ranked=items.num_rows,
        labels=labels_of(report),
        plan=yaml_text(report["plan"]),
    )


def labels_of(report: Mapping[str, Any]) -> Labels | None:
    """None of a source's rows as an earlier version counted them: sides beside SFT rows."""
    data = report["data"]
    if data is None:
        return None
    if data["quality"].get("sides") or data["imported"] is not None:
        return Labels(high="rejected", low="chosen", of_statements=False)
    if data.get("rows") is not None:
        return None
    return Labels(high="high bias", low="low bias", of_statements=True)


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
    given = debates.get("given", False)
    expected = report["plan"]["referee"]["label_source"] == "expected" and not given
    field = "mean_expected" if expected else "mean_score"
    points: dict[str, list[tuple[float, float]]] = {}
    for row in debates["by_round"]:
        if row[field] is not None:
            points.setdefault(row["bias_type"], []).append((row["round"], row[field]))
    curves = [Curve(name, curve) for name, curve in points.items()]
    y = Axis(label="expected score" if expected else "given score" if given else "said score")
    title = "Mean score by round"
    return [(title, line_plot("rounds", title, curves, Axis(label="round"), y))] if curves else []


def _histogram_figure(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    labels = labels_of(report)
    if labels is None or not labels.of_statements:
        # A source's rows have no scores, and those of given pairs may be on any scale.
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
