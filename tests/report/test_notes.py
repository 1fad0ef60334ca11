"""The report's notes: they claim what the numbers show, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rldf_ray.evaluate.bbq.run_models import SCENES, difference
from rldf_ray.report.notes import is_unproven, notes_of, preference_notes
from rldf_ray.sets.bbq.data import load_bbq

REWARD = {"accuracy": 0.8, "accuracy_low": 0.7, "held_out_pairs": 50}
REWARD |= {"loss_end": 0.1, "undebated": None, "pairs": 200, "too_long": 0}
LAST = "One run with one seed: differences between runs were not measured."


def change(value: float, low: float | None, high: float | None, n: int = 160) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n}


def model(reward: float, accuracy: float, disambig: float, perplexity: float) -> dict[str, Any]:
    return {
        "reward": {"mean": reward},
        "multiple_choice": {"overall": {"accuracy": accuracy, "accuracy_disambig": disambig}},
        "perplexity": {"value": perplexity, "tokens": 1900},
    }


def a_report(**changes: Any) -> dict[str, Any]:
    """A finished run's report, as far as the notes read it."""
    whole: dict[str, Any] = {
        "plan": {
            "topics": {"judgement_share": 0.5},
            "referee": {
                "threshold_kind": "absolute",
                "label_source": "said",
                "judgements": "scored",
            },
            "train": {"after": ["ppo"]},
        },
        "unreadable": {},
        "stages": [{"tokens": {"prompt": 70, "cached": 0, "generated": 30}}, {"tokens": None}],
        "referee": {"verdict": "The referee separates well.", "distinct_said_scores": 9},
        "debates": {"high": 40, "low": 60, "label_sources": {"said": 100}},
        "data": {
            "imported": None,
            "quality": {"warnings": ["Length alone predicts the label."]},
        },
        "training": {
            "sft": {"examples": 100, "too_long": 0},
            "reward": REWARD,
            "ppo": {"episodes": 64, "steps": 16, "kl_last": 0.0123},
        },
        "evaluation": {
            "accuracy_change": {"policy": change(0.1, 0.05, 0.15)},
            "models": {
                "base": model(0.1, 0.40, 0.50, 20.0),
                "sft": model(0.2, 0.50, 0.50, 20.0),
                "policy": model(0.3, 0.60, 0.50, 21.0),
            },
            "always_unknown": {"accuracy": 0.5},
            "overlap": {"topics": 100, "items": 160, "ngram": 0, "same_words": 0},
        },
    }
    return {**whole, **changes}


def evaluated(found: dict[str, Any] | None) -> dict[str, Any]:
    evaluation = {**a_report()["evaluation"], "accuracy_change": {"policy": found}}
    return a_report(evaluation=evaluation)


def trained(**changes: Any) -> dict[str, Any]:
    return a_report(training={**a_report()["training"], **changes})


def the_note(report: dict[str, Any], beginning: str) -> str:
    (note,) = [note for note in notes_of(report) if note.startswith(beginning)]
    return note


def test_a_finished_run_is_told_in_the_order_of_its_stages() -> None:
    notes = notes_of(a_report())
    beginnings = [
        "The referee",
        "Length alone",
        "The reward model",
        "PPO made",
        "Accuracy of policy",
        "Perplexity on",
        "Rewards on",
    ]
    assert len(notes) == 8 and notes[-1] == LAST
    for note, beginning in zip(notes, beginnings, strict=False):
        assert note.startswith(beginning)


def test_a_run_that_has_only_begun_claims_nothing() -> None:
    begun = a_report(
        referee=None,
        debates=None,
        data=None,
        evaluation=None,
        training={"sft": None, "reward": None, "ppo": None},
    )
    assert notes_of(begun) == [
        "The referee was not audited, so nothing is known of how good its labels are.",
        "The models were not evaluated.",
    ]


def test_what_cannot_be_read_is_named_and_not_called_undone() -> None:
    why = {"audit": "stages/audit.json has no 'verdict'", "eval": "stages/eval.json has no 'set'"}
    notes = notes_of(a_report(referee=None, evaluation=None, unreadable=why))
    assert notes[:2] == [f"Not in this report: {said}." for said in why.values()]
    assert not any("not audited" in note or "not evaluated" in note for note in notes)


def test_given_pairs_are_told() -> None:
    given = a_report(data={"imported": "mine.jsonl", "quality": {"warnings": []}})
    assert "no debate was held" in the_note(given, "The pairs were given (mine.jsonl)")


def test_tokens_counted_by_characters_are_said_once() -> None:
    tokens = {"prompt": 70, "cached": 0, "generated": 30, "by_characters": 60}
    counted = a_report(stages=[{"tokens": tokens}, {"tokens": tokens}, {"tokens": None}])
    assert "120 of 200 tokens" in notes_of(counted)[0]
    assert not any("characters" in note for note in notes_of(a_report()))


# ---- the referee


def test_the_audits_verdict_is_passed_on_word_for_word() -> None:
    assert notes_of(a_report())[0] == "The referee separates well."


@pytest.mark.parametrize(("share", "audited"), [(0.5, True), (1.0, False)])
def test_labels_that_were_matched_are_said_to_be_verifiable_answers(
    share: float, audited: bool
) -> None:
    report = a_report()
    report["plan"]["topics"]["judgement_share"] = share
    report["plan"]["referee"]["judgements"] = "matched"
    notes = notes_of(report)
    assert sum("verifiable answers" in note for note in notes) == 1
    assert ("The referee separates well." in notes) == audited
    assert not any("verifiable" in note for note in notes_of(a_report()))


@pytest.mark.parametrize(("distinct", "told"), [(1, True), (0, False), (2, False)])
def test_a_referee_that_always_says_the_same_is_told(distinct: int, told: bool) -> None:
    report = a_report(referee={"verdict": "V.", "distinct_said_scores": distinct})
    assert any("the same score" in note for note in notes_of(report)) is told


def test_labels_relative_to_the_round_are_told_with_how_many_there_are() -> None:
    relative = a_report()
    relative["plan"]["referee"]["threshold_kind"] = "relative"
    note = the_note(relative, "Labels are relative to the round")
    assert "40 statements" in note and "however mild" in note
    assert not any("relative" in note for note in notes_of(a_report()))
    assert not any("relative to the round" in n for n in notes_of({**relative, "debates": None}))


# ---- the reward model


@pytest.mark.parametrize("low", [0.3, 0.5])
def test_a_reward_model_no_better_than_a_coin_is_called_so(low: float) -> None:
    reward = {**REWARD, "accuracy": 0.6, "accuracy_low": low, "held_out_pairs": 20}
    note = the_note(trained(reward=reward), "The reward model")
    assert "not shown to be better than a coin" in note and "0.60 on 20 held-out pairs" in note
    assert "noise" in note


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        (12, "accuracy 0.80 on 50 held-out pairs of 12 topics)"),
        # A run of an earlier version recorded no topics.
        (None, "accuracy 0.80 on 50 held-out pairs, taken as independent)"),
    ],
)
def test_an_accuracy_is_told_with_its_topics(topics: int | None, said: str) -> None:
    reward = REWARD if topics is None else {**REWARD, "held_out_topics": topics}
    for low, beginning in ((0.7, "The reward model agrees"), (0.4, "The reward model is not")):
        note = the_note(trained(reward={**reward, "accuracy_low": low}), beginning)
        assert said in note


@pytest.mark.parametrize(("topics", "of"), [(1, "1 topic"), (3, "3 topics")])
def test_held_out_pairs_of_few_topics_show_nothing(topics: int, of: str) -> None:
    few = {**REWARD, "accuracy": 1.0, "accuracy_low": None, "held_out_topics": topics}
    assert is_unproven(few)
    note = the_note(trained(reward=few), "The held-out pairs are of too few topics")
    assert note.endswith(f"(accuracy 1.00 on 50 held-out pairs of {of}).")
    (note,) = preference_notes("dpo", few)
    assert "is not shown to have learned" in note
    assert f"accuracy of its implicit reward 1.00 on 50 held-out pairs of {of}; too few" in note


def test_without_held_out_pairs_nothing_is_unproven() -> None:
    assert not is_unproven({**REWARD, "accuracy": None, "accuracy_low": None})


def test_a_reward_model_that_agrees_is_not_said_to_be_right() -> None:
    note = the_note(a_report(), "The reward model")
    assert "0.80 on 50 held-out pairs" in note and "not how good they are" in note


@pytest.mark.parametrize("accuracy", [0.8, None])
def test_a_reward_model_that_is_not_trained_to_its_end_is_said_to_be_so(
    accuracy: float | None,
) -> None:
    reward = {**REWARD, "loss_end": 0.55, "accuracy": accuracy}
    note = the_note(trained(reward=reward), "The loss of the reward model")
    assert "0.55" in note and "0.69" in note and "reward.epochs" in note
    assert not any(note.startswith("The loss of the reward model") for note in notes_of(a_report()))


@pytest.mark.parametrize(
    ("shares", "taught"),
    [
        ((0.96, 1.0, 0.75), []),
        ((0.96, 0.0, 1.0), ["not to answer where the clue tells"]),
        ((0.5, 0.9, 0.25), ["names that the clue does not tell", "name somebody where nothing"]),
    ],
    ids=["reads the clue", "always open", "never open"],
)
def test_what_a_reward_model_would_teach_is_said(
    shares: tuple[float, float, float], taught: list[str]
) -> None:
    names = ("right_over_wrong", "right_over_unknown", "unknown_over_names")
    asked = {name: {"value": share} for name, share in zip(names, shares, strict=True)}
    reward = {**REWARD, "undebated": {"scenes": 24, **asked}}
    note = the_note(trained(reward=reward), "On 24 scenes nobody debated")
    assert all(f"{share:.2f}" in note for share in shares)
    assert all(words in note for words in taught) and ("PPO will teach" in note) == bool(taught)


@pytest.mark.parametrize(
    "reward", [None, {**REWARD, "accuracy": None, "accuracy_low": None, "held_out_pairs": 0}]
)
def test_an_unmeasured_reward_model_is_not_judged(reward: dict[str, Any] | None) -> None:
    assert not any(note.startswith("The reward model") for note in notes_of(trained(reward=reward)))


@pytest.mark.parametrize("number", [None, 0, 30])
def test_rows_that_were_too_long_to_learn_from_are_said(number: int | None) -> None:
    sft, reward = {"examples": 100, "too_long": number}, {**REWARD, "too_long": number}
    notes = [n for n in notes_of(trained(sft=sft, reward=reward)) if "were left out of" in n]
    said = ["30 of 130 examples", "30 of 280 pairs"] if number else []
    assert [" ".join(note.split()[:4]) for note in notes] == said


# ---- PPO


def test_ppo_is_told_with_its_size_and_its_distance() -> None:
    note = the_note(a_report(), "PPO made")
    assert "64 episodes in 16 steps" in note and "0.0123 nats" in note
    assert not any(note.startswith("PPO made") for note in notes_of(trained(ppo=None)))


# ---- the evaluation


@pytest.mark.parametrize(("low", "high"), [(-0.05, 0.15), (0.0, 0.2), (-0.2, 0.0), (-0.3, 0.01)])
def test_an_interval_that_holds_zero_shows_no_difference(low: float, high: float) -> None:
    note = the_note(evaluated(change(0.05, low, high)), "Accuracy of policy")
    assert "no difference beyond noise is shown" in note


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (change(0.1, 0.05, 0.15), ["+10.0 points on 160 items", "+5.0 to +15.0"]),
        (change(-0.1, -0.15, -0.05), ["-10.0 points", "-15.0 to -5.0"]),
    ],
)
def test_a_difference_beyond_noise_is_told_with_its_interval(
    found: dict[str, Any], parts: list[str]
) -> None:
    note = the_note(evaluated(found), "Accuracy of policy")
    assert all(part in note for part in parts) and "noise" not in note


ONE_TEMPLATE = "all of one question template, so there is no interval."


@pytest.mark.parametrize(
    ("value", "templates", "end"),
    [
        (0.0, 12, "the same on every one of them."),
        (-1.0, 12, "the same on every one of them."),
        (1.0, None, "the same on every one of them."),
        (0.25, 1, ONE_TEMPLATE),
        (0.25, None, ONE_TEMPLATE),
        (0.0, 1, ONE_TEMPLATE),
        # A run of an earlier version did not record how many templates there are.
        (0.0, None, "the same on every one of them, or " + ONE_TEMPLATE),
    ],
)
def test_a_change_without_an_interval_says_why(
    value: float, templates: int | None, end: str
) -> None:
    found = change(value, None, None) | ({} if templates is None else {"templates": templates})
    note = the_note(evaluated(found), "Accuracy of policy")
    assert note.endswith(f"{100 * value:+.1f} points on 160 items; {end}")


def test_items_of_one_template_that_differ_are_not_called_the_same() -> None:
    """One of four items of a template is answered rightly where it was not."""
    scenes = load_bbq(SCENES)
    first = scenes.items[0]
    template = (first.category, first.question_index)
    of_it = tuple(i for i in scenes.items if (i.category, i.question_index) == template)
    few = replace(scenes, items=of_it[:4])
    wrong = [tuple(float(k != i.label) for k in range(3)) for i in few.items]
    right = [tuple(float(k == i.label) for k in range(3)) for i in few.items]
    found = difference(few, wrong, [right[0], *wrong[1:]], 0)
    assert found is not None and found["templates"] == 1
    assert the_note(evaluated(found), "Accuracy of policy").endswith(
        f"+25.0 points on 4 items; {ONE_TEMPLATE}"
    )


def test_a_change_that_was_not_measured_is_not_told() -> None:
    assert not any(note.startswith("Accuracy") for note in notes_of(evaluated(None)))


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ({"base": {"reward": {"mean": 0.1}}, "policy": {"reward": {"mean": 0.2}}}, True),
        ({"base": {"reward": {"mean": 0.1}}, "policy": {"reward": None}}, False),
        ({"base": {"reward": {"mean": 0.1}}}, False),
    ],
)
def test_rewards_are_told_to_come_from_the_model_ppo_was_trained_against(
    models: dict[str, Any], told: bool
) -> None:
    unmeasured: dict[str, Any] = {"accuracy_change": {}, "always_unknown": None, "overlap": None}
    report = a_report(evaluation={**unmeasured, "models": models})
    assert any("no evidence of less bias" in note for note in notes_of(report)) is told


def test_every_evaluated_run_is_told_to_be_one_run_with_one_seed() -> None:
    assert notes_of(evaluated(None))[-1] == LAST


def test_notes_are_plain_sentences() -> None:
    for note in notes_of(a_report()):
        assert note.endswith(".") and "None" not in note and "nan" not in note.split()


def test_scores_said_in_place_of_expectations_are_told() -> None:
    plan = a_report()["plan"]
    plan["referee"]["label_source"] = "expected"
    debates = {"high": 40, "low": 60, "label_sources": {"said": 30, "expected": 70}}
    assert the_note(a_report(plan=plan, debates=debates), "30 statements are labelled by")
    told = {**debates, "label_sources": {"expected": 100}}
    notes = notes_of(a_report(plan=plan, debates=told))
    assert not [note for note in notes if "are labelled by" in note]


# ---- general ability and contamination


def with_policy(**changes: Any) -> dict[str, Any]:
    """A report whose policy has other figures: accuracy, disambig, perplexity."""
    figures = {"reward": 0.3, "accuracy": 0.6, "disambig": 0.5, "perplexity": 21.0, **changes}
    evaluation = a_report()["evaluation"]
    models = {**evaluation["models"], "policy": model(**figures)}
    return a_report(evaluation={**evaluation, "models": models})


def test_perplexity_is_told_and_called_a_loss_only_where_it_is_one() -> None:
    assert the_note(with_policy(), "Perplexity").endswith("base 20.0, policy 21.0.")
    assert "lost some of its language" in the_note(with_policy(perplexity=25.0), "Perplexity")


def test_a_policy_that_says_nothing_is_seen() -> None:
    silent = with_policy(accuracy=0.5, disambig=0.1)
    assert "0.50 on these items, the policy 0.50" in the_note(silent, "A model that always")
    assert "(0.50 to 0.10)" in the_note(silent, "Where the context settles")
    beginnings = ("A model that always", "Where the context")
    assert not [note for note in notes_of(with_policy()) if note.startswith(beginnings)]


def test_topics_that_repeat_items_are_told() -> None:
    evaluation = a_report()["evaluation"]
    overlap = {"topics": 100, "items": 160, "ngram": 3, "same_words": 1}
    report = a_report(evaluation={**evaluation, "overlap": overlap})
    assert the_note(report, "4 of the run's 100 topics repeat")


def test_what_an_earlier_version_did_not_measure_is_passed_over() -> None:
    evaluation = a_report()["evaluation"]
    models = {name: {**m, "perplexity": None} for name, m in evaluation["models"].items()}
    old = {**evaluation, "models": models, "always_unknown": None, "overlap": None}
    assert not [n for n in notes_of(a_report(evaluation=old)) if n.startswith("Perplexity")]
