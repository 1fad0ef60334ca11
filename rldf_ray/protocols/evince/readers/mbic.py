"""MBIC: news sentences that people of both camps called biased or not.

The sheet of raw_labels_MBIC.xlsx saved as CSV: text, label_bias ("Biased", "Non-biased"),
political_ideology (-10 liberal to 10 conservative), outlet. Each camp is a group of raters: its
votes are how many of it said biased and how many not, its label what most say. A camp that is split
evenly has votes and no label; a sentence that fewer than three of a camp judged is left out. Rows
that are left out are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.storage.table_rows import RowsError, read_rows

CAMP = 3
"""From this distance from the middle on, a person is of a camp."""
CAMPS = ("liberals", "conservatives")
FEWEST = 3
"""People of each camp that a sentence needs."""
NO_CAMP = "their raters are of no camp"
TOO_FEW = f"fewer than {FEWEST} people of a camp judged their sentence"
BIASED = {"Biased": True, "Non-biased": False}


def read(file: Path, scale: LabelScale, targets: Sequence[str]) -> ItemSet[EvinceItem]:
    """Every sentence that enough people of both camps judged."""
    if len(scale.labels) != 2:
        raise RowsError(f"settings.scale={scale.name!r} has not two labels; MBIC's is `biased`")
    votes: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    outlets: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    items = []
    for number, row in read_rows(file, ["text", "label_bias", "political_ideology"]):
        camp = _camp(file, number, row["political_ideology"])
        if row["label_bias"] not in BIASED:
            raise RowsError(
                f"{file}, line {number}: label_bias is {row['label_bias']!r}; allowed: "
                f"{', '.join(BIASED)}"
            )
        if camp is None:
            left_out[NO_CAMP] += 1
            continue
        votes[row["text"]][camp].append(BIASED[row["label_bias"]])
        outlets[row["text"]] = row.get("outlet", "")
    for place, (text, camps) in enumerate(votes.items(), start=1):
        if min(len(camps[camp]) for camp in CAMPS) < FEWEST:
            left_out[TOO_FEW] += sum(map(len, camps.values()))
            continue
        counts = {camp: Counter(scale.names[int(b)] for b in camps[camp]) for camp in CAMPS}
        given = {camp: label for camp, each in counts.items() if (label := _most(each)) is not None}
        items.append(
            EvinceItem(
                item_id=f"mbic-{place}",
                text_id=f"mbic-{place}",
                text=text,
                source=outlets[text],
                given=given,
                votes=counts,
            )
        )
    return ItemSet(items, left_out)


def _camp(file: Path, number: int, cell: str) -> str | None:
    if not cell.strip():
        return None
    try:
        place = float(cell)
    except ValueError:
        raise RowsError(
            f"{file}, line {number}: political_ideology is {cell!r}, no number"
        ) from None
    if abs(place) < CAMP:
        return None
    return CAMPS[0] if place < 0 else CAMPS[1]


def _most(votes: Mapping[str, int]) -> str | None:
    """The label of more than half; None of a camp that is split evenly."""
    return next((label for label, n in votes.items() if 2 * n > sum(votes.values())), None)
