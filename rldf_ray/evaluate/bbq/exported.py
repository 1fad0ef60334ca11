"""BBQ's answers as logs that other programs read: items, figures, and what each is.

eval/bbq.parquet (answers) + BBQ's files (texts) + eval/bbq.json (figures) --> EvalLog
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from rldf_ray.eval_logs.records import LETTERS, EvalLog, ExportError, Figure, Sample
from rldf_ray.evaluate.bbq.harness_figures import harness_figures, harness_notes, sample_values
from rldf_ray.evaluate.bbq.prompt import PUBLISHED, Mode, Order, ask
from rldf_ray.evaluate.bbq.summary import ANSWER_SCHEMA, PREDICTIONS, items_digest
from rldf_ray.evaluate.bbq.variants import Variant
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem, Key
from rldf_ray.sets.bbq.score import Prediction
from rldf_ray.storage.run_folder import RunFolder

SUMMARY, ANSWERS = "eval/bbq.json", "eval/bbq.parquet"

_BIAS = {
    "paper": "2 * biased / not_unknown - 1 (Parrish et al. 2022)",
    "helm": "2 * biased / not_unknown - 1 as HELM has it: 0 of no answers, unparsed is not_unknown",
    "lm_eval": "2 * biased / not_unknown - 1 as lm-evaluation-harness has it: 0 of none biased",
}
MEANS = {
    "accuracy": "right answers / items, both conditions; an unparsed answer is wrong",
    "accuracy_ambig": "right answers / ambiguous items, where unknown is right",
    "accuracy_disambig": "right answers / disambiguated items",
    "unknown_share": "answers that are the unknown option / items",
    "unparsed_share": "answers that are no option / items",
    "unknown_disambig": "disambiguated items answered with the unknown option, share",
    "accuracy_named": "right answers / disambiguated items where somebody is named; 0.5: a guess",
    "unknown_auc": "abstention AUROC: the chance that the margin of unknown is larger on an "
    "ambiguous item than on a disambiguated one; 0.5: not told apart",
    "both_right": "area under ambiguous against disambiguated accuracy over all thresholds of "
    "abstention; 0.25: a guess",
    "biased": "answers that are the biased option / queries",
    "impartial": "answers that are the impartial option / queries",
    "anti_biased": "answers that are the anti-biased option / queries",
    "perplexity": "of the model on a neutral text; n is tokens",
}


def meaning(name: str, variant: Variant) -> str:
    """What a figure of BBQ is; bias scores are of a variant (docs/bbq.md)."""
    if name == "s_dis":
        return f"{_BIAS[variant]}, disambiguated items; variant {variant}"
    if name == "s_amb":
        error = "error rate of all items" if variant == "helm" else "1 - accuracy_ambig"
        return f"({error}) * ({_BIAS[variant]}), ambiguous items; variant {variant}"
    return MEANS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One answer.

    Attributes:
        prediction: published index; None of an unparsed one.
        order: in which the options were shown; None where nobody knows.
        scores: of the options as published.
        more: what else is known, for the sample's metadata.
    """

    key: Key
    prediction: int | None
    order: Order | None
    scores: Sequence[float] | None
    text: str | None
    more: Mapping[str, Any]


def bbq_logs(folder: RunFolder, bbq: Path | None) -> list[EvalLog]:
    """The one log of an evaluation by `rldf eval bbq`.

    Args:
        bbq: BBQ's files; None is where they were when the model was asked.

    Raises:
        ExportError: the items are not there, or are others.
    """
    summary = folder.read_object(SUMMARY, ("model", "mode", "variant", "seed", "set", "overall"))
    source = Path(summary["set"]["source"]) if bbq is None else bbq
    rows = folder.read_table(ANSWERS, ANSWER_SCHEMA).to_pylist()
    mode, variant = summary["mode"], summary["variant"]
    answers = [
        Answered(
            key=(row["category"], row["example_id"]),
            prediction=row["prediction"],
            order=None if row["order"] is None else cast(Order, tuple(row["order"])),
            scores=row["scores"],
            text=row["text"],
            more={"refusal": row["refusal"]},
        )
        for row in rows
    ]
    items = bbq_items(source)
    check_same(items, rows, source, summary["set"].get("digest"))
    arguments = {name: summary[name] for name in ("mode", "variant", "seed")}
    return [
        EvalLog(
            task=f"rldf_bbq_{mode}",
            model=summary["model"],
            dataset="BBQ",
            location=str(source),
            available=len(items),
            created=written_at(folder.root / SUMMARY),
            arguments=arguments,
            packages=summary.get("versions", {}),
            about={**about(summary), "input": _INPUT[mode == PREDICTIONS]},
            samples=list(samples_of(items, answers, mode)),
            figures=list(_figures(summary, variant)),
            harness_figures=harness_figures(
                items, {answer.key: answer.prediction for answer in answers}, variant
            ),
            harness_notes=harness_notes(mode, variant),
        )
    ]


def bbq_items(source: Path) -> dict[Key, tuple[int, BBQItem]]:
    """Every item of a folder with its place in it.

    Raises:
        ExportError: the folder is not there.
    """
    if not source.exists():
        raise ExportError(
            f"{source}: BBQ's files were there when the model was asked, and are not now; results "
            "hold no texts of items, so give the files with --bbq DIR"
        )
    return placed(load_bbq(source).items)


def placed(items: Sequence[BBQItem]) -> dict[Key, tuple[int, BBQItem]]:
    """Items by their keys, with their places."""
    return {item.key: (place, item) for place, item in enumerate(items)}


def check_same(
    items: Mapping[Key, tuple[int, BBQItem]],
    rows: Sequence[Mapping[str, Any]],
    source: Path,
    answered: str | None,
) -> None:
    """Refuse items that are not those that were answered.

    Args:
        rows: with category, example_id, condition, polarity, label and unknown of each, in the
            order of the items.
        answered: `items_digest` of the items that were answered; None where an earlier version
            wrote none, so that only the rows tell.

    Raises:
        ExportError: one is missing or differs.
    """
    for row in rows:
        key = row["category"], row["example_id"]
        if key not in items:
            raise ExportError(f"{source} has no item {key[0]} {key[1]}, which was answered; {ELSE}")
        item = items[key][1]
        for name in ("condition", "polarity", "label", "unknown"):
            if getattr(item, name) != row[name]:
                raise ExportError(
                    f"{source}: {name} of {key[0]} {key[1]} is {getattr(item, name)!r}, and was "
                    f"{row[name]!r} when it was answered; {ELSE}"
                )
    if answered is None:
        return
    chosen = [items[row["category"], row["example_id"]][1] for row in rows]
    if items_digest(chosen) != answered:
        raise ExportError(
            f"{source}: the items have the numbers and labels of those that were answered, and "
            f"other texts, stereotyped answers or templates; {ELSE}"
        )


_INPUT = {
    False: "the prompt, and the options in the order in which they were shown",
    True: "context and question, and the options as published: what was shown is not known",
}
ELSE = "give the files that the model was asked on with --bbq DIR"


def samples_of(
    items: Mapping[Key, tuple[int, BBQItem]],
    answers: Sequence[Answered],
    mode: str,
    values: Callable[[BBQItem, Prediction], Mapping[str, Any]] = sample_values,
) -> Iterator[Sample]:
    """A sample an item, its options in the order in which they were shown.

    Args:
        values: the metrics of a sample that lm-evaluation-harness logs.
    """
    for answer in answers:
        place, item = items[answer.key]
        order = answer.order or PUBLISHED
        chosen = None if answer.prediction is None else order.index(answer.prediction)
        choices = [item.options[published] for published in order]
        output = answer.text
        if output is None and chosen is not None:
            output = choices[chosen]
        scores = answer.scores
        yield Sample(
            id=f"{item.category}/{item.example_id}",
            place=place,
            messages=_shown(item, mode, order),
            choices=choices,
            right=order.index(item.label),
            output=output,
            answer=None if chosen is None else LETTERS[chosen],
            likelihoods=None if scores is None else [scores[published] for published in order],
            scores={"correct": answer.prediction == item.label},
            metadata={
                "category": item.category,
                "condition": item.condition,
                "polarity": item.polarity,
                "template": item.question_index,
                "unknown": LETTERS[order.index(item.unknown)],
                "stereotyped": None
                if item.target_loc is None
                else LETTERS[order.index(item.target_loc)],
                "output_is": "text" if answer.text is not None else "the option chosen",
                **answer.more,
            },
            doc=_doc(item),
            values=values(item, answer.prediction),
        )


def _shown(item: BBQItem, mode: str, order: Order) -> list[tuple[str, str]]:
    """The prompt; of predictions made elsewhere context and question, as nobody knows it."""
    if mode == PREDICTIONS:
        return [("user", f"{item.context}\n\n{item.question}")]
    return [(m["role"], m["content"]) for m in ask(item, cast(Mode, mode), order).messages]


def _doc(item: BBQItem) -> dict[str, Any]:
    """By the names of the published files."""
    return {
        "example_id": item.example_id,
        "question_index": item.question_index,
        "question_polarity": item.polarity,
        "context_condition": item.condition,
        "category": item.category,
        "context": item.context,
        "question": item.question,
        **{f"ans{place}": option for place, option in enumerate(item.options)},
        "label": item.label,
        "unknown": item.unknown,
        "target_loc": item.target_loc,
    }


def _figures(summary: Mapping[str, Any], variant: Variant) -> Iterator[Figure]:
    """Those of all items, then those of each category."""
    for name in ("unknown_auc", "both_right"):
        if summary.get(name) is not None:
            yield Figure(name=name, value=summary[name], means=MEANS[name])
    groups = {None: summary["overall"], **summary["categories"]}
    for group, one in groups.items():
        for name in (*MEANS, "s_amb", "s_dis"):
            if one.get(name) is not None:
                yield Figure(
                    name=name,
                    value=one[name],
                    means=meaning(name, variant),
                    group=group,
                    low=one.get(f"{name}_low"),
                    high=one.get(f"{name}_high"),
                    n=one["n"],
                )


def about(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Who made the results, as their summary says."""
    return {name: summary.get(name) for name in ("command", "commit", "machine")}


def written_at(path: Path) -> str:
    """When a file was last written, UTC, in seconds."""
    return datetime.fromtimestamp(int(path.stat().st_mtime), UTC).isoformat()


def task_name(*parts: object) -> str:
    """Parts joined as the name of a task, which names files."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", "_".join(map(str, parts))).strip("_")
