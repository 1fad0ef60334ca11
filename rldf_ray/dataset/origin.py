"""Where the rows that a run learns from come from, and which models had a part in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET

from rldf_ray.models.names import short_name
from rldf_ray.plan import Plan
from rldf_ray.plan.speaker import TRAINED, Speaker
from rldf_ray.protocols.known import ProtocolError, study_named
from rldf_ray.protocols.source import SourceError, source_settings
from rldf_ray.referee.fit import judged_kinds
from rldf_ray.storage.results import (
    DataResult,
    DebatesResult,
    TopicsResult,
    if_recorded,
    stage_result,
)
from rldf_ray.storage.run_folder import RunFolder

Kind = Literal["debates", "source", "transcripts", "pairs"]
OF_SOURCE = {"debate": "debate", "referee": "judge", "topics": "topics"}
"""What cards call the parts of a plan in a protocol with preferences of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What was held, or given, for the rows that a run learns from.

    Attributes:
        kind: debates that a referee scored; another protocol, whose rows they are
            (docs/sources.md); statements with their scores, or pairs, that somebody gave.
        source: the protocol's name, of that kind alone.
        file: the name of the file of the pairs, where it is recorded.
        items: debates, or items of the protocol; None where an earlier version recorded none.
        writes_topics: whether a model wrote some of the topics.
    """

    kind: Kind = "debates"
    source: str | None = None
    file: str | None = None
    items: int | None = None
    writes_topics: bool = True


def origin_of(folder: RunFolder, imported: str | None = None) -> Origin:
    """The origin of the data in a run folder whose debates have finished.

    Args:
        imported: the file of the pairs, where the data's manifest is not written yet.

    Raises:
        ResultError: a manifest has a field of another type.
    """
    data, debates = stage_result(folder, DataResult), stage_result(folder, DebatesResult)
    written = _writes_topics(stage_result(folder, TopicsResult))
    if imported is None and data is not None:
        imported = if_recorded(data.imported)
    if imported is not None:
        return Origin(kind="pairs", file=imported, writes_topics=written)
    if debates is None:
        return Origin(writes_topics=written)
    items, source = if_recorded(debates.debates), if_recorded(debates.source)
    if source is not None:
        return Origin(kind="source", source=source, items=items, writes_topics=written)
    kind: Kind = "transcripts" if is_given(debates) else "debates"
    return Origin(kind=kind, items=items, writes_topics=written)


def is_given(debates: DebatesResult) -> bool:
    """Whether statements or pairs were given instead of debated: no model was asked for them."""
    return debates.tokens is UNSET


def _writes_topics(result: TopicsResult | None) -> bool:
    topics = None if result is None else if_recorded(result.topics)
    return topics is None or any(counts.get("written", 1) for counts in topics.values())


def models_of(plan: Plan, origin: Origin) -> dict[str, tuple[str, ...]]:
    """The names of those who had a part in the data, by part; nobody where the data were given.

    A referee that was fitted in the run is named by what it was fitted from.
    """
    return {part: _names(speakers) for part, speakers in _speakers(plan, origin).items()}


def is_self_reflection(plan: Plan, origin: Origin) -> bool:
    """Whether nobody but the model that is trained had a part in the data."""
    parts = _speakers(plan, origin).values()
    itself = Speaker("vllm", plan.model).weights
    alone = (
        speaker.backend in ("vllm", TRAINED) and speaker.weights == itself
        for speakers in parts
        for speaker in speakers
    )
    return bool(parts) and all(alone)


def _speakers(plan: Plan, origin: Origin) -> dict[str, list[Speaker]]:
    if origin.kind in ("transcripts", "pairs"):
        return {}
    speakers = _of_source(plan) if origin.source else _of_debates(plan)
    if not origin.writes_topics:
        speakers.pop("topics", None)
    return {part: of_part for part, of_part in speakers.items() if of_part}


def _of_debates(plan: Plan) -> dict[str, list[Speaker]]:
    judging = ("referee", *plan.referee_parts()) if judged_kinds(plan) else ()
    return {
        "debaters": [*plan.debaters()],
        "referee": [plan.speaker_of(part) for part in judging],
        "topics": [plan.speaker_of("topics")],
    }


def _of_source(plan: Plan) -> dict[str, list[Speaker]]:
    """Empty where this version's settings of the protocol are no longer those of the plan."""
    try:
        parts = study_named(plan.debate.protocol).models(source_settings(plan))
    except (ProtocolError, SourceError):
        return {}
    return {OF_SOURCE[part]: [plan.speaker_of(part)] for part in dict.fromkeys((*parts, "topics"))}


def _names(speakers: Iterable[Speaker]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(speaker) for speaker in speakers))


def _name(speaker: Speaker) -> str:
    name = short_name(speaker.model)
    if speaker.backend == TRAINED:
        return f"a model fitted from {name}"
    return name if speaker.backend == "vllm" else f"{speaker.backend}:{name}"


def listed(models: Mapping[str, tuple[str, ...]]) -> str:
    """'debaters: a, b; referee: c'."""
    return "; ".join(f"{part}: {', '.join(names)}" for part, names in models.items())
