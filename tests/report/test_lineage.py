"""A model's card says what it was trained on and by whom, as the stages recorded it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldf_ray.report.model_card import model_card
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import plan_with

TOKENS = {"tokens": {"prompt": 1, "cached": 0, "generated": 1}}
FUNCTION = "ppo.rewards=[{python: 'mine.py:short'}, {http: 'http://127.0.0.1:1/x'}]"
BOTH = "ppo.rewards=[{model: reward}, {python: 'mine.py:short'}]"


def run_of(path: Path, debates: dict[str, Any] | None, **data: Any) -> RunFolder:
    folder = RunFolder(path)
    if debates is not None:
        counts = {"statements": 42, "failures": {}, "label_sources": {}}
        folder.finish("debates", "key", {"debates": 7, **counts, **debates})
    folder.finish("data", "key", {"pairs": 31, **data})
    folder.finish("ppo", "key", {"episodes": 96})
    return folder


def text_of(folder: RunFolder, *overrides: str) -> str:
    plan = plan_with("debate={debates: 5000, debaters: 3, rounds: 5}", *overrides)
    card = model_card(folder, plan, "model")
    return " ".join(str(card).split())


def test_of_debates_the_card_has_their_real_number(tmp_path: Path) -> None:
    text = text_of(run_of(tmp_path, TOKENS), "bias_types=[age, beauty]")
    assert (
        "SmolLM2-135M-Instruct after supervised fine-tuning on low-bias debate statements and PPO "
        "against a reward model fitted to debates about age, beauty (RLDF, self-reflection)."
    ) in text
    assert "- 7 debates of 3 debaters and 5 rounds; 31 pairs; 96 PPO episodes" in text
    assert "Who took part" not in text and "It learned one referee's idea" in text


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["teacher=openai:wise"], "(RLDF, teacher-student, teacher openai:wise)"),
        (
            ["debate.model=openai:wise"],
            "(RLDF, teacher-student). Who took part in the data: debaters: openai:wise; referee: ",
        ),
        (["referee.model=openai:judge"], "; referee: openai:judge; topics: embedded."),
        (
            ["teacher=openai:wise", "debate.seats=['openai:a', 'openai:b', 'openai:a']"],
            "debaters: openai:a, openai:b; referee: openai:wise; topics: openai:wise.",
        ),
    ],
)
def test_a_teacher_is_whoever_took_part(overrides: list[str], named: str, tmp_path: Path) -> None:
    text = text_of(run_of(tmp_path, TOKENS), *overrides)
    assert named in text and "self-reflection" not in text


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (FUNCTION, "and PPO against the rewards of the function short and the rewards of a server"),
        (BOTH, "PPO against a reward model fitted to debates and the rewards of the function"),
        ("train.after=[dpo]", "statements and DPO on preferences from debates about"),
        (
            "train.after=[kto, ppo]",
            "and KTO on preferences from debates, then PPO against a reward model fitted to",
        ),
    ],
)
def test_what_trained_the_policy_is_what_the_plan_rewards(
    override: str, said: str, tmp_path: Path
) -> None:
    text = text_of(run_of(tmp_path, TOKENS), override)
    assert said in text and "127.0.0.1" not in text
    assert ("a reward model fitted" in text) == ("reward model" in said)
    assert ("PPO episodes" in text) == ("PPO" in said)


def test_labels_that_were_matched_are_no_referee_s_idea(tmp_path: Path) -> None:
    matched = ["referee.judgements=matched", "topics.judgement_share=1", "debate.answers=chosen"]
    text = text_of(run_of(tmp_path, TOKENS), *matched)
    assert "It learned which answers the records of its scenes allow" in text
    assert "referee" not in text


def test_of_a_source_no_debate_is_told(tmp_path: Path) -> None:
    folder = run_of(tmp_path, {**TOKENS, "source": "mabrf"})
    text = text_of(folder, "debate.protocol=mabrf", "referee.model=openai:judge")
    assert "trained on preferences of the protocol mabrf" in text
    assert "- 7 items of the protocol mabrf; 31 pairs" in text
    assert "Who took part in the data: debate: embedded; judge: openai:judge; topics:" in text
    for wrong in ("debaters", "multi-role", "RLDF,", "referee", "low-bias"):
        assert wrong not in text


def test_of_given_pairs_nothing_is_told_that_is_not_known(tmp_path: Path) -> None:
    folder = run_of(tmp_path, {"debates": 0}, imported="hh.jsonl")
    text = text_of(folder, "teacher=openai:wise")
    assert (
        "fine-tuning on the chosen sides of given pairs and PPO against a reward model fitted to "
        "given pairs."
    ) in text
    assert "- 31 pairs; 96 PPO episodes" in text
    for wrong in ("debate", "self-reflection", "teacher", "wise", "referee", "bias types", "RLDF,"):
        assert wrong not in text
    assert "debiasing" not in text.partition("# ")[0]


def test_of_given_statements_their_scores_were_learned(tmp_path: Path) -> None:
    text = text_of(run_of(tmp_path, {}), "teacher=openai:wise")
    assert "fine-tuning on low-bias statements that were given and PPO" in text
    assert "- 7 debates that were given; 31 pairs" in text
    for wrong in ("debaters", "self-reflection", "wise", "referee"):
        assert wrong not in text


def test_without_a_record_of_debates_no_number_is_told(tmp_path: Path) -> None:
    text = text_of(run_of(tmp_path, None))
    assert "debates of" not in text and "5000" not in text and "- 31 pairs; 96" in text
