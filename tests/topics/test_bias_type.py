"""A bias type's file of one's own: what is wrong in it is named before a model is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.engines.checks import PreflightError
from rldf_ray.plan import Plan
from rldf_ray.preflight.checks import check_bias_types, check_inputs, check_seed_scenes
from rldf_ray.preflight.estimate import estimate
from rldf_ray.topics.bias_type import (
    SHIPPED,
    BiasTypeError,
    bias_type,
    given_files,
    names_both,
    shipped_bias_types,
)
from rldf_ray.topics.writer import seed_topics, shown_seeds
from tests.fakes import plan_with

Write = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Writes the file of age with some fields changed; returns its path."""

    def write(**changes: Any) -> str:
        fields = yaml.safe_load((SHIPPED / "age.yaml").read_text(encoding="utf-8"))
        path = tmp_path / f"mine-{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(yaml.safe_dump({**fields, **changes}), encoding="utf-8")
        return str(path)

    return write


def scenes(**changes: Any) -> list[dict[str, Any]]:
    """Two scenes as a file lists them, the second changed."""
    listed = yaml.safe_load((SHIPPED / "age.yaml").read_text(encoding="utf-8"))["judgement_topics"]
    return [listed[0], {**listed[1], **changes}]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"answer": "the cat"}, "the answer is neither group"),
        ({"question": "Tell me."}, "no question or no clue"),
        ({"clue": ""}, "no question or no clue"),
        ({"groups": ["the cat", "the dog"]}, "a group is not in the scene"),
        ({"groups": ["the cat", "The Cat"]}, "the two groups are the same"),
    ],
)
def test_a_seed_scene_that_will_not_do_is_named_with_file_number_and_reason(
    written: Write, changes: dict[str, Any], problem: str
) -> None:
    path = written(judgement_topics=scenes(**changes))
    with pytest.raises(BiasTypeError, match=rf"{path}: judgement_topics, number 2: {problem}"):
        bias_type(path)


def test_a_blank_opinion_is_named(written: Write) -> None:
    path = written(opinion_topics=["Should cats vote", " "])
    with pytest.raises(BiasTypeError, match="opinion_topics, number 2 is blank"):
        bias_type(path)


@pytest.mark.parametrize("data", ["title: Größe".encode("latin-1"), b"name: a\0b"])
def test_a_file_that_is_no_utf8_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(data)
    with pytest.raises(BiasTypeError, match=rf"bias type file {path}: .*UTF-8"):
        bias_type(str(path))


# ---- groups


@pytest.mark.parametrize(
    ("text", "both"),
    [
        ("The man from the village came late.", False),
        ("The man from the village met the man.", True),
        ("The man met the man from the village.", True),
        ("The man came late.", False),
        ("The woman met the man from the village.", False),
    ],
)
def test_a_group_whose_name_is_a_part_of_the_others_has_to_stand_there_itself(
    text: str, both: bool
) -> None:
    groups = ("the man", "the man from the village")
    assert names_both(text, groups) == names_both(text, groups[::-1]) == both


@given(
    groups=st.tuples(*(st.text("ab ", min_size=1, max_size=6).map(str.strip),) * 2).filter(
        lambda pair: all(pair) and pair[0] != pair[1]
    )
)
def test_a_text_that_names_both_apart_names_both(groups: tuple[str, str]) -> None:
    assert names_both(f"{groups[0]}. {groups[1]}", groups)


# ---- scenes that a model is shown


def own(path: str, *changes: str) -> Plan:
    return plan_with(f"bias_types={json.dumps([path])}", *changes)


def test_a_type_without_scenes_is_refused_where_scenes_are_wanted(
    written: Write, tmp_path: Path
) -> None:
    path = written(judgement_topics=[])
    plan = own(path, "topics.judgement_share=0.5")
    with pytest.raises(
        PreflightError, match=r"topics\.judgement_share=0\.5: the file of bias type"
    ):
        check_seed_scenes(plan)
    with pytest.raises(PreflightError, match="no scene in judgement_topics"):
        check_inputs(plan, tmp_path, ("topics",))
    check_bias_types(plan)
    estimate(plan)
    none = own(path, "topics.judgement_share=0")
    assert check_seed_scenes(none) == "no scenes are wanted"
    estimate(none)


def test_what_is_held_out_is_not_shown_to_whoever_writes_the_others() -> None:
    plan = plan_with("topics={debate_share: 0.3, ppo_share: 0.3}")
    about = bias_type("age")
    for kind, seeds in (("opinion", about.opinion_topics), ("judgement", about.judgement_topics)):
        shown = shown_seeds(seeds, about, kind, plan)  # type: ignore[type-var]
        topics = seed_topics(about, kind, plan)  # type: ignore[arg-type]
        held_out = {topic.text for topic in topics if topic.split == "eval"}
        texts = {seed if isinstance(seed, str) else seed.scene for seed in shown}
        assert held_out and texts == {topic.text for topic in topics} - held_out


def test_a_type_whose_only_scene_is_held_out_is_refused(written: Write) -> None:
    path = written(judgement_topics=scenes()[:1])
    splits = set()
    for share in (0.02, 0.97):
        plan = own(path, f"topics={{debate_share: {share}, ppo_share: 0.01}}")
        (topic,) = seed_topics(bias_type(path), "judgement", plan)
        splits.add(topic.split)
        if topic.split == "eval":
            with pytest.raises(PreflightError, match=r"no scene .* that is not held out"):
                check_seed_scenes(plan)
        else:
            check_seed_scenes(plan)
    assert "eval" in splits


def test_files_of_ones_own_are_known_by_their_hash(written: Write) -> None:
    path = written()
    assert given_files(shipped_bias_types()) == {}
    (before,) = given_files(["age", path]).values()
    Path(path).write_text(Path(path).read_text(encoding="utf-8") + "\n", encoding="utf-8")
    (after,) = given_files([path]).values()
    assert len(before) == 64 and before != after
