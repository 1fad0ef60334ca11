"""What a study of EVINCE reports: how its dialogues ended, then what its labels are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.evince import tables as t
from rldf_ray.protocols.evince.agreement import agreement
from rldf_ray.protocols.evince.figures import course_figure, raters_figure, triangle_figure
from rldf_ray.protocols.evince.information import (
    Shared,
    information_facts,
    information_table,
    shared_by_round,
)
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.label_tables import labels_tables
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.study import Summary
from rldf_ray.stats import Estimate, clustered_estimate


def summary(
    items: Sequence[EvinceItem],
    tables: Mapping[str, pa.Table],
    settings: EvinceSettings,
    seed: int,
) -> Summary:
    """Tables 1, 2, 3, 5 to 9 and Figures 2, 3, 4 in form, for what the study has of them."""
    results = Results(
        items={item.item_id: item for item in items},
        tables=tables,
        settings=settings,
        scale=load_scale(settings.scale),
        seed=seed,
    )
    shared = shared_by_round(results)
    made = [
        t.dialogues_table(results),
        t.failures_table(results),
        t.agreement_table(results),
        t.differences_table(results),
        *labels_tables(results),
        t.round_table(results),
        information_table(shared),
        t.arguments_table(results),
        t.justifications_table(results),
        t.duality_table(results),
    ]
    drawn = [triangle_figure(results), raters_figure(results), course_figure(results)]
    return Summary(
        tables=[table for table in made if table is not None and table.rows],
        figures=[figure for figure in drawn if figure is not None],
        facts=_facts(results, shared),
        notes=_notes(results),
    )


def _facts(results: Results, shared: Sequence[Shared]) -> dict[str, Any]:
    found = []
    for target in results.targets:
        for system in results.systems:
            for who in results.people:
                pairs, texts = results.paired(
                    results.labels(system, target), results.given(who, target)
                )
                agreed = agreement(pairs, texts, results.scale, results.seed)
                if agreed is not None:
                    found.append({"target": target, "system": system, "who": who, **asdict(agreed)})
    return {
        "agreement": found,
        "review": dict(_review(results)),
        "information": information_facts(shared),
    }


def _review(results: Results) -> Counter[str]:
    rows = results.outcomes.get("main", {}).values()
    return Counter(reason for row in rows for reason in row["review"])


def _notes(results: Results) -> list[str]:
    """What a reader has to know before any other figure."""
    rows = list(results.outcomes.get("main", {}).values())
    failed = sum(row["status"] == "failed" for row in rows)
    look = sum(bool(row["review"]) for row in rows)
    reasons = ", ".join(f"{n} {reason}" for reason, n in _review(results).most_common())
    notes = [
        (
            f"{len(rows)} dialogues: {failed} failed, {look} are for a person to look at "
            f"({reasons or 'none'})."
        )
    ]
    notes += _failed_baselines(results)
    notes += _said_otherwise(results)
    notes += _agreement_notes(results)
    notes += _against(results)
    cut = sum(item.truncated for item in results.items.values())
    if cut:
        notes.append(
            f"{cut} of {len(results.items)} items have a text cut to about "
            f"{results.settings.text_tokens} tokens."
        )
    if {"Democrats", "Republicans"} & set(results.targets):
        notes.append(
            "Given labels are one person's answer to how the text treats a party, not the view of "
            "a camp: a distance between them is between two questions or two people."
        )
    notes.append("A label between two others is not thereby the correct one; people decide.")
    return notes


def _said_otherwise(results: Results) -> list[str]:
    """How often the written percentages come to another label than those that count."""
    if results.settings.distribution == "said":
        return []
    rows = results.outcomes.get("main", {}).values()
    both = [row for row in rows if row["label"] is not None and row["said_label"] is not None]
    other = sum(row["label"] != row["said_label"] for row in both)
    return [
        (
            f"Labels are by settings.distribution={results.settings.distribution}; the percentages "
            f"that both sides wrote come to another label in {other} of {len(both)} dialogues "
            "whose percentages sum to about 100."
        )
    ]


def _failed_baselines(results: Results) -> list[str]:
    counted = {
        name: sum(row["status"] == "failed" for row in results.outcomes[name].values())
        for name in results.systems
        if name != "main"
    }
    named = ", ".join(f"{number} {name}" for name, number in counted.items() if number)
    return [f"Besides, these failed: {named} (tables/failures)."] if named else []


def _agreement_notes(results: Results) -> list[str]:
    """Whether the labels agree with people at all."""
    lines = []
    for target in results.targets:
        labels = results.labels("main", target)
        for who in results.people:
            pairs, texts = results.paired(labels, results.given(who, target))
            found = agreement(pairs, texts, results.scale, results.seed)
            if found is not None and found.kappa is not None:
                nothing = found.kappa.low is None or found.kappa.low <= 0
                lines.append(
                    f"{f'Toward {target}: ' if target else ''}weighted kappa with {who} is "
                    f"{shown(found.kappa)} on {found.n} items"
                    + ("; that it is above chance is not shown." if nothing else ".")
                )
    return lines


def _against(results: Results) -> list[str]:
    """The dialogue against one answer, in steps nearer to people."""
    if "one_shot" not in results.outcomes or not results.people:
        return []
    found = _nearer(results)
    if found is None:
        return []
    sure = found.low is not None and found.low > 0
    tail = "." if sure else "; that a dialogue helps is not shown."
    return [
        f"The dialogue's labels are {signed(found)} steps nearer to people's than one answer's"
        + tail
    ]


def _nearer(results: Results) -> Estimate | None:
    steps, texts = [], []
    ours, theirs = results.labels("main"), results.labels("one_shot")
    for item_id, item in results.items.items():
        if item_id in ours and item_id in theirs:
            for label in item.given.values():
                far = results.scale.distance(theirs[item_id], label)
                steps.append(far - results.scale.distance(ours[item_id], label))
                texts.append(item.text_id)
    return clustered_estimate(steps, texts, results.seed)
