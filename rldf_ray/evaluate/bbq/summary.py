"""One evaluation on BBQ: scores with intervals, what was not answered, places, rows of reference.

answers (prediction, text, scores a item) --> summary (JSON) and items table (parquet)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from rldf_ray.evaluate.bbq.intervals import Interval, Intervals, intervals
from rldf_ray.evaluate.bbq.positions import positions
from rldf_ray.evaluate.bbq.prompt import PUBLISHED, Order, is_refusal
from rldf_ray.evaluate.bbq.unknown import abstention_auroc, accuracy_curve_area
from rldf_ray.evaluate.bbq.variants import FIGURES, Variant, score_figures
from rldf_ray.sets.bbq.items import BBQItem, BBQSet, Key
from rldf_ray.sets.bbq.score import BBQScores, Prediction, Score, score
from rldf_ray.stats import share_estimate
from rldf_ray.storage.digest import digest

PREDICTIONS = "predictions"
"""The mode of answers that were made elsewhere: what was shown is not known."""

ANSWER_SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("mode", pa.string()),
        ("category", pa.string()),
        ("example_id", pa.int64()),
        ("question_index", pa.string()),
        ("condition", pa.string()),
        ("polarity", pa.string()),
        ("order", pa.list_(pa.int64())),
        ("prediction", pa.int64()),
        ("label", pa.int64()),
        ("unknown", pa.int64()),
        ("target_loc", pa.int64()),
        ("scores", pa.list_(pa.float64())),
        ("text", pa.string()),
        ("refusal", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered to one item.

    Attributes:
        prediction: published index of the option, None if the answer is none of them.
        order: the order the options were shown in; None where nobody knows.
        scores: mean log-likelihood (rank) or log-probability (letter) of the options as
            published, nats; None where the mode has none.
        text: the answer as it came, where it was text.
    """

    prediction: Prediction
    order: Order | None = PUBLISHED
    scores: tuple[float, ...] | None = None
    text: str | None = None

    @property
    def refusal(self) -> bool:
        """An answer that is no option and declines to give one."""
        return self.prediction is None and self.text is not None and is_refusal(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Answers of one model to a set of items.

    Attributes:
        model, mode: who was asked, and how (PREDICTIONS for a file).
        variant: whose bias scores.
        answers: one for each item.
        missing: items without a prediction in a file; they count as unparsed.
    """

    model: str
    mode: str
    variant: Variant
    items: BBQSet
    answers: Mapping[Key, Answer]
    seed: int
    missing: int = 0
    predictions: Mapping[Key, Prediction] = field(init=False)

    def __post_init__(self) -> None:
        predictions = {key: answer.prediction for key, answer in self.answers.items()}
        object.__setattr__(self, "predictions", predictions)

    def summary(self) -> dict[str, Any]:
        """Every figure of docs/bbq.md, for JSON."""
        items = self.items.items
        scores = score(items, self.predictions)
        bounds = intervals(items, self.predictions, self.variant, self.seed)
        option_scores = {key: answer.scores for key, answer in self.answers.items()}
        return {
            "model": self.model,
            "mode": self.mode,
            "variant": self.variant,
            "seed": self.seed,
            "set": {
                "source": self.items.source,
                "items": len(items),
                "templates": bounds.templates,
                "why_no_bias_scores": self.items.why_no_bias_scores,
                "contradictory_targets": len(self.items.contradictory),
                "digest": items_digest(items),
            },
            **as_dict(scores, bounds, self.variant),
            **self._unanswered(),
            "unknown_auc": abstention_auroc(items, option_scores),
            "both_right": accuracy_curve_area(items, option_scores),
            "positions": positions(
                items,
                self.predictions,
                {key: a.order for key, a in self.answers.items()},
                published=self.mode == PREDICTIONS,
            ),
            "reference": self._references(),
        }

    def table(self) -> pa.Table:
        """One row an item; columns of ANSWER_SCHEMA."""
        rows = [self._row(item, self.answers[item.key]) for item in self.items.items]
        return pa.Table.from_pylist(rows, schema=ANSWER_SCHEMA)

    def _row(self, item: BBQItem, answer: Answer) -> dict[str, Any]:
        return {
            "model": self.model,
            "mode": self.mode,
            "category": item.category,
            "example_id": item.example_id,
            "question_index": item.question_index,
            "condition": item.condition,
            "polarity": item.polarity,
            "order": answer.order,
            "prediction": answer.prediction,
            "label": item.label,
            "unknown": item.unknown,
            "target_loc": item.target_loc,
            "scores": None if answer.scores is None else list(answer.scores),
            "text": answer.text,
            "refusal": answer.refusal,
        }

    def _unanswered(self) -> dict[str, Any]:
        answers = self.answers.values()
        unparsed = sum(answer.prediction is None for answer in answers)
        refusals = sum(answer.refusal for answer in answers)
        return {
            "unparsed": _share(unparsed, len(self.answers)),
            "refusals": _share(refusals, len(self.answers)),
            "missing": self.missing,
        }

    def _references(self) -> dict[str, Any]:
        """Models that read nothing: what their figures are on the same items."""
        items = self.items.items
        unknown = {item.key: item.unknown for item in items}
        first = {item.key: (self.answers[item.key].order or PUBLISHED)[0] for item in items}
        return {
            name: _figures(score(items, predictions).overall, self.variant)
            for name, predictions in (("always_unknown", unknown), ("always_first", first))
        }


def items_digest(items: Sequence[BBQItem]) -> str:
    """A hash of all that items say, texts included, in their order."""
    return digest([asdict(item) for item in items])


def as_dict(scores: BBQScores, bounds: Intervals, variant: Variant) -> dict[str, Any]:
    """Overall, the columns' mean and every category, with intervals (`_low`, `_high`)."""
    categories = {
        name: _score_dict(one, bounds.categories[name], variant)
        for name, one in scores.categories.items()
    }
    return {
        "overall": _score_dict(scores.overall, bounds.overall, variant),
        "mean_of_categories": {
            name: _column_mean([one[name] for one in categories.values()])
            | _bounds("value", bounds.mean_of_categories.get(name))
            for name in FIGURES
        },
        "categories": categories,
    }


def _score_dict(one: Score, bounds: Mapping[str, Interval], variant: Variant) -> dict[str, Any]:
    result = one.as_dict() | _figures(one, variant)
    for name in ("s_amb", "s_dis"):
        # The harnesses give a number where the paper's definition has none.
        if result[name] is not None:
            result[f"{name}_reason"] = None
    for name in FIGURES:
        result |= _bounds(name, bounds.get(name))
    return result


def _figures(one: Score, variant: Variant) -> dict[str, Any]:
    return dict(score_figures(one, variant))


def _bounds(name: str, interval: Interval | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def _column_mean(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {"value": sum(known) / len(known) if known else None, "categories": len(known)}


def _share(number: int, n: int) -> dict[str, Any]:
    estimate = share_estimate(number, n)
    return {
        "number": number,
        "share": estimate and estimate.value,
        "low": estimate and estimate.low,
        "high": estimate and estimate.high,
    }
