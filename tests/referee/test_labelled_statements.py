"""The labelled statements: balanced, apart from what they test, and told by their context."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import fuzz, process

from rldf_ray.referee.labelled_statements import (
    StatementsError,
    given_statements,
    labelled_statements,
)
from rldf_ray.referee.prompted import render
from rldf_ray.storage.json_lines import LinesError
from rldf_ray.topics.bias_type import bias_type
from tests.prompts.texts import MORE, TYPES, seed_texts, shared_runs, the_papers

SETS = [*TYPES, "scenes"]
every_set = pytest.mark.parametrize("name", SETS)


def test_there_are_1200_labelled_statements_two_in_five_of_them_held_out() -> None:
    found = [s for name in TYPES for s in labelled_statements(name)]
    assert len(found) == 1200
    assert Counter(s.split for s in found)["held_out"] == 460
    scenes = labelled_statements("scenes")
    assert Counter(s.split for s in scenes) == {"fit": 1308, "held_out": 420}
    assert {s.form for s in scenes} == {"judgement"}


def test_what_is_drawn_together_is_an_opinions_topic_or_a_scene_in_both_its_tellings() -> None:
    of_type = labelled_statements("age")
    for s in of_type:
        together = [other for other in of_type if other.cluster == s.cluster]
        contexts, topics = {t.context for t in together}, {t.topic for t in together}
        assert topics == {s.topic} and {t.kind for t in together} == {s.kind}
        if s.kind == "opinion":
            assert together == [t for t in of_type if t.topic == s.topic]
        else:
            assert len(contexts) == 2 and len(together) == 4


def test_given_statements_are_drawn_by_their_context_and_without_one_by_themselves(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [("a", "On age."), ("b", "On age."), ("c", ""), ("d", "")]
    path.write_text(
        "".join(f'{{"text": "{t}", "label": 1, "context": "{c}"}}\n' for t, c in rows),
        encoding="utf-8",
    )
    one, two, three, four = (s.cluster for s in given_statements(path))
    assert one == two and len({one, three, four}) == 3


def test_every_scene_is_told_without_a_clue_and_with_either_answer() -> None:
    found = labelled_statements("scenes")
    answers: dict[str, set[str | None]] = {}
    for s in found:
        assert s.conclusion is not None
        asked = f"{s.context.partition('. ')[0]} {s.conclusion.question}"
        answers.setdefault(asked, set()).add(s.conclusion.answer)
    assert all(None in given and len(given) == 3 for given in answers.values())
    counts = Counter((s.split, s.label, s.abstains) for s in found)
    assert counts["fit", 0, True] * 2 == counts["fit", 0, False]
    assert all(s.conclusion and s.conclusion.answer is None for s in found if s.abstains)


@the_papers
def test_every_bias_type_has_both_labels_equally_often_in_both_splits(name: str) -> None:
    found = labelled_statements(name)
    counts = Counter((s.split, s.label) for s in found)
    for split in ("fit", "held_out"):
        assert counts[split, 0] == counts[split, 1] > 40
    assert {s.bias_type for s in found} == {name}


@the_papers
def test_a_quarter_of_the_labelled_statements_are_answers_to_judgement_scenes(name: str) -> None:
    forms = Counter(s.form for s in labelled_statements(name))
    assert forms.pop("judgement") * 4 == len(labelled_statements(name))
    assert len(forms) == 6 and min(forms.values()) >= 28


@the_papers
def test_an_answer_that_guesses_without_the_clue_is_right_with_it(name: str) -> None:
    answers = [s for s in labelled_statements(name) if s.form == "judgement" and not s.abstains]
    labels: dict[str, set[int]] = {}
    for s in answers:
        labels.setdefault(s.text, set()).add(s.label)
    both = [text for text, seen in labels.items() if seen == {0, 1}]
    assert sum(s.text in both for s in answers) >= len(answers) / 5


@the_papers
def test_a_scene_says_what_it_lets_one_conclude_and_half_of_them_nothing(name: str) -> None:
    found = labelled_statements(name)
    scenes = {s.context: s.conclusion for s in found if s.form == "judgement"}
    assert all((s.conclusion is None) == (s.form != "judgement") for s in found)
    answers = [one.answer for one in scenes.values() if one is not None]
    assert len(answers) == len(scenes) and answers.count(None) * 2 == len(answers)
    for context, conclusion in scenes.items():
        assert conclusion is not None and context.endswith(conclusion.question)
        assert conclusion.answer is None or conclusion.answer.lower() in context.lower()


@every_set
def test_a_pair_is_one_biased_and_one_fair_statement_in_the_same_context(name: str) -> None:
    pairs: dict[str, list[int]] = {}
    found = {(s.pair, s.label): s for s in labelled_statements(name)}
    for pair, label in found:
        pairs.setdefault(pair, []).append(label)
    assert len(found) == len(labelled_statements(name))
    for pair, labels in pairs.items():
        assert sorted(labels) == [0, 1], pair
        fair, biased = found[pair, 0], found[pair, 1]
        for field in ("context", "topic", "family", "form", "split"):
            assert getattr(fair, field) == getattr(biased, field), (pair, field)
        assert fair.text != biased.text


def test_the_held_out_statements_are_about_other_topics_than_the_fitted_ones() -> None:
    found = [s for name in SETS for s in labelled_statements(name)]
    for field in ("topic", "context", "pair", "family"):
        fit = {getattr(s, field) for s in found if s.split == "fit"}
        assert not fit & {getattr(s, field) for s in found if s.split == "held_out"}, field


def test_no_labelled_statement_occurs_twice_in_a_context() -> None:
    found = Counter((s.context, s.text) for name in SETS for s in labelled_statements(name))
    assert [pair for pair, times in found.items() if times > 1] == []


def test_no_opinion_of_the_labelled_set_nearly_repeats_one_of_the_other_split() -> None:
    found = [s for name in TYPES for s in labelled_statements(name) if s.form != "judgement"]
    fit = [s.text for s in found if s.split == "fit"]
    held_out = [s.text for s in found if s.split == "held_out"]
    likeness = process.cdist(held_out, fit, scorer=fuzz.token_sort_ratio, score_cutoff=75)
    assert not likeness.any()


@the_papers
def test_the_label_cannot_be_told_from_the_length(name: str) -> None:
    lengths: dict[int, list[int]] = {0: [], 1: []}
    for s in labelled_statements(name):
        lengths[s.label].append(len(s.text))
    fair, biased = (sum(lengths[label]) / len(lengths[label]) for label in (0, 1))
    assert abs(fair - biased) / fair < 0.1


@the_papers
def test_nobody_is_named_by_who_abstains_and_only_a_referee_that_checks_minds(name: str) -> None:
    answers = [s for s in labelled_statements(name) if s.form == "judgement"]
    abstaining = [s for s in answers if s.abstains]
    assert all(s.label == 0 for s in abstaining)
    for s in answers:
        assert s.conclusion is not None
        as_answer = int(s.conclusion.answer is not None) if s.abstains else s.label
        assert s.as_answer().label == as_answer
    tells = [s for s in answers if s.conclusion and s.conclusion.answer is not None]
    assert len(tells) * 2 == len(answers)
    assert sum(s.abstains for s in tells) == 4 and sum(s.label for s in tells) == 15


@every_set
def test_who_is_biased_cannot_be_told_from_who_is_named_first(name: str) -> None:
    named_first: dict[tuple[int, bool], list[bool]] = {}
    for s in labelled_statements(name):
        if s.form != "judgement" or s.abstains:
            continue
        assert s.conclusion is not None
        key = s.label, s.conclusion.answer is not None
        first = s.context.partition(" and the ")[0].lower()
        named_first.setdefault(key, []).append(first in s.text.lower())
    for seen in named_first.values():
        assert 0.35 <= sum(seen) / len(seen) <= 0.65


def test_a_labelled_statement_is_never_judged_in_a_seed_topic() -> None:
    seeds = [text for name in [*TYPES, *MORE] for text in seed_texts(name)]
    scenes = [j.scene for name in [*TYPES, *MORE] for j in bias_type(name).judgement_topics]
    for name in SETS:
        for context in {s.context for s in labelled_statements(name)}:
            assert context not in seeds
            assert [scene for scene in scenes if scene in context or context in scene] == []
    contexts = [s.context for name in SETS for s in labelled_statements(name)]
    assert not shared_runs(contexts, seeds)


def test_a_bias_type_without_labelled_statements_has_none() -> None:
    assert labelled_statements("shoe-size") == []


@settings(max_examples=30)
@given(st.lists(st.text(), max_size=3))
def test_any_lines_are_statements_or_a_told_error(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises((LinesError, StatementsError), match=r"mine\.jsonl"):
            given_statements(path)


def test_given_statements_need_a_text_and_a_label_only(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"text": "a", "label": 1}\n{"text": "b", "label": 0, "context": "c"}\n', encoding="utf-8"
    )
    one, other = given_statements(path)
    assert (one.text, one.label, one.context) == ("a", 1, "")
    assert (other.text, other.label, other.context) == ("b", 0, "c")
    assert one.pair != other.pair and "Context" not in render("score", context="", text="a")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": " \\n", "label": 1}', "line 2: text: .*it is blank"),
        ('{"text": "b", "label": true}', "line 2: label: .*it is 1 .biased. or 0 .fair."),
        ('{"text": "b", "label": false}', "line 2: label: "),
        ('{"text": "b", "label": "1"}', "line 2: label: "),
        ('{"text": "a ", "label": 1, "context": "c"}', "line 2: repeats line 1; leave it out"),
        ('{"text": "a", "label": 0, "context": "c"}', "line 2: label 0, and line 1 has the same"),
    ],
)
def test_lines_that_say_nothing_new_or_the_opposite_are_refused(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(f'{{"text": "a", "label": 1, "context": "c"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(LinesError, match=message):
        given_statements(path)


def test_the_same_text_in_another_context_is_another_statement(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [("a", 1, "c"), ("a", 0, "d"), ("a", 1, "")]
    path.write_text(
        "".join(f'{{"text": "{t}", "label": {y}, "context": "{c}"}}\n' for t, y, c in rows),
        encoding="utf-8",
    )
    assert [s.label for s in given_statements(path)] == [1, 0, 1]


@every_set
def test_whoever_abstains_is_the_fair_side_of_a_pair(name: str) -> None:
    for statement in labelled_statements(name):
        assert statement.label == 0 or not statement.abstains
        assert statement.side == statement.as_answer().side == statement.label
