"""Fewer topics are the beginning of more."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.apps.tune.prefix import begin_with, first_topics
from rldf_ray.records import TOPIC_SCHEMA, Topic, table_of, topics_of
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import judgement, opinion, plan_with


def _topics(number: int) -> list[Topic]:
    kinds = [opinion(i, name) for name in ("age", "profession") for i in range(number)]
    return kinds + [judgement(i, name) for name in ("age", "profession") for i in range(number)]


@given(st.integers(2, 40), st.integers(2, 40))
def test_a_shorter_list_is_within_a_longer_one_in_its_order(a: int, b: int) -> None:
    few, many = sorted((a, b))
    topics = _topics(20)
    short, long = (
        first_topics(topics, plan_with(f"topics.per_bias_type={number}")) for number in (few, many)
    )
    for name in ("age", "profession"):
        assert sum(topic.bias_type == name for topic in short) == few
    for kind in ("opinion", "judgement"):
        mine, theirs = ([t for t in found if t.kind == kind and t.bias_type == "age"]
                        for found in (short, long))  # fmt: skip
        assert theirs[: len(mine)] == mine


def test_where_too_few_were_written_there_are_fewer() -> None:
    topics = _topics(3)
    assert first_topics(topics, plan_with("topics.per_bias_type=50")) == topics


def test_the_stage_is_finished_with_counts_of_its_own(tmp_path: Path) -> None:
    source, folder = RunFolder(tmp_path / "source"), RunFolder(tmp_path / "run")
    source.write_table("data/topics.parquet", table_of(_topics(10), TOPIC_SCHEMA))
    counts = {"opinion": 10, "judgement": 10, "seed": 20, "written": 0, "rejected": 4}
    source.finish(
        "topics",
        "all",
        {
            "seconds": 1.0, "peak_pss_gib": 0.1, "versions": {}, "tokens": {"generated": 9},
            "topics": {"age": counts, "profession": counts},
        },
    )  # fmt: skip
    begin_with(source, plan_with("topics.per_bias_type=6"), folder)
    manifest = folder.manifest("topics")
    assert manifest is not None
    assert manifest["topics"]["age"] == {**counts, "opinion": 3, "judgement": 3, "seed": 6}
    assert len(topics_of(folder.read_table("data/topics.parquet"))) == 12
