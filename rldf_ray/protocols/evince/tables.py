"""The paper's tables in form, and our own: agreement with people, against baselines and arms.

Distances and codes are computed, never copied. No label is called the right one: people differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.evince.agreement import Agreement, agreement
from rldf_ray.protocols.evince.arguments import QUOTE_NOT_FOUND, WEAK
from rldf_ray.protocols.evince.nearer import share_changed, steps_nearer, times_the_tokens
from rldf_ray.protocols.evince.prompt import rated
from rldf_ray.protocols.evince.records import Row
from rldf_ray.protocols.evince.remediation import loaded
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.study import StudyTable
from rldf_ray.stats import clustered_estimate

STATUSES = ("agreed", "converged", "no progress", "max rounds", "failed")
IN_PART = ", in part"
NOBODY_TOLD = "No dialogue is told a label that people gave, and no baseline."


def dialogues_table(results: Results) -> StudyTable:
    """How dialogues ended, and how much of what was said holds."""
    rows = []
    for arm in results.arms:
        outcomes = list(results.outcomes[arm].values())
        arguments = [
            a for (_, of), several in results.arguments.items() if of == arm for a in several
        ]
        ended = [str(sum(row["status"] == status for row in outcomes)) for status in STATUSES]
        rounds = [row["rounds"] for row in outcomes if row["rounds"]]
        rows.append(
            [
                arm,
                str(len(outcomes)),
                *ended,
                f"{sum(rounds) / len(rounds):.1f}" if rounds else "–",
                str(len(arguments)),
                _share(arguments, QUOTE_NOT_FOUND),
                _share(arguments, WEAK),
                _conceded(arguments),
            ]
        )
    return StudyTable(
        name="dialogues",
        title="How the dialogues ended",
        columns=[
            "arm",
            "dialogues",
            *STATUSES,
            "rounds",
            "arguments",
            "quote not found",
            "weak",
            "conceded",
        ],
        rows=rows,
        notes=["A failed turn ends its dialogue; nothing is put in its place."],
    )


def failures_table(results: Results) -> StudyTable:
    """Which dialogues and baselines failed, whole or in part, and why."""
    failed: dict[tuple[str, str, str], list[str]] = {}
    for system in results.systems:
        for item_id, row in results.outcomes[system].items():
            if row["failure"] is not None:
                part = "" if row["status"] == "failed" else IN_PART
                failed.setdefault((system, part, row["failure"]), []).append(item_id)
    return StudyTable(
        name="failures",
        title="What failed, and why",
        columns=["dialogue or baseline", "failed", "of", "why", "items"],
        rows=[
            [
                f"{system}{part}",
                str(len(ids)),
                str(len(results.outcomes[system])),
                why,
                "; ".join(ids),
            ]
            for (system, part, why), ids in failed.items()
        ],
        notes=[
            "A failure is of one item alone: its figures are missing, and nothing is for them.",
            (
                "In part: answers of a baseline that cannot be used, while the others count, or "
                "the justification of a dialogue."
            ),
        ],
    )


def _share(arguments: Sequence[Row], flag: str) -> str:
    if not arguments:
        return "–"
    return f"{sum(flag in row['flags'] for row in arguments) / len(arguments):.0%}"


def _conceded(arguments: Sequence[Row]) -> str:
    if not arguments:
        return "–"
    return f"{sum(row['conceded'] for row in arguments) / len(arguments):.0%}"


def agreement_table(results: Results) -> StudyTable:
    """Every system's labels against each person's, by target, and people against each other."""
    rows = []
    for target in results.targets:
        for system in results.systems:
            for who in results.people:
                found = _agreement(results, results.labels(system, target), who, target)
                if found is not None:
                    rows.append([target or "–", system, who, *_cells(found)])
        for one, other in combinations(results.people, 2):
            found = _agreement(results, results.given(one, target), other, target)
            if found is not None:
                rows.append([target or "–", one, other, *_cells(found)])
    told = NOBODY_TOLD
    if results.told:
        told = (
            "Dialogues argue for labels that people gave, but for `untold`; baselines are told "
            "none."
        )
    grouped = any(item.votes for item in results.items.values())
    groups = "A group's label is that of most of it. " if grouped else ""
    return StudyTable(
        name="agreement",
        title="Agreement with people's labels",
        columns=["target", "labels of", "against", "n", "weighted kappa", "steps apart", "moved"],
        rows=rows,
        notes=[
            (
                "Kappa weighs by squared steps; `moved` is the first's position less the other's, "
                f"in steps toward the scale's end. Intervals resample texts. {groups}{told} No "
                "label is a correct one: people's own agreement with each other stands last of a "
                "target."
            )
        ],
    )


def _agreement(results: Results, labels: dict[str, str], who: str, target: str) -> Agreement | None:
    pairs, texts = results.paired(labels, results.given(who, target))
    return agreement(pairs, texts, results.scale, results.seed)


def _cells(found: Agreement) -> list[str]:
    return [str(found.n), shown(found.kappa), shown(found.apart), signed(found.signed)]


def differences_table(results: Results) -> StudyTable:
    """What a dialogue has over each baseline and arm: steps nearer to people, paired by item."""
    baselines = [system for system in results.systems if system not in results.arms]
    against = {"main": [system for system in results.systems if system != "main"]}
    if "untold" in results.arms:
        against["untold"] = baselines
    rows = [
        _difference(results, dialogue, system, target)
        for dialogue, systems in against.items()
        for system in systems
        for target in results.targets
    ]
    told = NOBODY_TOLD
    if results.told:
        told = "Baselines and `untold` are told no label, other dialogues are."
    grouped = any(item.votes for item in results.items.values())
    groups = "A group's labels count by their shares. " if grouped else ""
    return StudyTable(
        name="differences",
        title="Dialogues against baselines and other arms",
        columns=[
            "labels of",
            "against",
            "target",
            "other labels",
            "steps nearer to people",
            "tokens, times its",
        ],
        rows=rows,
        notes=[
            (
                "Steps nearer: mean distance to each person's label of what stands second, less "
                f"that of the first, on the same items; above 0 the first is nearer. {groups}"
                "Tokens: what the first's turns generated, over what the other's did. "
                f"{told}"
            )
        ],
    )


def _difference(results: Results, dialogue: str, system: str, target: str) -> list[str]:
    ours, theirs = results.labels(dialogue, target), results.labels(system, target)
    times = times_the_tokens(results, dialogue, system)
    return [
        dialogue,
        system,
        target or "–",
        shown(share_changed(results, ours, theirs)),
        signed(steps_nearer(results, *(results.said_by(s, target) for s in (dialogue, system)))),
        "–" if times is None else f"{times:.1f}",
    ]


def round_table(results: Results) -> StudyTable | None:
    """Table 9 in form: both sides' percentages and the metrics, of one dialogue."""
    held = [key for key, rounds in results.rounds.items() if key[1] == "main" and rounds]
    if not held:
        return None
    key = max(held, key=lambda one: len(results.rounds[one]))
    rows = []
    names = rated(results.settings)
    for row in results.rounds[key]:
        figures = [f"{row[name]:.3f}" for name in ("wd", "kl", "jsd")]
        ends = [*figures, f"{100 * row['level']:.0f} %"]
        for side, (place, name) in product("ab", enumerate(names)):
            values = [f"{100 * p:.0f}" for p in row[side][place]]
            last = side == "b" and place == len(names) - 1
            whose = [name] if len(names) > 1 else []
            begin = [str(row["round"]), side.upper(), *whose]
            rows.append([*begin, *values, *(ends if last else [""] * len(ends))])
    whose_column = ["of"] if len(names) > 1 else []
    return StudyTable(
        name="rounds",
        title="One dialogue by rounds (form of Table 9)",
        columns=["round", "side", *whose_column, *results.scale.names, "WD", "KL", "JSD", "level"],
        rows=rows,
        notes=[
            (
                f"Item {key[0]}, the longest dialogue. Percent; KL and JSD in bits, WD in steps; "
                "the level is the one that the round was held at."
            )
        ],
    )


def justifications_table(results: Results) -> StudyTable | None:
    """Tables 5 to 8 in form: codes of the dialogue's label and the given ones, and why."""
    rows = []
    for item_id, row in results.outcomes.get("main", {}).items():
        case = loaded(row["remediation"])
        if case is None:
            continue
        item = results.items[item_id]
        ours = results.label("main", item_id)
        labels = [ours, *(item.given.get(who) for who in results.people)]
        codes = ", ".join(
            "–" if label is None else f"{results.scale.code(label):g}" for label in labels
        )
        rows.append([item_id, codes, case["action"], case["justification"]])
    if not rows:
        return None
    return StudyTable(
        name="justifications",
        title="Justifications (form of Tables 5 to 8)",
        columns=["id", ", ".join(["S", *results.people]), "proposed", "justification"],
        rows=rows,
        notes=["Written by A's model after the dispute; a person decides."],
    )


def arguments_table(results: Results) -> StudyTable | None:
    """Table 3 in form: what each side argues first, and what it argues last, of one dialogue."""
    held = [key for key in results.arguments if key[1] == "main"]
    if not held:
        return None
    key = max(held, key=lambda one: len(results.arguments[one]))
    arguments = results.arguments[key]
    last = max(row["round"] for row in arguments)
    rows = []
    turns = (("A", 1), ("B", 1), ("A", max(1, last - 1)), ("A", last), ("B", last))
    for side, number in turns:
        said = [r for r in arguments if r["side"] == side and r["round"] == number]
        if not said:
            continue
        text = " ".join(f"{row['claim']} {row['reason']}" for row in said)
        rows.append([f"{side}, round {number}", text])
    return StudyTable(
        name="positions",
        title="What each side argues, first and last (form of Table 3)",
        columns=["turn", "arguments"],
        rows=list(map(list, dict.fromkeys(map(tuple, rows)))),
        notes=[f"Item {key[0]}."],
    )


def duality_table(results: Results) -> StudyTable | None:
    """Distance to people by how far the first entropies lie apart (3.2.1's hypothesis)."""
    rows = []
    for arm in ("main", "duality"):
        if arm not in results.outcomes or not results.people:
            continue
        for name, low, high in (("below .3", 0.0, 0.3), (".3 or more", 0.3, float("inf"))):
            steps, texts = [], []
            for item_id in results.labels(arm):
                first = results.rounds[item_id, arm][0]
                if low <= abs(first["h_a"] - first["h_b"]) < high:
                    item = results.items[item_id]
                    apart = [results.apart(arm, who, item_id) for who in item.raters]
                    known = [one for one in apart if one is not None]
                    steps += known
                    texts += [item.text_id] * len(known)
            found = clustered_estimate(steps, texts, results.seed)
            if found is not None:
                rows.append([arm, name, str(len(set(texts))), shown(found)])
    if not rows:
        return None
    told = " Both sides are told people's labels, where texts came with some."
    return StudyTable(
        name="duality",
        title="Steps apart from people by the gap of the first entropies",
        columns=["arm", "gap, bits", "texts", "steps apart"],
        rows=rows,
        notes=[
            (
                "That unequal entropies pair better is the paper's hypothesis, not its result."
                f"{told if results.told else ''}"
            )
        ],
    )
