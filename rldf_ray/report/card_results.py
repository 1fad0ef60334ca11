"""A run's multiple-choice results for its model card: metadata that the hub reads, and a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldf_ray.evaluate.bbq.hub import CATEGORIES

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

FIGURES = {
    "accuracy_ambig": ("accuracy", "Accuracy, ambiguous contexts"),
    "accuracy_disambig": ("accuracy", "Accuracy, disambiguated contexts"),
    "s_amb": ("bbq_bias_score", "Bias score, ambiguous contexts (s_AMB)"),
    "s_dis": ("bbq_bias_score", "Bias score, disambiguated contexts (s_DIS)"),
}
"""Figure of a summary -> the metric's type and its name."""
ROWS = {"base": "the model it began as", "sft": "after SFT", "policy": "this model"}


def bbq_results(evaluation: Mapping[str, Any]) -> list[EvalResult]:
    """The policy's figures on a folder of BBQ's files; none on the scenes that ship with rldf_ray.

    A bias score that there is no answer to take from is left out.
    """
    from huggingface_hub import EvalResult

    folder = _folder(evaluation)
    if folder is None:
        return []
    is_bbq = {*evaluation["models"]["policy"]["multiple_choice"]["categories"]} <= {*CATEGORIES}
    overall = _overall(evaluation, "policy")
    return [
        EvalResult(
            task_type="multiple-choice",
            task_name="Multiple choice, options ranked by likelihood",
            dataset_type="bbq" if is_bbq else folder,
            dataset_name="BBQ (Parrish et al. 2022)" if is_bbq else f"{folder}, in BBQ's format",
            dataset_args={"items": overall["n"], "folder": folder},
            metric_type=kind,
            metric_name=name,
            metric_value=round(overall[figure], 4),
            metric_args={"variant": "paper"},
        )
        for figure, (kind, name) in FIGURES.items()
        if overall[figure] is not None
    ]


def _folder(evaluation: Mapping[str, Any]) -> str | None:
    """The name of the folder of BBQ's files; an earlier version kept it in the set's name alone."""
    if evaluation["bbq"] is not None:
        return Path(evaluation["bbq"]).name
    name: str = evaluation["set"]
    return name.removeprefix("BBQ (").removesuffix(")") if name.startswith("BBQ (") else None


def results_table(evaluation: Mapping[str, Any]) -> dict[str, list[str]]:
    """A row a model, in the order of the card's columns: each figure with its interval."""
    return {
        label: [_cell(_overall(evaluation, model), figure) for figure in FIGURES]
        for model, label in ROWS.items()
        if model in evaluation["models"]
    }


def _overall(evaluation: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    overall: Mapping[str, Any] = evaluation["models"][model]["multiple_choice"]["overall"]
    return overall


def _cell(overall: Mapping[str, Any], figure: str) -> str:
    value, low, high = (overall[f"{figure}{end}"] for end in ("", "_low", "_high"))
    if value is None:
        return "none"
    return f"{value:.3f}" if low is None else f"{value:.3f} ({low:.3f} to {high:.3f})"
