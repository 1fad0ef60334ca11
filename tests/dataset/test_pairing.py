"""Pairs made one after another are those of the plain form, which makes all and sorts them."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from more_itertools import interleave_longest

from rldf_ray.dataset.judged import Judged, JudgedStatement
from rldf_ray.dataset.pairing import Pair, pairs_in_order
from rldf_ray.plan import DataSection
from rldf_ray.records import Label


def judged(
    text: str, score: float | None, label: Label | None, topic: str = "o1", **changes: object
) -> JudgedStatement:
    values = {
        "topic_id": topic,
        "bias_type": "age",
        "kind": "judgement" if topic.startswith("j") else "opinion",
        "clue_shown": False,
        "role": 0,
        "text": text,
        "finish_reason": "stop",
        "label": label,
        "label_score": score,
        "label_source": "expected",
        **changes,
    }
    return JudgedStatement(**values)  # type: ignore[arg-type]


def gap(pair: Pair) -> float:
    low, high = (one.label_score for one in pair)
    assert low is not None and high is not None
    return high - low


def plain(statements: Sequence[Judged], section: DataSection) -> list[Pair]:
    """All pairs of every topic, sorted, cut, and taken in turn."""
    by_topic: dict[str, dict[object, list[Judged]]] = {}
    for s in statements:
        role = s.role if section.pairing == "same_role" else None
        group = (s.clue_shown, role, s.label_source)
        by_topic.setdefault(s.topic_id, {}).setdefault(group, []).append(s)
    prompts: list[list[Pair]] = []
    for groups in by_topic.values():
        pairs = [
            (low, high)
            for group in groups.values()
            for low, high in itertools.product(group, group)
            if (low.label, high.label) == ("low", "high")
            and low.label_score is not None
            and high.label_score is not None
            and gap((low, high)) > 0
            and gap((low, high)) >= section.min_gap
            and low.text != high.text
        ]
        ordered = sorted(pairs, key=lambda p: (p[0].label_source == "said", -gap(p)))[
            : section.pairs_per_topic
        ]
        prompts += [[p for p in ordered if p[0].clue_shown is clue] for clue in (False, True)]
    if section.max_pairs is None:
        return [pair for pairs in prompts for pair in pairs]
    columns: dict[tuple[str, bool], list[int]] = {}
    for _, place in sorted(
        (i, place) for place, some in enumerate(prompts) for i in range(len(some))
    ):
        first = prompts[place][0][0]
        columns.setdefault((first.kind, first.clue_shown), []).append(place)
    in_turn = interleave_longest(*(columns[key] for key in sorted(columns)))
    kept = Counter(itertools.islice(in_turn, section.max_pairs))
    return [pair for place, pairs in enumerate(prompts) for pair in pairs[: kept[place]]]


# Sums of tenths, some of which are one gap though the scores differ.
scores = st.integers(0, 10).map(float) | st.sampled_from(
    [0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, 0.1 * 7, 1e16, 1e16 + 2, 1e-17, 2e-17]
)
rows = st.lists(
    st.builds(
        lambda text, score, label, topic, clue, role, source: judged(
            text, score, label, topic,
            clue_shown=clue and topic.startswith("j"), role=role, label_source=source,
        ),
        st.sampled_from("abcdef"),
        scores | st.none(),
        st.sampled_from(["low", "high", None]),
        st.sampled_from(["o1", "o2", "j1", "j2"]),
        st.booleans(),
        st.integers(0, 1),
        st.sampled_from(["said", "expected"]),
    ),
    max_size=40,
)  # fmt: skip
limits = st.builds(
    DataSection,
    pairing=st.sampled_from(["same_topic", "same_role"]),
    min_gap=st.sampled_from([0.0, 0.1, 2.0]),
    pairs_per_topic=st.none() | st.integers(1, 9),
    max_pairs=st.none() | st.integers(1, 30),
)


@settings(max_examples=400)
@given(rows, limits)
def test_the_pairs_are_those_of_the_plain_form_in_its_order(
    statements: list[JudgedStatement], section: DataSection
) -> None:
    found = list(pairs_in_order(statements, section))
    expected = plain(statements, section)
    assert [(id(low), id(high)) for low, high in found] == [
        (id(low), id(high)) for low, high in expected
    ]


def test_a_topic_of_many_statements_is_never_paired_as_a_whole() -> None:
    """Of 4 million pairs a few are wanted."""
    labels: list[tuple[Label, int]] = [("low", 0), ("high", 5)]
    statements = [
        judged(f"{label} {i}", float(least + i % 5), label)
        for i in range(2000)
        for label, least in labels
    ]
    for section in (DataSection(max_pairs=50), DataSection(pairs_per_topic=50)):
        tracemalloc.start()
        found = list(pairs_in_order(statements, section))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(found) == 50 and {gap(pair) for pair in found} == {9.0}
        assert peak < 20e6
