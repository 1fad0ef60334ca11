"""What both sides share by round: information of their labels, overlap, quoted evidence.

The paper defines no joint distribution: both readings of mutual information are choices. Neither
steers or stops anything by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rldf_ray.figures.estimates import shown
from rldf_ray.protocols.evince.agreement import CORPUS, label_information
from rldf_ray.protocols.evince.records import Row
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.study import StudyTable
from rldf_ray.stats import Estimate, clustered_estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the two sides of all dialogues share in one round.

    Attributes:
        dialogues: those that reached the round.
        labels: normalised mutual information of A's and B's labels over the corpus; None of fewer
            than `CORPUS` dialogues.
        coupling: mean normalised mutual information of the coupling that agrees most.
        evidence: mean evidence overlap of the dialogues in which anybody quotes the text.
    """

    round: int
    dialogues: int
    labels: Estimate | None
    coupling: Estimate | None
    evidence: Estimate | None


def shared_by_round(results: Results) -> list[Shared]:
    """The rounds of the dialogues as planned."""
    by_round: dict[int, list[Row]] = {}
    for (_, arm), rounds in results.rounds.items():
        if arm == "main":
            for row in rounds:
                by_round.setdefault(row["round"], []).append(row)
    return [_shared(results, number, rows) for number, rows in sorted(by_round.items())]


def _shared(results: Results, number: int, rows: Sequence[Row]) -> Shared:
    scale, texts = results.scale, [results.items[row["item_id"]].text_id for row in rows]
    labels = [(scale.label_of(row["a"][0]), scale.label_of(row["b"][0])) for row in rows]
    return Shared(
        round=number,
        dialogues=len(rows),
        labels=label_information(labels, texts, scale, results.seed),
        coupling=_mean(rows, texts, "nmi", results.seed),
        evidence=_mean(rows, texts, "evidence_overlap", results.seed),
    )


def _mean(rows: Sequence[Row], texts: Sequence[str], name: str, seed: int) -> Estimate | None:
    known = [(row[name], t) for row, t in zip(rows, texts, strict=True) if row[name] is not None]
    return clustered_estimate([value for value, _ in known], [text for _, text in known], seed)


def information_facts(shared: Sequence[Shared]) -> list[Mapping[str, Any]]:
    """For report.json."""
    return [asdict(one) for one in shared]


def information_table(shared: Sequence[Shared]) -> StudyTable:
    """What both sides share, a row a round, with how to read it."""
    return StudyTable(
        name="information",
        title="What both sides share, by round",
        columns=["round", "dialogues", "information of labels", "coupling NMI", "evidence overlap"],
        rows=[
            [
                str(one.round),
                str(one.dialogues),
                shown(one.labels),
                shown(one.coupling),
                shown(one.evidence),
            ]
            for one in shared
        ],
        notes=[
            (
                "Information of labels: normalised mutual information of A's and B's labels over "
                "all dialogues of a round; 0 where one side's label says nothing of the other's, 1 "
                "where it says all of it, which is not yet that they agree; from "
                f"{CORPUS} dialogues on. Labels that have nothing to do with each other come out "
                "above 0 as well, and so do their intervals: some .1 for five labels in 50 "
                "dialogues, less in more."
            ),
            (
                "Coupling NMI: of one dialogue's two distributions, mean; it says no more than how "
                "far they overlap."
            ),
            (
                "Evidence overlap: of the words that either side quotes from the text, the share "
                "that both quote; 1 where both rest on one passage, 0 where each has its own, "
                "whoever reads it better."
            ),
            "Intervals resample texts.",
        ],
    )
