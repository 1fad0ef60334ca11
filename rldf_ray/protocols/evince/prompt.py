"""What each side is asked: what all requests about a text share first, what differs last.

    text | record, append-only | the other's percentages, one's own | stance, level, form

Shown to nobody: scores, metrics, how many rounds there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rldf_ray.prompts import prompts_beside
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.evince.trace import OTHER, Side
from rldf_ray.protocols.evince.turn import SaidTurn

render = prompts_beside(__file__)

LEVELS = (0.9, 0.7, 0.5, 0.3, 0.1)
"""Levels of contentiousness that are described in words."""
POSITIONS = ("A's position", "B's position")
TEXT = "the text"


@dataclass(frozen=True, slots=True)
class Stance:
    """What a side argues for.

    Attributes:
        label: the one that it defends, or opposes.
    """

    label: str
    defends: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A turn in the record, as both sides are shown it."""

    side: Side
    round: int
    said: SaidTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a side sees when it speaks.

    Attributes:
        record: all turns that it may see, in order.
        theirs, own: distributions of the other side and of its own last turn; None before.
    """

    record: Sequence[Recorded]
    theirs: Sequence[Distribution] | None
    own: Sequence[Distribution] | None


def rated(settings: EvinceSettings) -> tuple[str, ...]:
    """Names of what a turn gives percentages for."""
    return (TEXT,) if settings.rates == "item" else POSITIONS


def text_prompt(item: EvinceItem, scale: LabelScale, settings: EvinceSettings) -> str:
    """Question, labels and text: the beginning of every request about an item."""
    labels = [
        {"name": label.name, "meaning": label.meaning.replace("{target}", item.target)}
        for label in scale.labels
    ]
    return render(
        "text",
        question=scale.asked(item.target),
        labels=labels,
        nominal=scale.nominal,
        positions=settings.positions if settings.rates == "positions" else None,
        title=item.title,
        text=item.text,
    )


def turn_prompt(
    text: str,
    side: Side,
    stance: Stance,
    level: float,
    view: View,
    scale: LabelScale,
    settings: EvinceSettings,
    *,
    spread: bool,
) -> str:
    """What a side is asked for its turn.

    Args:
        text: `text_prompt`.
        spread: A is told to commit itself, B to weigh all labels (section 3.2.1).
    """
    names = rated(settings)
    parts = [text]
    if view.record:
        parts.append(render("record", record=[shown(turn) for turn in view.record]))
    parts.append(
        render(
            "turn",
            side=side,
            other=OTHER[side],
            stance=_stance(side, stance, settings),
            spread=render("spread", commits=side == "A") if spread else "",
            level=level,
            manner=render("manner", nearest=min(LEVELS, key=lambda known: abs(known - level))),
            theirs=percentages(view.theirs, names, scale),
            own=percentages(view.own, names, scale),
            answers=any(turn.side != side for turn in view.record),
            most=settings.max_arguments,
            rated=names,
        )
    )
    return "\n\n".join(parts)


def _stance(side: Side, stance: Stance, settings: EvinceSettings) -> str:
    positions = settings.rates == "positions"
    return render(
        "stance",
        positions=positions,
        position=settings.positions["AB".index(side)],
        defends=stance.defends,
        label=stance.label,
    )


def shown(turn: Recorded) -> Mapping[str, object]:
    said = turn.said
    return {
        "side": turn.side,
        "round": turn.round,
        "answers": said.answers,
        "concedes": said.concedes,
        "arguments": said.arguments,
    }


def percentages(
    distributions: Sequence[Distribution] | None, names: Sequence[str], scale: LabelScale
) -> str:
    """Distributions as a side is shown them; empty where there are none."""
    if distributions is None:
        return ""
    shown = [
        ", ".join(f"{label} {100 * p:.0f} %" for label, p in zip(scale.names, one, strict=True))
        for one in distributions
    ]
    if len(shown) == 1:
        return shown[0]
    return "; ".join(f"for {name}: {text}" for name, text in zip(names, shown, strict=True))
