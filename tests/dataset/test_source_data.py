"""The limits of a plan on the rows that a source gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rldf_ray.dataset.source_data import source_data
from rldf_ray.plan import DataSection
from rldf_ray.records import Debate
from tests.fakes import opinion

TOPICS = {name: opinion(i) for i, name in enumerate("abc")}
BEAUTY = opinion(7, "beauty")


def _instances() -> dict[str, Debate]:
    topics = {**TOPICS, "z": BEAUTY}
    return {
        name: Debate(debate_id=name, topic=topic, clue_shown=False, identities=())
        for name, topic in topics.items()
    }


def _message(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def _limited(names: Sequence[str], **limits: Any) -> tuple[list[str], list[str]]:
    """The items of the sft rows and pairs that are left of one of each for every name."""
    instances = _instances()
    said = {"completion": _message("Said."), "chosen": _message("A."), "rejected": _message("B.")}
    rows = [{"topic": name, **said} for name in names]
    made = source_data({"sft": rows, "pairs": rows}, instances, DataSection(filters=(), **limits))
    of = {instance.topic.topic_id: name for name, instance in instances.items()}
    return [of[r["topic_id"]] for r in made.sft], [of[r["topic_id"]] for r in made.pairs]


def test_a_limit_on_pairs_takes_prompts_in_turn() -> None:
    names = [*"aaaabbbbcccc"]
    assert _limited(names)[1] == names
    assert _limited(names, max_pairs=4)[1] == [*"abca"]
    assert _limited(names, max_pairs=100)[1] == [*"abcabcabcabc"]
    assert _limited([*"aab"], max_pairs=3)[1] == [*"aba"]


def test_a_limit_on_sft_takes_bias_types_in_turn() -> None:
    assert _limited([*"aaabz"], max_sft=3)[0] == [*"aza"]
    assert _limited([*"aaabz"])[0] == [*"aaabz"]
