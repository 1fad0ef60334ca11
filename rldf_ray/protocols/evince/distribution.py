"""A side's distribution where it is not the percentages that it writes: a choice."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.models.base import Message
from rldf_ray.protocols.evince.errors import DistributionError, TurnError
from rldf_ray.protocols.evince.prompt import render
from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.seats import Seats


async def label_distribution(
    seats: Seats,
    seat: str,
    model: str,
    said: Sequence[Message],
    name: str,
    place: str,
    scale: LabelScale,
    settings: EvinceSettings,
) -> Distribution:
    """A model's distribution after what it said, by its next words or by short answers.

    Raises:
        DistributionError: the reply came without probabilities.
        TurnError: none of the short answers is a label.
    """
    asked = [
        *said,
        Message("user", render("label", rated=name if settings.rates == "positions" else "")),
    ]
    place = f"{place}/label {name}"
    if settings.distribution == "token":
        choice = await seats.choose(seat, model, asked, scale.names, place, render("helper"))
        if choice.probabilities is None:
            raise DistributionError(
                f"settings.distribution=token: a reply of the model {model!r} came without the "
                "labels' probabilities; where all do, set it to said or sampled"
            )
        return scale.aligned(choice.probabilities)
    sampled = await seats.sample(
        seat,
        model,
        asked,
        scale.names,
        place,
        number=settings.samples,
        temperature=1.0,
        system=render("helper"),
    )
    labels = [label for label in sampled if label is not None]
    if not labels:
        raise TurnError("none of the sampled answers is a label")
    # One more of each, so that no label is impossible.
    number = len(labels) + 1
    share = 1 / len(scale.names)
    return tuple((labels.count(label) + share) / number for label in scale.names)
