"""The limits of a plan on the rows that a source gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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


SIDES = st.sampled_from(("It depends.", "Nobody knows.", "They all do.", "So be it."))
PAIRS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), SIDES, SIDES), max_size=12)


@given(pairs=PAIRS, sft=st.lists(st.tuples(st.sampled_from("abc"), SIDES), max_size=4))
def test_each_side_of_the_pairs_is_measured_once_and_no_sft_row(
    pairs: list[tuple[str, bool, str, str]], sft: list[tuple[str, str]]
) -> None:
    held = {
        f"{name}{shown}": Debate(debate_id="", topic=topic, clue_shown=shown, identities=())
        for name, topic in TOPICS.items()
        for shown in (False, True)
    }
    rows = [
        {"topic": f"{name}{shown}", "chosen": _message(one), "rejected": _message(other)}
        for name, shown, one, other in pairs
    ]
    examples = [{"topic": f"{name}False", "completion": _message(text)} for name, text in sft]
    made = source_data({"sft": examples, "pairs": rows}, held, DataSection(filters=()))
    labels = made.quality.labels.get("age", {"low": 0, "high": 0})
    assert labels["low"] == len({(name, shown, chosen) for name, shown, chosen, _ in pairs})
    assert labels["high"] == len({(name, shown, rejected) for name, shown, _, rejected in pairs})
    assert made.quality.sides
    # What can be paired is paired: every topic of a pair has sides of either kind.
    assert made.quality.topics == {
        "high_only": 0,
        "low_only": 0,
        "both": len({p[0] for p in pairs}),
    }
