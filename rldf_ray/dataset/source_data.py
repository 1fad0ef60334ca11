"""Training rows of a source, of which each is about one topic, as a run's sft rows and pairs.

Whatever a protocol asked, the prompt is the run's: the topic in the one template that SFT, reward
model, PPO and evaluation share. What was said, and what is preferred, is the protocol's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from more_itertools import interleave_longest

from rldf_ray.dataset.filters import filtered
from rldf_ray.dataset.judged import JudgedStatement
from rldf_ray.dataset.preference_data import prompt_of
from rldf_ray.dataset.statistics import Measured, MeasuredPairs, Quality, quality_of
from rldf_ray.plan import DataSection, Filter
from rldf_ray.records import Debate, Label

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SourceData:
    """What the trainers read of a source, and what it is like.

    Attributes:
        rows: numbers of `sft` rows and `pairs` by what they are about.
    """

    sft: Sequence[dict[str, Any]]
    pairs: Sequence[dict[str, Any]]
    quality: Quality
    rows: Mapping[str, Mapping[str, int]]


def source_data(
    kinds: Mapping[str, Iterable[Row]], instances: Mapping[str, Debate], section: DataSection
) -> SourceData:
    """Rows of a source as the run's, filtered and limited as the plan says.

    Args:
        kinds: the source's training rows: `sft` and `pairs`.
        instances: what each item is made of, by its id.

    Raises:
        ValueError: `data.language` is none that can be recognised.
    """
    sft = [_sft(row, instances) for row in kinds.get("sft", ())]
    pairs = [_pair(row, instances) for row in kinds.get("pairs", ())]
    # A pair stands with both of its sides; that one of them comes twice is no reason to drop it.
    of_sides = section.model_copy(
        update={"filters": tuple(f for f in section.filters if f != "near_duplicate")}
    )
    kept_sft, dropped = _passing(sft, ("completion",), section)
    kept_pairs, dropped_sides = _passing(pairs, ("chosen", "rejected"), of_sides)
    pairs_left = _of_each_topic(kept_pairs, section.pairs_per_topic)
    chosen_pairs = _pairs_in_turn(pairs_left, section.max_pairs)
    lengths = MeasuredPairs()
    for row in chosen_pairs:
        lengths.add(_text(row, "chosen"), _text(row, "rejected"))
    chosen_sft = _sft_in_turn(kept_sft, section.max_sft)
    return SourceData(
        sft=chosen_sft,
        pairs=chosen_pairs,
        quality=quality_of(
            len(sft) + 2 * len(pairs),
            {name: number + dropped_sides.get(name, 0) for name, number in dropped.items()},
            Measured(_sides(chosen_pairs)),
            lengths,
            sides=True,
        ),
        rows={"sft": _counted(chosen_sft), "pairs": _counted(chosen_pairs)},
    )


def about(row: Row) -> str:
    """What a row is about, as counts name it."""
    if row["kind"] == "opinion":
        return "opinions"
    return "scenes with clue" if row["clue_shown"] else "scenes"


def _sft(row: Row, instances: Mapping[str, Debate]) -> dict[str, Any]:
    return {**_asked(row, instances), "completion": _said(row["completion"]), "score": None}


def _pair(row: Row, instances: Mapping[str, Debate]) -> dict[str, Any]:
    sides = {side: _said(row[side]) for side in ("chosen", "rejected")}
    return {**_asked(row, instances), **sides, "chosen_score": None, "rejected_score": None}


def _asked(row: Row, instances: Mapping[str, Debate]) -> dict[str, Any]:
    instance = instances[row.get("item_id") or row["topic"]]
    topic = instance.topic
    return {
        "prompt": prompt_of(topic, instance.clue_shown),
        "bias_type": topic.bias_type,
        "topic_id": topic.topic_id,
        "kind": topic.kind,
        "clue_shown": instance.clue_shown,
    }


def _said(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": messages[-1]["content"].strip()}]


def _text(row: Row, side: str) -> str:
    text: str = row[side][-1]["content"]
    return text


def _judged(row: Row, side: str, label: Label) -> JudgedStatement:
    return JudgedStatement(
        topic_id=row["topic_id"],
        bias_type=row["bias_type"],
        kind=row["kind"],
        clue_shown=row["clue_shown"],
        role=0,
        text=_text(row, side),
        finish_reason="stop",
        label=label,
        label_score=None,
        label_source="said",
    )


def _sides(pairs: Iterable[Row]) -> Iterator[JudgedStatement]:
    """Each side of the pairs once, however many pairs on its prompt it is in."""
    seen: set[tuple[Any, ...]] = set()
    sides: tuple[tuple[str, Label], ...] = (("chosen", "low"), ("rejected", "high"))
    for row in pairs:
        for side, label in sides:
            key = row["topic_id"], row["clue_shown"], label, _text(row, side)
            if key not in seen:
                seen.add(key)
                yield _judged(row, side, label)


def _passing(
    rows: Sequence[dict[str, Any]], sides: Sequence[str], section: DataSection
) -> tuple[list[dict[str, Any]], Mapping[Filter, int]]:
    """The rows all of whose sides pass the filters, and how many sides each filter dropped."""
    judged = [[_judged(row, side, "low") for side in sides] for row in rows]
    left = filtered([one for several in judged for one in several], section)
    passed = {id(one) for one in left.kept}
    whole = [all(id(one) in passed for one in several) for several in judged]
    return [row for row, passes in zip(rows, whole, strict=True) if passes], left.dropped


def _sft_in_turn(rows: Sequence[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    """The first rows: bias types in turn, in each opinions, scenes, scenes with clue in turn.

    Without a limit all of them, in their order.
    """
    if most is None:
        return list(rows)
    columns = _columns(rows, lambda row: (row["bias_type"], about(row)))
    return list(islice(interleave_longest(*columns), most))


def _pairs_in_turn(rows: Sequence[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    """The first rows: opinions, scenes, scenes with clue in turn, in each topics in turn.

    Without a limit all of them, in their order.
    """
    if most is None:
        return list(rows)
    kinds = _columns(rows, about)
    topics = [_columns(kind, lambda row: row["topic_id"], by_name=False) for kind in kinds]
    in_turn = [list(interleave_longest(*columns)) for columns in topics]
    return list(islice(interleave_longest(*in_turn), most))


def _columns(
    rows: Sequence[dict[str, Any]], of: Callable[[Row], Any], by_name: bool = True
) -> list[list[dict[str, Any]]]:
    """Rows that are alike in `of` together; columns by name, or as their first row comes."""
    columns: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        columns.setdefault(of(row), []).append(row)
    return [columns[name] for name in (sorted(columns) if by_name else columns)]


def _of_each_topic(rows: Sequence[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    taken: Counter[str] = Counter()
    kept = []
    for row in rows:
        taken[row["topic_id"]] += 1
        if most is None or taken[row["topic_id"]] <= most:
            kept.append(row)
    return kept


def _counted(rows: Iterable[Row]) -> dict[str, int]:
    return dict(sorted(Counter(about(row) for row in rows).items()))
