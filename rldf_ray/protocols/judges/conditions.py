"""Which views of an item are judged: the clean one, its reruns, and one for each bias."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rldf_ray.protocols.judges.prompt import render
from rldf_ray.protocols.judges.settings import JudgesSettings
from rldf_ray.protocols.judges.verdict import Winner
from rldf_ray.protocols.judges.views import (
    BIASES,
    Bandwagon,
    Condition,
    JudgedItem,
    View,
    clean,
    lengthened,
    rerun,
    with_bandwagon,
)
from rldf_ray.protocols.seats import Seats
from rldf_ray.protocols.study import StudyTurn

# A twin that speaks of its own making is none.
_ABOUT_REWRITING = re.compile(
    r"\b(original|longer|expanded|lengthened|rewritten|extended) (answer|version|response|text)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A view and the condition it belongs to.

    Attributes:
        key: names it in addresses: the condition, and for a rerun its number.
    """

    condition: Condition
    key: str
    view: View


def shown_views(item: JudgedItem, settings: JudgesSettings, long: str | None) -> Iterator[Shown]:
    """The views of an item besides the clean one, whoever judges.

    Args:
        long: the long twin of answer 2; None leaves verbosity out.
    """
    view = clean(item)
    for condition in settings.conditions:
        if condition == "rerun":
            for number in range(1, settings.reruns + 1):
                yield Shown("rerun", f"rerun-{number}", rerun(view, number))
        elif condition == "verbosity" and long is not None:
            yield Shown("verbosity", "verbosity", lengthened(view, 2, long))
        elif condition == "bandwagon" and settings.bandwagon.target != "clean_loser":
            label = 2 if settings.bandwagon.target == "slot2" else 1
            yield Shown("bandwagon", "bandwagon", _crowd(view, settings, label))
        elif condition in BIASES:
            yield Shown(condition, condition, BIASES[condition](view))


def against_loser(
    item: JudgedItem, settings: JudgesSettings, winner: Winner | None
) -> Shown | None:
    """The view in which most people prefer what a judge held the worse; None if it held neither."""
    if winner is None or winner == "tie":
        return None
    loser = 2 if winner == 1 else 1
    return Shown("bandwagon", f"bandwagon-{loser}", _crowd(clean(item), settings, loser))


def _crowd(view: View, settings: JudgesSettings, label: int) -> View:
    section = settings.bandwagon
    return with_bandwagon(view, Bandwagon(section.percent, 1 if label == 1 else 2, section.place))


async def long_twin(item: JudgedItem, settings: JudgesSettings, seats: Seats) -> str | None:
    """The long twin of answer 2: the data's own, else one that is written and accepted."""
    section = settings.verbosity
    if "verbosity" not in settings.conditions:
        return None
    if item.answer2_long is not None or section.generator is None:
        return item.answer2_long
    prompt = render("lengthen", question=item.question, answer=item.answer2)
    twin = await seats.say(
        "lengthen",
        section.generator,
        prompt,
        "verbosity/twin",
        system=render("helper"),
        temperature=section.temperature,
        max_tokens=section.max_tokens,
    )
    return twin.text if twin_refused(item.answer2, twin, settings) is None else None


def twin_refused(answer: str, twin: StudyTurn, settings: JudgesSettings) -> str | None:
    """Why a long twin is not used, which the paper leaves open; None if it is."""
    section = settings.verbosity
    ratio = len(twin.text) / max(1, len(answer))
    if twin.cut_off:
        return "cut off"
    if not section.min_ratio <= ratio <= section.max_ratio:
        return "too short" if ratio < section.min_ratio else "too long"
    if _ABOUT_REWRITING.search(twin.text):
        return "speaks of the rewriting"
    return None
