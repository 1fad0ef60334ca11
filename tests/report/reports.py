"""Reports of runs, as far as the notes read them."""

from __future__ import annotations

from typing import Any

from rldf_ray.report.notes import notes_of

REWARD = {"accuracy": 0.8, "accuracy_low": 0.7, "held_out_pairs": 50}
REWARD |= {"loss_end": 0.1, "undebated": None, "pairs": 200, "too_long": 0}
MODEL = {"model": "reward", "python": None, "http": None}
FUNCTION = {"model": None, "python": "mine.py:short", "http": None}
LAST = "One run with one seed: differences between runs were not measured."


def change(value: float, low: float | None, high: float | None, n: int = 160) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n}


def model(reward: float, accuracy: float, disambig: float, perplexity: float) -> dict[str, Any]:
    return {
        "reward": {"mean": reward},
        "multiple_choice": {"overall": {"accuracy": accuracy, "accuracy_disambig": disambig}},
        "perplexity": {"value": perplexity, "tokens": 1900},
    }


def a_report(**changes: Any) -> dict[str, Any]:
    """A finished run's report, as far as the notes read it."""
    whole: dict[str, Any] = {
        "plan": {
            "topics": {"judgement_share": 0.5},
            "referee": {
                "threshold_kind": "absolute",
                "label_source": "said",
                "judgements": "scored",
            },
            "train": {"after": ["ppo"]},
            "debate": {"protocol": "multirole"},
            "reward": {"start": "model"},
            "ppo": {"rewards": [MODEL]},
        },
        "unreadable": {},
        "stages": [{"tokens": {"prompt": 70, "cached": 0, "generated": 30}}, {"tokens": None}],
        "referee": {"verdict": "The referee separates well.", "distinct_said_scores": 9},
        "debates": {
            "statements": 100,
            "high": 40,
            "low": 60,
            "label_sources": {"said": 100},
        },
        "data": {
            "imported": None,
            "quality": {"warnings": ["Length alone predicts the label."]},
        },
        "training": {
            "sft": {"examples": 100, "too_long": 0},
            "reward": REWARD,
            "ppo": {"episodes": 64, "steps": 16, "kl_last": 0.0123},
        },
        "evaluation": {
            "accuracy_change": {"policy": change(0.1, 0.05, 0.15)},
            "models": {
                "base": model(0.1, 0.40, 0.50, 20.0),
                "sft": model(0.2, 0.50, 0.50, 20.0),
                "policy": model(0.3, 0.60, 0.50, 21.0),
            },
            "always_unknown": {"accuracy": 0.5},
            "overlap": {"topics": 100, "items": 160, "ngram": 0, "same_words": 0},
        },
    }
    return {**whole, **changes}


def evaluated(found: dict[str, Any] | None) -> dict[str, Any]:
    evaluation = {**a_report()["evaluation"], "accuracy_change": {"policy": found}}
    return a_report(evaluation=evaluation)


def trained(**changes: Any) -> dict[str, Any]:
    return a_report(training={**a_report()["training"], **changes})


def planned(report: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """The report of a plan with other sections."""
    plan = {**report["plan"]}
    for name, changes in sections.items():
        plan[name] = {**plan[name], **changes}
    return {**report, "plan": plan}


def the_note(report: dict[str, Any], beginning: str) -> str:
    (note,) = [note for note in notes_of(report) if note.startswith(beginning)]
    return note
