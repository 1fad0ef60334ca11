"""What the tests of prompts and labelled statements compare: texts, and their runs of words."""

from __future__ import annotations

import re

import pytest

from rldf_ray.topics.bias_type import bias_type

TYPES = ["age", "beauty", "institution", "nationality", "profession"]
# BBQ's categories beyond age and nationality. Nobody has labelled statements for them yet.
MORE = [
    "disability_status",
    "gender_identity",
    "physical_appearance",
    "race_ethnicity",
    "religion",
    "sexual_orientation",
    "socioeconomic_status",
]
the_papers = pytest.mark.parametrize("name", TYPES)


def runs_of_words(text: str, length: int = 8) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9']+", text.lower())
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def shared_runs(some: list[str], others: list[str]) -> set[tuple[str, ...]]:
    return set().union(*map(runs_of_words, some)) & set().union(*map(runs_of_words, others))


def seed_texts(name: str) -> list[str]:
    about = bias_type(name)
    scenes = [f"{j.scene} {j.clue} {j.question}" for j in about.judgement_topics]
    return [*about.opinion_topics, *scenes]
