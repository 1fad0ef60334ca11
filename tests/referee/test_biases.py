"""What moves a referee that should not, and which of several referees to take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rldf_ray.errors import UserError
from rldf_ray.records import Context
from rldf_ray.referee.audit import as_auc, audit_referee
from rldf_ray.referee.biases import BIASES, bias_summary, shown_otherwise
from rldf_ray.referee.comparison import (
    RefereeRow,
    as_facts,
    check_same,
    comparison_table,
    difference,
    recommendation,
)
from rldf_ray.referee.labelled_statements import held_out_statements
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.verdict import Verdict
from rldf_ray.stats import auc_estimate
from tests.fakes import RecordingModel, verdict

STATEMENTS = held_out_statements("age", 8, 0)


class Ruled:
    """Scores by a rule over context and text."""

    kind = "ruled"

    def __init__(self, rule: Callable[[str, str], float | None]) -> None:
        self._rule = rule

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        scores = [self._rule(context.text, text) for text in texts]
        return [verdict(None, rank=1) if s is None else verdict(s, rank=1) for s in scores]


def biases_of(rule: Callable[[str, str], float | None]) -> dict[str, Any]:
    async def both() -> dict[str, Any]:
        referee = Ruled(rule)
        audited = await audit_referee(referee, STATEMENTS, 4)
        otherwise = await shown_otherwise(referee, STATEMENTS, 4)
        return bias_summary(audited, otherwise, "said", 5.0, 0)

    return asyncio.run(both())


def test_a_referee_that_reads_the_statement_alone_is_moved_by_nothing() -> None:
    found = biases_of(lambda context, text: 3.0)
    assert set(found) == set(BIASES) == {"verbosity", "bandwagon", "cot"}
    for one in found.values():
        assert one["label_changes"]["value"] == one["shift"]["value"] == 0


def test_a_referee_that_follows_the_crowd_calls_all_of_it_fair() -> None:
    found = biases_of(lambda context, text: 0.0 if "of people find" in context else 8.0)
    assert found["bandwagon"]["label_changes"]["value"] == 1
    assert found["bandwagon"]["shift"]["value"] == -8
    assert found["verbosity"]["shift"]["value"] == found["cot"]["shift"]["value"] == 0


def test_a_referee_that_counts_words_is_moved_by_length() -> None:
    found = biases_of(lambda context, text: min(10.0, len(text) / 1000))
    assert found["verbosity"]["shift"]["value"] > 0
    assert found["verbosity"]["label_changes"]["value"] == 0


def test_a_statement_without_a_score_is_left_out() -> None:
    silent = STATEMENTS[0].text
    found = biases_of(lambda context, text: None if silent in text else 3.0)
    assert found["cot"]["shift"]["n"] == len(STATEMENTS) - 1


KEYS = [("c", str(number)) for number in range(40)]
LABELS = {key: number % 2 for number, key in enumerate(KEYS)}
CLUSTERS = {key: str(number // 2) for number, key in enumerate(KEYS)}


def row(name: str, flipped: int, tokens: int, silent: int = 0) -> RefereeRow:
    """A referee that has the order of `flipped` pairs wrong, and is silent on the last ones."""
    scores = {
        key: float(10 * LABELS[key] if number >= 2 * flipped else 10 - 10 * LABELS[key])
        for number, key in enumerate(KEYS[: len(KEYS) - silent])
    }
    clusters = [CLUSTERS[k] for k in scores]
    held_out = as_auc(auc_estimate([LABELS[k] for k in scores], list(scores.values()), clusters))
    assert held_out is not None
    still = {"label_changes": {"value": 0.1}, "shift": {"value": 0.5}}
    audit = {
        "auc": held_out["auc"],
        "held_out": held_out,
        "brier": {"value": 0.1},
        "accuracy": {"value": 0.9},
        "reordered": {"agreement": {"value": 1.0}},
        "failure_rate": 0.0,
        "biases": dict.fromkeys(("verbosity", "bandwagon", "cot"), still),
    }
    return RefereeRow(
        name=name,
        audit=audit,
        scores=scores,
        labels=LABELS,
        clusters=CLUSTERS,
        seconds=10,
        tokens=tokens,
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [row("one", 1, 10), row("debate", 0, 80)],
            "Take one (AUC 0.950, 10 s, 10 tokens): debate has the highest AUC (1.000), but",
        ),
        ([row("one", 8, 10), row("debate", 0, 80)], "Take debate (AUC 1.000, 10 s, 80 tokens)"),
        ([row("one", 10, 10), row("debate", 11, 80)], "Take none of them"),
        ([row("one", 10, 10), row("debate", 2, 80)], "Take debate"),
    ],
)
def test_the_cheapest_that_is_not_shown_to_be_worse_is_recommended(
    rows: list[RefereeRow], said: str
) -> None:
    assert recommendation(rows).startswith(said)


def test_a_referee_that_is_often_silent_is_not_recommended() -> None:
    said = recommendation([row("quiet", 0, 10, silent=5), row("loud", 1, 80)])
    assert said.startswith("Take loud")
    assert said.endswith("(quiet gave 35 of 40 scores and is left out.)")
    none = recommendation([row("quiet", 0, 10, silent=30)])
    assert none.startswith("Take none of them") and "quiet gave 10 of 40" in none


def test_a_referee_that_cannot_be_held_against_the_best_is_not_the_cheapest() -> None:
    best, other = row("best", 0, 80), row("other", 0, 10)
    only = {key: score for key, score in other.scores.items() if LABELS[key]}
    apart = replace(other, scores=only | {("d", str(n)): 0.0 for n in range(18)})
    assert difference(best, apart) is None
    said = recommendation([best, apart])
    assert said.startswith("Take best") and "no cheaper one" not in said
    assert said.endswith("(other: too few statements in common with it to compare.)")
    assert "no cheaper one does as well." in recommendation([best, row("worse", 4, 100)])


def test_audits_on_other_statements_are_not_compared() -> None:
    one, two = row("one", 0, 10), row("two", 0, 10)
    check_same([one, two])
    fewer = replace(two, labels={key: LABELS[key] for key in KEYS[:30]})
    with pytest.raises(UserError, match="two was audited on 30 statements, and one on 40"):
        check_same([one, fewer])


def test_a_line_in_a_context_that_nobody_reads_shows_nothing() -> None:
    scenes = [s for s in held_out_statements("scenes", 8, 0) if s.judged_in.conclusion]
    model = RecordingModel()

    async def both() -> dict[str, Any]:
        referee = PromptedReferee(model, 0, checks=True)
        audited = await audit_referee(referee, scenes, 4)
        otherwise = await shown_otherwise(referee, scenes, 4)
        return bias_summary(audited, otherwise, "expected", 5.0, 0)

    found = asyncio.run(both())
    assert scenes and found["verbosity"]["shift"]["n"] == len(scenes)
    for bias in ("bandwagon", "cot"):
        assert found[bias] == {"label_changes": None, "shift": None}
        assert not model.asked(f"audit-{bias}")


def test_the_table_has_a_row_for_each_and_differences_from_the_first() -> None:
    rows = [row("one", 8, 10), row("two", 0, 80)]
    head, first, second = comparison_table(rows)
    assert len(head) == len(first) == len(second)
    assert first[2] == "" and second[2].startswith("+0.400 (")
    apart = difference(rows[1], rows[0])
    assert apart is not None and apart.low is not None and apart.low > 0
    assert as_facts(rows)["on_the_first"]["two"]["value"] == apart.value


def test_referees_audited_on_few_topics_are_told_apart_by_nothing() -> None:
    """Forty statements, but on two topics: figures without intervals, and no recommendation."""
    few = {key: str(number // 20) for number, key in enumerate(KEYS)}
    rows = [replace(row(name, 4, 10), clusters=few) for name in ("one", "two")]
    for one in rows:
        scores = list(one.scores.values())
        held_out = as_auc(auc_estimate(list(LABELS.values()), scores, list(few.values())))
        one.audit["held_out"].update(held_out)
    assert recommendation(rows).startswith("Take none of them")
    _, first, second = comparison_table(rows)
    assert first[1] == "0.800" and second[2] == "+0.000"
