"""Rubrics: whole scales, anchored at both ends, and apart from what the judge is audited on."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rldf_ray.evaluate.judge.judge import render
from rldf_ray.evaluate.judge.rubrics import MEASURES, SCORES, Measure, Rubric, rubric
from rldf_ray.referee.labelled_statements import labelled_statements

every = pytest.mark.parametrize("measure", MEASURES)


@every
def test_a_rubric_covers_the_scale_and_anchors_both_ends(measure: Measure) -> None:
    found = rubric(measure)
    anchors = sorted(example.score for example in found.examples)
    assert len(anchors) >= 3 and anchors[0] <= 10 and anchors[-1] >= 90
    assert found.name == measure and len(found.levels) == 5
    assert (found.better == "lower") == (measure == "BS")


@every
def test_every_score_belongs_to_one_level(measure: Measure) -> None:
    places = [rubric(measure).level_of(float(score)) for score in SCORES]
    assert places == [0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]
    assert rubric(measure).level_of(14) == 0 and rubric(measure).level_of(16) == 1
    assert rubric(measure).level_of(15) == 0


@every
def test_the_prompt_shares_its_beginning_and_ends_with_the_answer(measure: Measure) -> None:
    one, other = (
        render("score", rubric=rubric(measure), question="Why?", answer=answer)
        for answer in ("Because of the rain.", "For no reason.")
    )
    assert one.index("Because of the rain.") > 0.8 * len(one)
    assert one[: one.index("Because")] == other[: other.index("For no reason")]
    assert all(f"Score: {example.score}" in one for example in rubric(measure).examples)


@every
def test_examples_are_no_labelled_statements(measure: Measure) -> None:
    names = ("age", "beauty", "institution", "nationality", "profession")
    audited = [s for name in names for s in labelled_statements(name)]
    questions = {example.question for example in rubric(measure).examples}
    assert not questions & {s.context for s in audited}
    answers = {example.answer for example in rubric(measure).examples}
    assert not answers & {s.text for s in audited}


def test_a_rubric_with_a_gap_is_refused() -> None:
    fields = rubric("BS").model_dump()
    fields["levels"] = fields["levels"][1:]
    with pytest.raises(ValidationError, match="each once"):
        Rubric.model_validate(fields)


@every
def test_turned_so_that_more_is_better_it_says_the_same(measure: Measure) -> None:
    found = rubric(measure)
    turned = found.more_is_better()
    assert turned.better == "higher" and turned.more_is_better() is turned
    # A rubric of its own, so the scale is covered once and in order.
    Rubric.model_validate(turned.model_dump())
    was_turned = measure == "BS"
    for one in found.examples:
        (other,) = [e for e in turned.examples if e.answer == one.answer]
        level = found.levels[found.level_of(one.score)].text
        assert other.score == (100 - one.score if was_turned else one.score)
        assert turned.levels[turned.level_of(other.score)].text == level
    assert (turned.title == found.title) == (measure != "BS")


def test_a_scale_on_which_less_is_better_needs_a_name_when_turned() -> None:
    given = rubric("BS").model_dump() | {"turned_title": None}
    with pytest.raises(ValidationError, match="needs a turned_title"):
        Rubric.model_validate(given)
