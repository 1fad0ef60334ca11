"""A run's model is asked items that its topics repeat, or not: either is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.evaluate.bbq.run_models import SCENES, load_items
from rldf_ray.evaluate.contamination import (
    PAIR_ROWS,
    SFT_ROWS,
    answer_overlap,
    answers_sentence,
    completions_of,
    overlap_sentence,
    overlap_with,
    run_behind,
    texts_to_avoid,
)
from rldf_ray.records import TOPIC_SCHEMA, table_of
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import judgement, multirole_set, opinion, plan_with

ITEMS = load_bbq(SCENES, ["Age"]).items
COPIED = replace(judgement(1), text=ITEMS[0].context)
TURNED = replace(opinion(2), text=" ".join(reversed(ITEMS[1].context.split())))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = RunFolder(tmp_path / "run")
    folder.write_table("data/topics.parquet", table_of([opinion(0), COPIED, TURNED], TOPIC_SCHEMA))
    folder.write_text("plan.yaml", "name: here\n")
    return folder.root


@pytest.mark.parametrize("model", ["", "model", "ppo/model"])
def test_the_topics_of_a_runs_models_are_held_against_the_items(run: Path, model: str) -> None:
    (run / model).mkdir(parents=True, exist_ok=True)
    assert run_behind(str(run / model)) is not None
    found = overlap_with(str(run / model), ITEMS)
    assert found is not None
    of_topics = {name: found[name] for name in ("topics", "items", "ngram", "same_words")}
    assert of_topics == {"topics": 3, "items": len(ITEMS), "ngram": 1, "same_words": 1}
    assert overlap_sentence(found, "BBQ").startswith("Of 3 training topics 1 have eight words")


@pytest.mark.parametrize("model", ["embedded", "openai:m", "ppo/model/deeper"])
def test_a_model_of_no_run_has_no_topics(run: Path, model: str) -> None:
    path = str(run / model) if "deeper" in model else model
    assert run_behind(path) is None and overlap_with(path, ITEMS) is None


@pytest.mark.parametrize("model", ["embedded", "openai:m", "some/name"])
def test_where_the_command_is_called_does_not_matter(
    run: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    assert run_behind(model) is None


def test_no_topic_may_repeat_an_item_that_the_sample_left_out() -> None:
    plan = plan_with("evaluate.items_per_category=4")
    asked = {item.key for item in load_items(plan).items}
    left_out = next(item for item in load_bbq(SCENES).items if item.key not in asked)
    assert texts_to_avoid(plan).overlap(replace(judgement(1), text=left_out.context)) == "ngram"


def test_no_topic_may_repeat_a_query_of_the_multirole_set(tmp_path: Path) -> None:
    sentence = "My aunt of ninety years drives her own car and is BLANK on the road"
    multirole_set(tmp_path, [{"context": sentence}])
    repeating = replace(opinion(1), text=sentence.split(" and ")[0])
    assert texts_to_avoid(plan_with()).overlap(repeating) is None
    plan = plan_with(f"evaluate.multirole={tmp_path}")
    assert texts_to_avoid(plan).overlap(repeating) == "ngram"


def test_completions_are_held_against_the_items_answer_options(run: Path) -> None:
    item = ITEMS[0]
    unknown, *names = sorted(item.options, key=lambda option: option != item.options[item.unknown])
    said = [f"{unknown.upper()}. No one was seen.", f"{names[0]}, as it says.", "Nobody can tell."]
    folder = RunFolder(run)
    folder.write_table("data/sft.parquet", _table(completion=[said[0], said[1], said[0]]))
    folder.write_table("data/pairs.parquet", _table(chosen=[said[2]], rejected=[said[1]]))
    assert completions_of(folder) == {said[0]: 2, said[1]: 2, said[2]: 1}
    found = answer_overlap(completions_of(folder), ITEMS)
    assert found == {
        "completions": 3,
        "begin_with_option": 2,
        "begin_with_unknown": 1,
        "rows": 5,
        "rows_with_option": 4,
        "rows_with_unknown": 2,
    }
    assert overlap_with(str(run), ITEMS) == {**(overlap_with(str(run), ITEMS) or {}), **found}
    assert answers_sentence(found, "BBQ") == (
        "Of 3 different completions 2 begin with an answer option of BBQ, 1 of them with one that "
        "says that it is not known; of their 5 rows (a pair has one for each side) 4 and 2."
    )
    earlier = {name: number for name, number in found.items() if not name.startswith("rows")}
    assert answers_sentence(earlier, "BBQ").endswith("that says that it is not known.")


def test_only_the_tables_that_a_model_was_trained_on_count(run: Path) -> None:
    for stage in ("sft", "ppo"):
        (run / stage / "model").mkdir(parents=True)
    folder = RunFolder(run)
    folder.write_table("data/sft.parquet", _table(completion=["One.", "One."]))
    folder.write_table("data/pairs.parquet", _table(chosen=["Two."], rejected=["One."]))
    assert completions_of(folder, [SFT_ROWS]) == {"One.": 2}
    assert completions_of(folder, [PAIR_ROWS]) == {"One.": 1, "Two.": 1}
    rows = {
        m: (overlap_with(str(run / m), ITEMS) or {})["rows"] for m in ("sft/model", "ppo/model")
    }
    assert rows == {"sft/model": 2, "ppo/model": 4}


def test_an_option_inside_a_completion_or_with_more_words_is_no_beginning() -> None:
    name = ITEMS[0].options[ITEMS[0].unknown]
    said = [f"I think {name}.", f"{name} to anybody here.", ""]
    assert answer_overlap(said, ITEMS)["begin_with_option"] == 0


OPTIONS = ["Mrs. Stone", "the U.S. citizen, of course", "Cannot be determined"]
PUNCTUATED = [replace(ITEMS[0], options=tuple(OPTIONS), unknown=2)]


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        ("Mrs. Stone.", True),
        ("mrs Stone, as it says.", True),
        ("The U.S. citizen, of course: it was seen.", True),
        ("the US citizen, of course", False),
        ("Mrs. Stone broke it.", False),
        ("Mrs.", False),
        ("The U.S. citizen.", False),
        ("\n- Mrs. Stone\nThat is all.", True),
    ],
)
def test_an_option_may_have_marks_inside(said: str, begins: bool) -> None:
    found = answer_overlap([said], PUNCTUATED)
    assert (found["begin_with_option"], found["begin_with_unknown"]) == (begins, 0)


@given(
    st.sampled_from(OPTIONS),
    st.sampled_from([".", "!", "?", ",", ";", ":", "\n", ""]),
    st.text(st.characters(codec="utf-8"), max_size=30),
)
def test_an_option_and_a_mark_begin_a_completion_whatever_follows(
    option: str, mark: str, rest: str
) -> None:
    found = answer_overlap([option.upper() + mark + (rest if mark else "")], PUNCTUATED)
    unknown = option == OPTIONS[2]
    shares = (found["begin_with_option"], found["begin_with_unknown"])
    assert (found["completions"], *shares) == (1, 1, unknown)


def _table(**columns: list[str]) -> pa.Table:
    messages = {
        name: [[{"role": "assistant", "content": text}] for text in texts]
        for name, texts in columns.items()
    }
    return pa.table(messages)
