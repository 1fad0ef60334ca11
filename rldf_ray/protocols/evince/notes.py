"""What a reader of a study of EVINCE has to know before any other figure."""

from __future__ import annotations

from collections import Counter

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.evince.agreement import agreement
from rldf_ray.protocols.evince.nearer import steps_nearer, times_the_tokens
from rldf_ray.protocols.evince.results import Results

BASELINES = {
    "one_shot": "one answer's",
    "self_consistency": "those of several answers",
}
"""What a dialogue is held against, in words."""
OF_PARTIES = ("biaslab", "budak")
"""Readers of sets in which people say how a text treats each party."""


def notes(results: Results) -> list[str]:
    """What a reader has to know before any other figure."""
    rows = list(results.outcomes.get("main", {}).values())
    failed = sum(row["status"] == "failed" for row in rows)
    look = sum(bool(row["review"]) for row in rows)
    reasons = ", ".join(f"{n} {reason}" for reason, n in review_reasons(results).most_common())
    lines = [
        (
            f"{len(rows)} dialogues: {failed} failed, {look} are for a person to look at "
            f"({reasons or 'none'})."
        )
    ]
    lines += _left_out(results)
    lines += _failed_baselines(results)
    lines += _failed_in_part(results)
    lines += _said_otherwise(results)
    lines += _agreement_notes(results)
    lines += _against(results)
    if not results.rates_texts:
        lines.append(
            "Both sides' positions are rated, not the texts: dialogues are held against no label "
            "of a text."
        )
    cut = sum(item.truncated for item in results.items.values())
    if cut:
        lines.append(
            f"{cut} of {len(results.items)} items have a text cut to about "
            f"{results.settings.text_tokens} tokens."
        )
    if results.settings.reader in OF_PARTIES:
        lines.append(
            "Given labels are one person's answer to how the text treats a party, not the view of "
            "a camp: a distance between them is between two questions or two people."
        )
    lines.append("A label between two others is not thereby the correct one; people decide.")
    return lines


def _left_out(results: Results) -> list[str]:
    """Rows of the data that are no items, by reason."""
    if not results.left_out:
        return []
    counted = "; ".join(f"{number} as {reason}" for reason, number in results.left_out.items())
    return [f"Rows of the data that are left out: {counted}."]


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


def _failed_in_part(results: Results) -> list[str]:
    """Baselines with answers, and dialogues with a justification, that cannot be used."""
    counted = {
        name: sum(
            row["status"] != "failed" and row["failure"] is not None
            for row in results.outcomes[name].values()
        )
        for name in results.systems
    }
    named = ", ".join(f"{number} {name}" for name, number in counted.items() if number)
    return [f"These failed in part: {named} (tables/failures)."] if named else []


def review_reasons(results: Results) -> Counter[str]:
    """Why dialogues as planned are for a person to look at, counted."""
    rows = results.outcomes.get("main", {}).values()
    return Counter(reason for row in rows for reason in row["review"])


def _agreement_notes(results: Results) -> list[str]:
    """Whether the labels agree with people at all, of dialogues that were not told theirs."""
    lines = []
    if results.told:
        lines.append(
            "In the dialogue as planned both sides are told labels that people gave, and argue for "
            "them: its agreement with those people is no evidence that it finds them."
        )
        lines += _repeated(results)
    system = _untold(results)
    for target in results.targets if system else ():
        labels = results.labels(system, target)
        for who in results.people:
            pairs, texts = results.paired(labels, results.given(who, target))
            found = agreement(pairs, texts, results.scale, results.seed)
            if found is not None and found.kappa is not None:
                nothing = found.kappa.low is None or found.kappa.low <= 0
                lines.append(
                    f"{f'Toward {target}: ' if target else ''}weighted kappa {_of(system)}with "
                    f"{who} is {shown(found.kappa)} on {found.n} items"
                    + ("; that it is above chance is not shown." if nothing else ".")
                )
    return lines


def _against(results: Results) -> list[str]:
    """A dialogue that was told no label against answers, in steps nearer to people.

    With its tokens over theirs: the answers of self-consistency are a whole number, and limited.
    """
    system = _untold(results)
    if not system or not results.people:
        return []
    lines = []
    for baseline, name in BASELINES.items():
        if baseline not in results.outcomes:
            continue
        found = steps_nearer(results, results.said_by(system), results.said_by(baseline))
        if found is not None:
            sure = found.low is not None and found.low > 0
            times = times_the_tokens(results, system, baseline)
            cost = "" if times is None else f", at {times:.1f} times the tokens"
            lines.append(
                f"The dialogue's labels {_of(system)}are {signed(found)} steps nearer to people's "
                f"than {name}{cost}" + ("." if sure else "; that a dialogue helps is not shown.")
            )
    return lines


def _repeated(results: Results) -> list[str]:
    """What it takes no model for: the first label that each text came with."""
    if len(results.people) < 2:
        return []
    first = {
        item_id: results.scale.certain(next(iter(item.given.values())))
        for item_id, item in results.items.items()
        if item.given
    }
    found = steps_nearer(results, first, results.said_by("main"))
    if found is None:
        return []
    return [
        (
            f"Repeating the first label that each text came with is {signed(found)} steps nearer "
            "to people's than the dialogue as planned."
        )
    ]


def _untold(results: Results) -> str:
    """The dialogue no side of which was told a label; "" where none was held."""
    if not results.told:
        return "main"
    return "untold" if "untold" in results.outcomes else ""


def _of(system: str) -> str:
    return "" if system == "main" else f"of arm {system} "
