"""The notes on an evaluation: what its figures are evidence of, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.evaluate.bbq.run_models import SCENES, difference
from rldf_ray.report.notes import notes_of
from rldf_ray.sets.bbq.data import load_bbq
from tests.report.reports import (
    FUNCTION,
    LAST,
    a_report,
    change,
    evaluated,
    model,
    planned,
    the_note,
    trained,
)

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


ONE_TEMPLATE = "all of one question template; an interval takes 6."
FEW_TEMPLATES = "of too few question templates for an interval."


@pytest.mark.parametrize(
    ("value", "templates", "end"),
    [
        (0.0, 12, "the same in every question template."),
        (0.25, 12, "the same in every question template."),
        (-1.0, 12, "the same on every one of them."),
        (1.0, None, "the same on every one of them."),
        (0.25, 1, ONE_TEMPLATE),
        (0.25, 5, "all of 5 question templates; an interval takes 6."),
        (0.25, None, FEW_TEMPLATES),
        (0.0, 1, ONE_TEMPLATE),
        (0.0, 5, "all of 5 question templates; an interval takes 6."),
        (0.0, 6, "the same in every question template."),
        # A run of an earlier version did not record how many templates there are.
        (0.0, None, "the same on every one of them, or " + FEW_TEMPLATES),
    ],
)
def test_a_change_without_an_interval_says_why(
    value: float, templates: int | None, end: str
) -> None:
    found = change(value, None, None) | ({} if templates is None else {"templates": templates})
    note = the_note(evaluated(found), "Accuracy of policy")
    assert note.endswith(f"{100 * value:+.1f} points on 160 items; {end}")


def test_an_interval_of_few_templates_in_an_earlier_report_claims_nothing() -> None:
    note = the_note(evaluated(change(0.1, 0.05, 0.15) | {"templates": 3}), "Accuracy of policy")
    assert note.endswith(
        "+10.0 points on 160 items; all of 3 question templates; an interval takes 6."
    )


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


def test_a_change_is_of_the_items_of_one_condition_where_one_is_given() -> None:
    """Everything ambiguous is answered rightly where nothing was, and the other half as before."""
    scenes = load_bbq(SCENES)
    wrong = [tuple(float(k != i.label) for k in range(3)) for i in scenes.items]
    right = [tuple(float(k == i.label) for k in range(3)) for i in scenes.items]
    mixed = [
        r if i.condition == "ambig" else w
        for i, w, r in zip(scenes.items, wrong, right, strict=True)
    ]
    for condition, value in (("ambig", 1.0), ("disambig", 0.0), (None, 0.5)):
        found = difference(scenes, wrong, mixed, 0, condition)  # type: ignore[arg-type]
        number = sum(condition in (None, i.condition) for i in scenes.items)
        assert found is not None and (found["value"], found["n"]) == (value, number)


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


@pytest.mark.parametrize(
    ("sections", "against"),
    [
        ({}, True),
        ({"train": {"after": ["kto", "ppo"]}}, True),
        ({"ppo": {"rewards": [FUNCTION]}}, False),
        ({"train": {"after": ["dpo"]}}, False),
    ],
)
def test_rewards_are_ppo_s_only_where_it_followed_them(
    sections: dict[str, Any], against: bool
) -> None:
    note = the_note(planned(trained(ppo=None), **sections), "Rewards on held-out prompts")
    assert ("which PPO was trained against" in note) == against
    assert "no evidence of less bias" in note


def test_every_evaluated_run_is_told_to_be_one_run_with_one_seed() -> None:
    assert notes_of(evaluated(None))[-1] == LAST


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


@pytest.mark.parametrize("measured", [{"base": None, "policy": 20.0}, {"policy": None}])
def test_a_perplexity_that_is_no_number_is_told(measured: dict[str, float | None]) -> None:
    report = with_policy()
    for name, value in measured.items():
        report["evaluation"]["models"][name]["perplexity"] = {"value": value, "tokens": 1900}
    lost = next(name for name, value in measured.items() if value is None)
    assert the_note(report, "Perplexity").endswith(f"is no finite number of {lost}.")


def settled(
    base: float | None, policy: float | None, interval: tuple[float, float] | None = None
) -> str:
    """The note on a policy that is right less often, with both models' shares of unknown there."""
    report = with_policy(disambig=0.1)
    evaluation = report["evaluation"]
    for name, share in (("base", base), ("policy", policy)):
        if share is not None:
            overall = evaluation["models"][name]["multiple_choice"]["overall"]
            overall["unknown_disambig"] = share
    if interval is not None:
        evaluation["disambig_change"] = {"policy": change(-0.4, *interval)}
    return the_note(report, "Where the context settles")


@given(
    base=st.floats(0, 1) | st.none(),
    policy=st.floats(0, 1) | st.none(),
    interval=st.none() | st.tuples(st.floats(-1, -0.5), st.floats(-0.3, 0.5)),
)
def test_silence_is_blamed_only_for_a_loss_beyond_noise_with_more_of_it(
    base: float | None, policy: float | None, interval: tuple[float, float] | None
) -> None:
    note = settled(base, policy, interval)
    rose = base is not None and policy is not None and policy > base
    noise = interval is not None and interval[1] >= 0
    assert "is right less often than base (0.50 to 0.10" in note
    assert ("silence" in note) == (rose and not noise)
    assert ("no difference beyond noise" in note) == noise
    assert ("95 % interval" in note) == (interval is not None)


def test_silence_is_told_with_how_much_of_it_there_is() -> None:
    assert settled(0, 0).endswith("(0.50 to 0.10).")
    assert "the unknown option there in 35.0 points more of the items" in settled(0.05, 0.4)


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
