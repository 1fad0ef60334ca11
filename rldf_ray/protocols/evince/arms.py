"""What is held about each text: the dialogue as planned, and what it is held against."""

from __future__ import annotations

from collections.abc import Mapping

from rldf_ray.protocols.evince.prompt import Stance
from rldf_ray.protocols.evince.settings import Arm, EvinceSettings
from rldf_ray.protocols.evince.trace import Side

HIGH, LOW = 0.9, 0.1


def arm_settings(settings: EvinceSettings, arm: str) -> EvinceSettings:
    """The settings of an arm; `swapped` and `same_stance` differ in their stances alone."""
    if arm == "untold":
        return settings.model_copy(update={"given": "none"})
    if arm in ("schedule", "held_high", "held_low"):
        levels = {"held_high": (HIGH,), "held_low": (LOW,)}.get(arm, settings.steering.levels)
        held = {"controller": "schedule", "levels": levels}
        return settings.model_copy(update={"steering": settings.steering.model_copy(update=held)})
    if arm == "duality":
        return settings.model_copy(update={"initial": "duality"})
    return settings


def given_labels(given: Mapping[str, str], settings: EvinceSettings) -> tuple[str, ...]:
    """The given labels that are defended, in order."""
    labels = tuple(given.values())
    return labels[: {"both": 2, "first": 1, "none": 0}[settings.given]]


def stances(labels: tuple[str, ...], arm: Arm) -> dict[Side, Stance]:
    """What each side argues for (section 3.1; of two labels, a choice).

    Two labels that differ are each defended; otherwise A defends the label, and B opposes it.

    Args:
        labels: one or two.
    """
    first = Stance(labels[0], defends=True)
    second = Stance(labels[0], defends=False)
    if len(set(labels)) == 2:
        second = Stance(labels[1], defends=True)
    if arm == "same_stance":
        return {"A": first, "B": first}
    if arm == "swapped":
        return {"A": second, "B": first}
    return {"A": first, "B": second}
