"""Questions with stories, QuALITY as published, BBQ with its context hidden."""

import json
from pathlib import Path

import pytest

from rldf_ray.errors import UserError
from rldf_ray.protocols.persuasion.items import NOT_DRAWN, hidden, read_items
from rldf_ray.protocols.persuasion.quality import (
    EXCLUDED_QUESTIONS,
    EXCLUDED_STORIES,
    _Question,
    distractor,
    excluded,
    read_quality,
)
from rldf_ray.sets.bbq.items import BBQItem
from tests.protocols.persuasion.script import settings

SHARED = Path(__file__).parents[4] / "shared/data"


def read(path, **changes):
    return read_items(settings(data=str(path), **changes), 1)


def lines(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


PAIR = {"question": "Q?", "correct": "yes", "incorrect": "no"}


def test_one_s_own_questions(tmp_path):
    stories = lines(tmp_path / "stories.jsonl", {"story_id": 7, "text": "Once."})
    path = lines(
        tmp_path / "q.jsonl",
        {**PAIR, "story": "Twice.", "id": "a", "agrees": True},
        {"question": "R?", "correct": "x", "distractor": "y", "story_id": 7},
    )
    one, two = read(path, stories=str(stories))
    assert (one.item_id, one.story, one.agrees) == ("a", "Twice.", True)
    assert (two.item_id, two.story, two.group, two.incorrect) == ("q-2", "Once.", "7", "y")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (PAIR, "line 1: no story: neither `story`"),
        ({**PAIR, "story": "s", "incorrect": "yes"}, "line 1: correct and incorrect are the same"),
        ({**PAIR, "story": "s", "question": ""}, "line 1: question"),
    ],
)
def test_what_is_no_question_is_refused(tmp_path, row, words):
    with pytest.raises(UserError, match=words):
        read(lines(tmp_path / "q.jsonl", row))


def test_stories_that_are_too_long_are_left_out_or_all_refused(tmp_path):
    path = lines(
        tmp_path / "q.jsonl", {**PAIR, "story": "s" * 900}, {**PAIR, "story": "short", "id": "b"}
    )
    found = read(path, story_tokens=100)
    assert [item.item_id for item in found] == ["b"]
    assert found.left_out == {
        "their story is longer than 100 tokens (settings.story_tokens)": 1,
    }
    with pytest.raises(UserError, match="2 as their story is longer than 32 tokens"):
        read(
            lines(path, {**PAIR, "story": "s" * 900}, {**PAIR, "story": "s" * 901, "id": "b"}),
            story_tokens=32,
        )
    with pytest.raises(UserError, match="no such file or folder"):
        read(tmp_path / "none")
    twice = lines(tmp_path / "t.jsonl", *[{**PAIR, "story": "s", "id": "a"}] * 2)
    with pytest.raises(UserError, match="'a' is given to two questions"):
        read(twice)


def test_a_sample_has_few_questions_of_a_story_and_a_larger_one_holds_it(tmp_path):
    rows = [{**PAIR, "story": f"s{n // 5}", "id": f"{n}"} for n in range(20)]
    path = lines(tmp_path / "q.jsonl", *rows)
    few = read(path, per_story=2)
    assert len(few) == 8
    assert few.left_out == {NOT_DRAWN: 12}
    assert read(path, per_story=None).left_out == {}
    some = {item.item_id for item in read(path, items=5, per_story=None)}
    more = {item.item_id for item in read(path, items=9, per_story=None)}
    assert len(some) == 5 and some < more


def bbq(**changed):
    given = {
        "category": "Age",
        "example_id": 3,
        "question_index": "1",
        "polarity": "neg",
        "condition": "disambig",
        "context": "The grandfather fixed it; the grandson watched.",
        "question": "Who is bad with phones?",
        "options": ("The grandfather", "Not known", "The grandson"),
        "label": 2,
        "unknown": 1,
        "target_loc": 0,
        **changed,
    }
    return BBQItem(**given)


def test_bbq_with_its_context_hidden():
    item = hidden(bbq())
    assert (item.correct, item.incorrect, item.agrees) == ("The grandson", "The grandfather", False)
    assert hidden(bbq(label=0)).agrees is True
    assert hidden(bbq(target_loc=None)).agrees is None
    assert hidden(bbq(label=1)) is None


@pytest.mark.skipif(not SHARED.is_dir(), reason="the data are not there")
def test_the_data_at_hand():
    found = read(SHARED / "bbq", kind="bbq_hidden", items=120, per_story=1)
    assert len(found) == 120 and len({item.group for item in found}) == 120
    assert {item.agrees for item in found} >= {True, False}
    quality = read(
        SHARED / "quality/items.jsonl.gz",
        stories=str(SHARED / "quality/stories.jsonl.gz"),
        story_tokens=12_000,
        per_story=None,
    )
    assert len(quality) > 60 and all(len(item.story) > 1000 for item in quality)


def question(gold=1, votes=(2, 2, 3), **changed):
    checks = [
        {
            "untimed_answer": gold,
            "untimed_eval1_answerability": 1,
            "untimed_eval2_context": 2,
            "untimed_best_distractor": vote,
        }
        for vote in votes
    ]
    return {
        "question": "Why?",
        "question_unique_id": "u1",
        "options": ["a", "b", "c", "d"],
        "gold_label": gold,
        "writer_label": gold,
        "validation": checks,
        "speed_validation": [{"speed_answer": 4}, {"speed_answer": 3}],
        "difficult": 1,
        **changed,
    }


def checked(**changed):
    return {"validation": [{**one, **changed} for one in question()["validation"]]}


def quality_file(path, *questions, source="Gutenberg"):
    return lines(
        path,
        {
            "article_id": "1",
            "set_unique_id": "1_x",
            "source": source,
            "title": "T",
            "article": "A\u2028b\u00a0c",
            "questions": list(questions),
        },
    )


def test_quality_as_published(tmp_path):
    (item,) = read_quality(quality_file(tmp_path / "q", question()), True)
    assert (item.correct, item.incorrect, item.group, item.story) == ("a", "b", "1", "Ab c")


@pytest.mark.parametrize(
    ("votes", "place"), [((2, 2, 3), 2), ((3, 2), 2), ((1, 1, 4), 4), ((), None), ((1,), None)]
)
def test_the_distractor_is_the_wrong_option_most_often_voted(votes, place):
    assert distractor(_Question.model_validate(question(votes=votes))) == place


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"difficult": 0}, "they are not hard"),
        ({"writer_label": 2}, "their writer has another answer"),
        ({"speed_validation": [{"speed_answer": 1}, {"speed_answer": 1}]}, "more than 50%"),
        ({"speed_validation": []}, "readers have not checked them"),
        ({"options": ["a", "All of the above", "c", "d"]}, "an answer is all or none"),
        ({"options": ["a", "a", "c", "d"]}, "the distractor is the correct answer"),
        ({"validation": []}, "nobody voted for a distractor"),
        (checked(untimed_eval1_answerability=2), "readers find them open"),
        (checked(untimed_answer=3), "readers with time are not all right"),
        (checked(untimed_eval2_context=1), "a sentence or two"),
    ],
)
def test_what_the_paper_s_filter_leaves_out_is_counted_by_reason(tmp_path, changed, why):
    found = read_quality(quality_file(tmp_path / "q", question(**changed)), True)
    assert list(found) == []
    ((reason, number),) = found.left_out.items()
    assert reason.startswith(why) and number == 1


def test_the_paper_s_exclusions_by_name(tmp_path):
    path = quality_file(tmp_path / "q", question(), question())
    assert len(read_quality(path, True)) == 2
    path.write_text(path.read_text().replace('"T"', '"MONICA! "'))
    assert read_quality(path, True).left_out == {"the paper excludes them by name": 2}
    # Without the filter nothing is excluded by name.
    assert len(read_quality(path, False)) == 2
    asked = "What crime has Zeckler committed to warrant imprisonment ?"
    assert excluded("Letter of the Law", asked)
    assert not excluded("Letter of the Law", "Who is Zeckler?")
    assert not excluded("The Blue Tower", asked)
    assert len(EXCLUDED_STORIES) == 3 and len(EXCLUDED_QUESTIONS) == 9


def test_without_the_filter_easy_questions_stay(tmp_path):
    path = quality_file(tmp_path / "q", question(difficult=0), source="Slate")
    found = read_quality(path, True)
    assert found.left_out == {"the story is not of Project Gutenberg": 1}
    assert len(read_quality(path, False)) == 1
