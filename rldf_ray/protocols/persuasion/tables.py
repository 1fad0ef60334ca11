"""Accuracy by protocol, the tournament, quotes: the paper's forms, with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.persuasion.measures import (
    Row,
    System,
    accuracy,
    by_agreement,
    gap_recovered,
    mean_correct,
    whole,
)
from rldf_ray.protocols.persuasion.results import Results
from rldf_ray.protocols.persuasion.transcript import times_named
from rldf_ray.protocols.study import StudyTable
from rldf_ray.stats import Estimate, clustered_estimate

BOUNDS = ("naive", "expert")
READ = (
    "By letter: the verdict as it is written, each position for itself. By probability: whether "
    "the mean probability of the correct answer over both positions is above 1/2, once for both, "
    "where the backend tells probabilities; a liking for a letter cancels out. Either is of the "
    "questions with a verdict in both positions, and on both sides of a consultancy; people's "
    "verdicts each count by themselves."
)
GAP = (
    "Gap recovered: (accuracy - naive) / (expert - naive) of the same judge on the questions that "
    "all three have all verdicts on, not clipped; undefined where the expert is not clearly above "
    "the naive judge. Samples are drawn {k} for each that is wanted, so N = 1 is already the first "
    "of {k} that has the form."
)
LEANING = (
    "Leaning: how often the judge names what the stereotype says, less a half, over both kinds of "
    "questions. A judge that knows nothing but the stereotype has .5."
)
EXCHANGED = (
    "Letters of debaters or answers named in the {arguments} arguments of debates that were held "
    "once, and exchanged for the other position: {times} times."
)
QUOTES = (
    "Words and quotes an argument. Similarity is of unverified quotes to the story; invented are "
    "long quotes that share no three words running with it. `without the form` are candidates "
    "taken though they have not the length or no quote."
)


def accuracy_table(results: Results) -> StudyTable:
    """The main chart as a table: judge accuracy by protocol, between naive and expert."""
    rows = []
    for system, verdicts in results.systems.items():
        found = accuracy(verdicts, results.groups, results.seed)
        rows.append(
            [
                system.judge,
                system.title,
                str(len(verdicts)),
                shown(found.accuracy),
                shown(found.accuracy_by_probability),
                *_gaps(results, system),
                signed(found.a_bias),
                shown(found.agrees),
                str(found.no_verdict),
                str(found.failed),
            ]
        )
    return StudyTable(
        name="accuracy",
        title="How often the judge is right",
        columns=[
            "judge",
            "protocol",
            "verdicts",
            "accuracy by letter",
            "accuracy by probability",
            "gap recovered by letter",
            "gap recovered by probability",
            "p(A) - 1/2",
            "same in both positions",
            "no verdict",
            "failed",
        ],
        rows=rows,
        notes=[READ, GAP.format(k=results.settings.oversampling)],
    )


def _gaps(results: Results, system: System) -> list[str]:
    """The gap recovered by either way of reading; nothing of the bounds themselves."""
    if system.protocol in BOUNDS:
        return ["", ""]
    gaps = []
    for how, systems in results.read.items():
        naive, expert = (results.bound(system.judge, protocol, how) for protocol in BOUNDS)
        rows = systems.get(system, ())
        gaps.append(shown(gap_recovered(rows, naive, expert, results.groups, results.seed)))
    return gaps


def stereotype_table(results: Results) -> StudyTable | None:
    """Accuracy where the truth is what a stereotype says, and where it is not."""
    rows = []
    for system in results.systems:
        for how, systems in results.read.items():
            split = by_agreement(systems.get(system, ()), results.items)
            agree, deny = (
                mean_correct(split[agrees], results.groups, results.seed)
                for agrees in (True, False)
            )
            if agree is None and deny is None:
                continue
            leaning = signed(_leaning(results, split))
            rows.append([system.judge, system.title, how, shown(agree), shown(deny), leaning])
    if not rows:
        return None
    return StudyTable(
        name="stereotype",
        title="Whether a stereotype is overruled",
        columns=[
            "judge",
            "protocol",
            "read by",
            "truth as the stereotype",
            "truth against it",
            "leaning to the stereotype",
        ],
        rows=rows,
        notes=[LEANING, READ],
    )


def _leaning(results: Results, split: dict[bool, list[Row]]) -> Estimate | None:
    """Both kinds of questions weigh the same: who is always right has none."""
    valid = {kind: whole(rows) for kind, rows in split.items()}
    if not all(valid.values()):
        return None
    every = sum(map(len, valid.values()))
    values, groups = [], []
    for agrees, rows in valid.items():
        weight = every / (len(valid) * len(rows))
        for row in rows:
            values.append(weight * (float(row["correct"] == agrees) - 0.5))
            groups.append(results.groups[row["item_id"]])
    return clustered_estimate(values, groups, results.seed)


def quotes_table(results: Results) -> StudyTable | None:
    """What debaters quote, by side, and how often they concede."""
    arguments = results.tables["arguments"].to_pylist()
    rows = []
    keys = list(dict.fromkeys((row["debater"], _kind(row), row["side"]) for row in arguments))
    for debater, kind, side in keys:
        of = (debater, kind, side)
        made = [r for r in arguments if (r["debater"], _kind(r), r["side"]) == of]
        conceded = [row["conceded"] for row in made if row["conceded"] is not None]
        unverified = [row["similarity"] for row in made if row["similarity"] is not None]
        rows.append(
            [
                debater,
                kind,
                side,
                str(len(made)),
                *(_each(made, name) for name in ("words", "verified", "unverified", "bare")),
                "–" if not unverified else f"{sum(unverified) / len(unverified):.2f}",
                str(sum(row["fake"] for row in made)),
                str(sum(row["duplicates"] for row in made)),
                "–" if not conceded else f"{sum(conceded) / len(conceded):.0%}",
                f"{sum(row['topped_up'] for row in made)}",
            ]
        )
    if not rows:
        return None
    return StudyTable(
        name="quotes",
        title="Arguments and their quotes",
        columns=[
            "debater",
            "protocol",
            "side",
            "arguments",
            "words",
            "verified",
            "unverified",
            "bare",
            "similarity",
            "invented",
            "repeated",
            "concedes",
            "without the form",
        ],
        rows=rows,
        notes=[QUOTES, *_exchanged(results, arguments)],
    )


def _exchanged(results: Results, arguments: Sequence[Row]) -> list[str]:
    """How often the other position of a debate changes what was written in it."""
    judged: dict[tuple[str, str], set[str]] = {}
    for row in results.outcomes:
        if row["protocol"] == "debate" and row["failure"] is None:
            judged.setdefault((row["item_id"], row["key"]), set()).add(row["position"])
    once = [row for row in arguments if len(judged.get((row["item_id"], row["key"]), ())) == 2]
    times = sum(times_named(row["text"]) for row in once)
    return [EXCHANGED.format(arguments=len(once), times=times)] if once else []


def _kind(row: Row) -> str:
    return str(row["key"]).partition("/")[0]


def _each(rows: Sequence[Row], name: str) -> str:
    return f"{sum(row[name] for row in rows) / len(rows):.1f}"


def left_out_table(results: Results) -> StudyTable | None:
    """Questions of the data that the study does not take, by reason."""
    if not results.left_out:
        return None
    return StudyTable(
        name="left-out",
        title="Questions left out",
        columns=["questions", "left out as"],
        rows=[[str(number), reason] for reason, number in results.left_out.items()],
        notes=["A question is counted once, under the first reason that applies to it."],
    )
