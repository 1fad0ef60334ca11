"""Statements that become preference data, as tests write them."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from rldf_ray.plan import DataSection
from rldf_ray.records import Statement, Topic
from tests.fakes import judgement, opinion, pairs_table, sft_table, statement

quick = settings(deadline=None, max_examples=50)

SAME_TOPIC = DataSection()
SAME_ROLE = DataSection(pairing="same_role")
TOPICS = {
    topic.topic_id: topic
    for topic in (
        *(opinion(i) for i in range(3)),
        *(opinion(i, "beauty") for i in range(3)),
        judgement(0),
        judgement(1),
    )
}
OPINION, OTHER, SCENE = TOPICS["age-o0"], TOPICS["age-o1"], TOPICS["age-j0"]


def low(text: str, score: float = 1.0, topic: Topic = OPINION, **changes: Any) -> Statement:
    return statement(text, score, "low", topic=topic, **changes)


def high(text: str, score: float = 8.0, topic: Topic = OPINION, **changes: Any) -> Statement:
    return statement(text, score, "high", topic=topic, **changes)


def pairs_of(
    statements: list[Statement], section: DataSection = SAME_TOPIC
) -> list[tuple[str, str]]:
    rows = pairs_table(statements, TOPICS, section).to_pylist()
    return [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows]


def sft_of(statements: list[Statement], section: DataSection = SAME_TOPIC) -> list[str]:
    rows = sft_table(statements, TOPICS, section).to_pylist()
    return [row["completion"][0]["content"] for row in rows]


@st.composite
def transcripts(draw: st.DrawFn) -> list[Statement]:
    """Statements as a referee may leave them: some labelled, some failed."""
    rows = []
    for place in range(draw(st.integers(0, 14))):
        topic = TOPICS[draw(st.sampled_from(sorted(TOPICS)))]
        score = draw(st.none() | st.integers(0, 10))
        label = None if score is None else "high" if score > 3 else "low"
        rows.append(
            statement(
                draw(st.sampled_from(["same", f"text {place}"])),
                score,
                label,
                topic=topic,
                role=draw(st.integers(0, 2)),
                clue_shown=topic.kind == "judgement" and draw(st.booleans()),
                failure=None if label else "did not parse",
            )
        )
    return rows


sections = st.builds(
    DataSection,
    pairing=st.sampled_from(["same_topic", "same_role"]),
    min_gap=st.integers(0, 6).map(float),
    pairs_per_topic=st.none() | st.integers(1, 4),
    max_sft=st.none() | st.integers(1, 6),
)
