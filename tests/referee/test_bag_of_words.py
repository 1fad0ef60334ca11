"""The baseline: it learns what words tell, and nothing that they do not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.referee.bag_of_words import word_scores


def test_a_word_that_goes_with_a_label_is_learned_and_other_words_are_not() -> None:
    fit = ["they are lazy", "they are prompt", "lazy they came", "prompt they came"]
    lazy, prompt, unseen = word_scores(fit, [1, 0, 1, 0], ["lazy folk", "prompt folk", "hm hm"])
    assert lazy > 0.2 and prompt < -0.2
    assert unseen == pytest.approx(0.0, abs=1e-3)


def test_pairs_of_neighbouring_words_count_as_well() -> None:
    fit = ["not good", "good, not", "not good", "good not"]
    one, other = word_scores(fit, [1, 0, 1, 0], ["Not good!", "good not"])
    assert one > 0.2 and other < -0.2


def test_answers_that_are_right_only_in_their_context_leave_it_at_even_odds() -> None:
    fit = ["The cook did.", "No telling.", "The cook did.", "No telling."]
    assert word_scores(fit, [1, 0, 0, 1], ["The cook did."]) == pytest.approx([0.0], abs=1e-3)


def test_one_label_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="both labels"):
        word_scores(["a b", "c d"], [1, 1], ["a"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=20), min_size=2, max_size=8), st.text(max_size=20))
def test_any_text_gets_a_score(texts: list[str], new: str) -> None:
    labels = [i % 2 for i in range(len(texts))]
    (score,) = word_scores(texts, labels, [new])
    assert -50 < score < 50
