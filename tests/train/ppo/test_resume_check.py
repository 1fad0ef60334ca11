"""How far a resumed job's answers repeat those of the job that was cut off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rldf_ray.train.ppo.resume_check import KeptAnswers
from tests.train.tiny import random_rollouts


def test_the_first_token_that_differs_is_found(tmp_path: Path) -> None:
    rollouts = random_rollouts(4)
    KeptAnswers(tmp_path, 0).keep(2, rollouts)
    ids = rollouts[2].answer_ids
    rollouts[2] = replace(rollouts[2], answer_ids=(*ids[:-1], 99))
    again = KeptAnswers(tmp_path, 0)
    assert again.repeated(2, rollouts) == {
        "repeated_answers": 2,
        "repeated_tokens": len(ids) - 1,
    }


def test_an_answer_that_goes_on_differs_where_the_other_ended(tmp_path: Path) -> None:
    rollouts = random_rollouts(2)
    KeptAnswers(tmp_path, 0).keep(0, rollouts)
    ids = rollouts[0].answer_ids
    rollouts[0] = replace(rollouts[0], answer_ids=(*ids, 7))
    found = KeptAnswers(tmp_path, 0).repeated(0, rollouts)
    assert found == {"repeated_answers": 0, "repeated_tokens": len(ids)}


def test_equal_answers_are_all_repeated_and_only_their_step_is_compared(tmp_path: Path) -> None:
    rollouts = random_rollouts(3)
    KeptAnswers(tmp_path, 0).keep(1, rollouts)
    again = KeptAnswers(tmp_path, 0)
    assert again.repeated(0, rollouts) == {}
    assert again.repeated(1, rollouts) == {"repeated_answers": 3, "repeated_tokens": 0}
    assert KeptAnswers(tmp_path, 1).repeated(1, rollouts) == {}


def test_half_a_line_of_a_killed_worker_is_left_out(tmp_path: Path) -> None:
    rollouts = random_rollouts(2)
    KeptAnswers(tmp_path, 0).keep(0, rollouts)
    with (tmp_path / "answered-0.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 1, "answ')
    again = KeptAnswers(tmp_path, 0)
    assert again.repeated(0, rollouts)["repeated_answers"] == 2
    assert again.repeated(1, rollouts) == {}


def test_a_checkpoint_ends_what_is_remembered(tmp_path: Path) -> None:
    rollouts = random_rollouts(2)
    answered = KeptAnswers(tmp_path, 0)
    answered.keep(0, rollouts)
    answered.forget()
    answered.forget()
    assert KeptAnswers(tmp_path, 0).repeated(0, rollouts) == {}
