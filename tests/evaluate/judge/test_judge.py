"""The judge: one request a measure, both orders of a pair, no score where none was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rldf_ray.evaluate.judge.answers import FreeAnswer
from rldf_ray.evaluate.judge.audit import (
    Control,
    audit_judge,
    controls,
    judge_audit_summary,
)
from rldf_ray.evaluate.judge.judge import (
    Compared,
    Judge,
    Judged,
    Judgement,
    compare_answers,
    judge_answers,
    pairs_against,
)
from rldf_ray.evaluate.judge.rubrics import SCORES, Measure, Rubric, rubric, shipped_rubrics
from rldf_ray.evaluate.judge.summary import (
    answer_values,
    compared_table,
    failures_of,
    judged_table,
    long_judged,
    preferences,
    score_source,
    summary_of,
)
from rldf_ray.evaluate.long_format import LONG_SCHEMA
from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.referee.labelled_statements import held_out_statements
from tests.fakes import Answer, RecordingModel, completion

TYPES = ("age", "beauty", "institution", "nationality", "profession")


def answer(number: int, method: str = "A", text: str | None = None, **changes: Any) -> FreeAnswer:
    fields: dict[str, Any] = {
        "method": method,
        "prompt_id": f"p{number}",
        "bias_type": "age" if number % 2 else "beauty",
        "prompt": f"Question {number}?",
        "answer": f"{method} says {number}." if text is None else text,
    }
    return FreeAnswer(**(fields | changes))


def judge(model: Answer = lambda request: None) -> tuple[Judge, RecordingModel]:
    recording = RecordingModel(model)
    return Judge(recording, seed=0), recording


def rubrics(*measures: Measure) -> list[Rubric]:
    return [rubric(measure) for measure in measures]


def saying(text: str, **chances: float) -> Completion:
    probabilities = {score: chances.get(f"_{score}", 0.0) for score in SCORES}
    return completion(text, choice_probabilities=probabilities if chances else None)


async def test_every_measure_is_asked_by_its_rubric_without_the_methods_name() -> None:
    one, model = judge()
    answers = [answer(1, "RLDF", "It depends."), answer(2, "RLDF", "No.")]
    found = await judge_answers(one, answers, shipped_rubrics())
    assert [j.judgement.measure for j in found] == ["BS", "CE", "LS"] * 2
    assert len(model.requests) == 6 and len({r.address for r in model.requests}) == 6
    for request in model.requests:
        text = "\n".join(message.content for message in request.messages)
        assert request.choices == SCORES and request.temperature == 0 and "RLDF" not in text
    asked = model.asked("BS")[0].messages[-1].content
    assert "Freedom from stereotypes" in asked and "Bias score" not in asked
    assert all(j.judgement.said is not None for j in found)


@pytest.mark.parametrize(("measure", "said", "expected"), [("CE", 20, 60), ("BS", 80, 40)])
async def test_said_and_expected_scores_are_kept_on_the_measures_own_scale(
    measure: Measure, said: float, expected: float
) -> None:
    one, _ = judge(lambda request: saying("20", _20=0.5, _100=0.5))
    (found,) = await judge_answers(one, [answer(1)], rubrics(measure))
    assert found.judgement.said == said and found.judgement.expected == pytest.approx(expected)


async def test_what_does_not_parse_is_a_failure_with_its_text_and_no_score() -> None:
    one, _ = judge(lambda request: completion("about 35"))
    found = await judge_answers(one, [answer(1)], rubrics("LS"))
    judgement = found[0].judgement
    assert judgement.said is None and judgement.expected is None
    assert judgement.failure is not None and "about 35" in judgement.failure
    assert failures_of(found)["rate"] == 1
    summary = summary_of(found, score_source(found), 0)["A"]["all"]["LS"]
    assert summary["mean"] is None and summary["without_score"] == 1 and summary["n"] == 0
    (row,) = judged_table(found, "said").to_pylist()
    assert row["score"] is None and row["failure"] == judgement.failure


async def test_equal_answers_to_a_prompt_are_asked_once_and_counted_for_each_method() -> None:
    one, model = judge()
    answers = [answer(1, "A", "Yes."), answer(1, "B", "Yes.")]
    found = await judge_answers(one, answers, rubrics("BS"))
    assert len(model.requests) == 1 and [j.answer.method for j in found] == ["A", "B"]
    assert found[0].judgement == found[1].judgement


def judged(method: str, number: int, measure: Measure, said: float | None, **more: Any) -> Judged:
    fields = {"expected": None, "failure": None, "model": "m", "revision": "1"} | more
    return Judged(answer(number, method), Judgement(measure=measure, said=said, **fields))


def test_one_score_source_holds_for_everything() -> None:
    with_both = [judged("A", 1, "BS", 10, expected=14.0), judged("A", 2, "BS", 20, expected=22.0)]
    assert score_source(with_both) == "expected"
    assert score_source([*with_both, judged("A", 3, "BS", 20)]) == "said"
    assert score_source([]) == "said"


def test_values_are_means_by_bias_type_and_over_all() -> None:
    found = [
        judged("A", 1, "BS", 10),
        judged("A", 2, "BS", 30),
        judged("A", 3, "BS", None, failure="x"),
        judged("A", 1, "CE", 90),
    ]
    values = {(v.group, v.measure): (v.value, v.n) for v in answer_values(found, "said")}
    assert values == {
        ("age", "BS"): (10, 1),
        ("beauty", "BS"): (30, 1),
        ("all", "BS"): (20, 2),
        ("age", "CE"): (90, 1),
        ("all", "CE"): (90, 1),
    }


def test_the_long_table_keeps_methods_repeats_and_seeds_apart() -> None:
    found = []
    for repeat, seed in ((0, 11), (1, 12)):
        for method in ("A", "B"):
            one = judged(method, 1, "BS", 10 * repeat)
            other = FreeAnswer(
                method=method,
                prompt_id="p1",
                bias_type="age",
                prompt="Q?",
                answer="x",
                repeat=repeat,
                seed=seed,
            )
            found.append(Judged(other, one.judgement))
    table = long_judged(found, "said")
    assert table.schema == LONG_SCHEMA and table.num_rows == 8
    rows = table.to_pylist()
    assert {(r["method"], r["repeat"], r["seed"]) for r in rows} == {
        ("A", 0, 11),
        ("A", 1, 12),
        ("B", 0, 11),
        ("B", 1, 12),
    }
    assert {r["set"] for r in rows} == {"answers"} and long_judged([], "said").num_rows == 0


def test_means_have_intervals_that_contain_them() -> None:
    found = [judged("A", i, "BS", 10.0 * (i % 5)) for i in range(30)]
    one = summary_of(found, "said", 0)["A"]["all"]["BS"]
    assert one["low"] < one["mean"] < one["high"] and one["distinct_said_scores"] == 5


def test_both_prompts_of_a_topic_are_one_draw() -> None:
    """ItemPrompt with its clue and without, a topic says no more for standing there twice."""
    told = [(f"t{i}-{way}", 10.0 * (i % 5)) for i in range(30) for way in ("plain", "clue")]
    twice = [replace(judged("A", 1, "BS", said), answer=answer(1, prompt_id=p)) for p, said in told]
    one, half = (summary_of(found, "said", 0)["A"]["all"]["BS"] for found in (twice, twice[::2]))
    assert (one["mean"], one["low"], one["high"]) == (half["mean"], half["low"], half["high"])


# ---- pairs, in both orders


def test_pairs_are_answers_to_one_prompt_of_one_repeat() -> None:
    answers = [answer(1), answer(1, "B"), answer(2, "B"), answer(1, "C"), answer(1, repeat=1)]
    pairs = pairs_against(answers, "A")
    assert [(a.method, b.method, a.prompt_id) for a, b in pairs] == [
        ("B", "A", "p1"),
        ("C", "A", "p1"),
    ]
    assert pairs_against(answers, "none") == []


def choosing(rule: str) -> Answer:
    """Always the answer shown first, or always the one of method B."""

    def say(request: ChatRequest) -> str:
        found = re.search(r"Answer 1: (\w+) says", request.messages[-1].content)
        assert found is not None
        return "1" if rule == "first" or found[1] == "B" else "2"

    return say


async def compared(rule: str) -> list[Compared]:
    one, model = judge(choosing(rule))
    answers = [answer(i, method) for method in ("A", "B") for i in range(10)]
    found = await compare_answers(one, pairs_against(answers, "A"), rubrics("BS"))
    assert len(model.requests) == 20
    return found


async def test_a_judge_with_a_preference_is_seen_through_both_orders() -> None:
    one = preferences(await compared("B"), "A", 0)["methods"]["B"]["BS"]
    assert one["preferred"] == 1 and one["order_decided"] == 0 and one["first"] == 0.5


async def test_preferences_draw_topics_not_prompts() -> None:
    one, _ = judge(choosing("B"))
    answers = [
        answer(i, m, prompt_id=f"t-{w}") for i, w in enumerate(("plain", "clue")) for m in "AB"
    ]
    # One judgement of the two is turned round, so that there is something to vary.
    found = await compare_answers(one, pairs_against(answers, "A"), rubrics("BS"))
    turned = [replace(c, said_first=not c.said_first) for c in found[:2]]
    result = preferences([*turned, *found[2:]], "A", 0)["methods"]["B"]["BS"]
    assert result["preferred"] == 0.5 and result["pairs"] == 2
    assert result["preferred_low"] is None


async def test_a_judge_that_takes_the_first_answer_prefers_nobody() -> None:
    found = await compared("first")
    one = preferences(found, "A", 0)["methods"]["B"]["BS"]
    assert one["preferred"] == 0.5 and one["order_decided"] == 1 and one["first"] == 1
    rows = compared_table(found).to_pylist()
    assert [(r["first"], r["second"]) for r in rows[:2]] == [("B", "A"), ("A", "B")]


async def test_probabilities_of_both_orders_are_averaged_and_failures_left_out() -> None:
    def say(request: ChatRequest) -> Completion:
        if "Question 3?" in request.messages[-1].content:
            return completion("neither", choice_probabilities={"1": 0.5, "2": 0.5})
        return completion("1", choice_probabilities={"1": 0.8, "2": 0.2})

    one, _ = judge(say)
    answers = [answer(i, method) for method in ("A", "B") for i in range(4)]
    found = await compare_answers(one, pairs_against(answers, "A"), rubrics("BS"))
    result = preferences(found, "A", 0)["methods"]["B"]["BS"]
    assert result["expected"] == pytest.approx(0.5) and result["failures"] == 1
    assert result["pairs"] == 4


# ---- the audit


def by_text(good: set[str]) -> Answer:
    """A judge that knows the right answer to every control."""

    def say(request: ChatRequest) -> str:
        text = request.messages[-1].content
        shown = text[text.rindex("Question: ") :]
        return "100" if any(known in shown for known in good) else "0"

    return say


async def test_a_perfect_judge_and_a_dumb_one_are_told_apart() -> None:
    statements = held_out_statements("age", 8, 0)
    given = controls(statements, shipped_rubrics(), 0)
    high = {f"Question: {c.question}\nAnswer: {c.text}\n" for c in given if c.high == 1}
    low = {f"Question: {c.question}\nAnswer: {c.text}\n" for c in given if c.high == 0}
    assert (
        high
        and low
        and not {c.text for c in given if c.measure == "CE" and c.high}
        & {c.text for c in given if c.measure == "CE" and not c.high}
    )

    async def audited(rule: Answer) -> dict[str, Any]:
        one, _ = judge(rule)
        return judge_audit_summary(given, await audit_judge(one, given, shipped_rubrics()), "said")

    fair = {c.text for c in given if c.measure == "BS" and c.high == 0}
    found = await audited(by_text(fair))
    assert found["BS"]["auc"]["value"] == 1 and "tells good from bad" in found["BS"]["verdict"]
    found = await audited(lambda request: "50")
    for measure in ("BS", "CE", "LS"):
        assert found[measure]["auc"]["value"] == 0.5 and "noise" in found[measure]["verdict"]
        assert found[measure]["distinct_said_scores"] == 1


async def test_controls_of_ce_are_shuffled_and_of_ls_misplaced() -> None:
    statements = held_out_statements("age", None, 0)
    given = controls(statements, rubrics("CE", "LS"), 0)
    fair = {s.text: s.context for s in statements if s.as_answer().label == 0}
    for control in given:
        if control.measure == "LS":
            assert (control.question == fair[control.text]) == (control.high == 1)
        elif control.high == 0:
            assert any(sorted(control.text.split()) == sorted(t.split()) for t in fair)
    assert {c.measure for c in given} == {"CE", "LS"}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_spoilt_for_ls_stands_under_another_topic_where_it_is_not_sound(seed: int) -> None:
    statements = [s for name in TYPES for s in held_out_statements(name, 16, seed)]
    given = controls(statements, rubrics("LS"), seed)
    fair = [s for s in statements if s.as_answer().label == 0]
    of_context = {s.context: s for s in statements}
    spoilt = [control for control in given if control.high == 0]
    for own, control in zip(fair, spoilt, strict=True):
        other = of_context[control.question]
        assert own.text == control.text and own.topic != other.topic
        left_open = [s.conclusion is not None and s.conclusion.answer is None for s in (own, other)]
        assert not all(left_open)


def scored(given: Sequence[Control], score: Callable[[Control, int], float | None]) -> Any:
    """The audit of a judge that gives these scores."""
    judgements = [
        Judgement(
            measure=c.measure, said=said, expected=None, failure=None if said is not None else "?",
            model="m", revision="r",
        )
        for c, said in ((c, score(c, i)) for i, c in enumerate(given))
    ]  # fmt: skip
    return judge_audit_summary(given, judgements, "said")


def control(topic: int, high: int) -> Control:
    return Control(
        measure="BS", question=f"Q{topic}?", text="x", high=high, bias_type="age", topic=f"t{topic}"
    )


def test_ten_topics_of_which_four_are_read_the_wrong_way_round_are_no_proof() -> None:
    given = [control(i // 16, i % 2) for i in range(160)]
    one = scored(given, lambda c, i: 100.0 * (c.high if i < 96 else 1 - c.high))["BS"]
    assert one["auc"]["value"] == 0.6 and one["auc"]["low"] < 0.35 and one["topics"] == 10
    assert "does not tell good from bad" in one["verdict"]


def test_two_controls_show_nothing() -> None:
    one = scored([control(0, 1), control(1, 0)], lambda c, i: 60.0 + 10 * c.high)["BS"]
    assert (one["auc"]["value"], one["auc"]["low"], one["auc"]["high"]) == (1.0, None, None)
    assert one["verdict"] == (
        "BS: the judge was audited on too few controls to say whether it tells good from bad "
        "(AUC 1.00 on 2 controls; topics: 2)."
    )


def test_controls_without_a_score_stand_in_the_verdict() -> None:
    given = [control(i // 4, i % 2) for i in range(160)]
    one = scored(given, lambda c, i: 100.0 * c.high if i < 40 else None)["BS"]
    assert (one["controls"], one["without_score"], one["topics"]) == (160, 120, 10)
    assert one["verdict"] == (
        "BS: the judge tells good from bad (AUC 1.00 on 40 controls; 120 of 160 controls gave no "
        "score)."
    )
    one = scored(given, lambda c, i: 100.0 if c.high else None)["BS"]
    assert one["auc"] is None and one["verdict"] == (
        "BS: the judge was not audited: of 160 controls it scored none, or one kind alone."
    )


def test_spoilt_statements_are_drawn_with_the_topic_of_their_text() -> None:
    statements = [s for name in TYPES for s in held_out_statements(name, 4, 0)]
    cluster_of = {s.text: s.cluster for s in statements}
    for one in controls(statements, rubrics("BS", "CE", "LS"), 0):
        words = sorted(one.text.split())
        (topic,) = {t for text, t in cluster_of.items() if sorted(text.split()) == words}
        assert one.topic == topic


async def test_the_effect_of_the_order_draws_topics() -> None:
    """Six topics of ten prompts: in three of them the first answer is always taken."""
    one, _ = judge(choosing("first"))
    answers = [
        answer(i, m, prompt_id=f"t{i % 6}-clue", repeat=i // 6) for i in range(60) for m in "AB"
    ]
    found = await compare_answers(one, pairs_against(answers, "A"), rubrics("BS"))
    turned = [replace(c, said_first=c.first.prompt_id < "t3") for c in found]
    result = preferences(turned, "A", 0)["methods"]["B"]["BS"]
    ends = (result["first_low"], result["first_high"])
    assert result["first"] == 0.5 and ends == pytest.approx((1 / 6, 5 / 6))


def test_no_statements_is_no_audit() -> None:
    assert judge_audit_summary([], [], "said") == {}
