"""What the page says of data that come from debates, from a source, or from somebody's files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rldf_ray.plan import load_plan
from rldf_ray.records import STATEMENT_SCHEMA
from rldf_ray.report.build import build_report
from rldf_ray.report.samples import MOST_STATEMENTS
from tests.report.test_page import page_of, rendered, statement

FACTS = {"seconds": 1, "peak_pss_gib": 1, "finished_at": "now"}
SIZES = {"sft": 1, "pairs": 2, "ppo_prompts": 0, "eval_prompts": 0, "bytes": 1}
QUALITY = {
    "statements": 4,
    "dropped": {"refusal": 1},
    "labels": {"age": {"high": 2, "low": 1, "unlabelled": 0}},
    "scores": {"high": [0] * 10, "low": [0] * 10},
    "topics": {"high_only": 7, "low_only": 0, "both": 0},
    "length_auc": {"value": 0.7, "low": None, "high": None, "n": 3},
    "warnings": [],
}
NONE_DEBATED = {"debates": 0, "statements": 0, "failures": {}, "label_sources": {}}
ROWS = {"sft": {"scenes": 1}, "pairs": {"scenes": 2}}
TOKENS = {"prompt": 1, "cached": 0, "generated": 1}


def page_with(data: dict[str, Any], debates: dict[str, Any], *rows: dict[str, Any]) -> str:
    table = pa.Table.from_pylist(list(rows), schema=STATEMENT_SCHEMA)
    manifests = {
        "debates": {**FACTS, **NONE_DEBATED, **debates},
        "data": {**FACTS, **SIZES, **data},
    }
    plan = load_plan("smoke", ["referee.label_source=expected"])
    return rendered(build_report(plan, manifests, table), table)


def test_of_a_source_sides_of_pairs_are_no_labels() -> None:
    held = {"source": "mabrf", "debates": 3, "tokens": TOKENS}
    page = page_with({"rows": ROWS, "quality": {**QUALITY, "sides": True}}, held)
    assert "of 4 texts" in page and ">rejected<" in page and ">chosen<" in page
    assert "tells a rejected text from a chosen one: 0.70 (no interval)" in page
    for wrong in ("Topics with statements", "high bias", "no label", "Statements by score"):
        assert wrong not in page
    # An earlier version counted them beside SFT rows.
    older = page_with({"rows": ROWS, "quality": QUALITY}, held)
    assert ">rejected<" not in older and "AUC" not in older and "high bias" not in older


def test_of_given_pairs_no_debate_is_told() -> None:
    page = page_with({"imported": "hh.jsonl", "quality": QUALITY}, {})
    assert "No debate was held: the pairs were given (hh.jsonl)." in page and ">rejected<" in page
    for wrong in ("0 debates", "Topics with statements", "high bias", "Statements by score"):
        assert wrong not in page


def test_given_statements_are_not_refereed_and_their_scores_are_drawn() -> None:
    rows = [statement(round=n, score=float(n), label="low", label_source="said") for n in (1, 2)]
    given = {"debates": 1, "label_sources": {"said": 2}}
    page = page_with({"quality": QUALITY}, given, *rows)
    assert "2 with a score that was given: 0 high bias, 2 low" in page
    assert "given score" in page and "Mean score by round" in page
    assert "statements are labelled by the score the referee said" not in page
    # Nobody was asked for these scores where debates were held.
    held = page_with({"quality": QUALITY}, {**given, "tokens": TOKENS}, *rows)
    assert "2 refereed" in held and "given score" not in held


@pytest.mark.parametrize("more", [0, 1, 900])
def test_of_a_long_debate_the_first_statements_are_shown_and_the_others_counted(more: int) -> None:
    number = MOST_STATEMENTS + more
    rows = [statement(text=f"Said {i}.") for i in range(number)]
    page = page_of([*rows[:50], statement(debate_id="d2", bias_type="beauty"), *rows[50:]])
    assert page.count('class="turn') == MOST_STATEMENTS + 1
    assert f"Said {MOST_STATEMENTS - 1}." in page and f"Said {MOST_STATEMENTS}." not in page
    assert (f"{more} more statements" in page) == bool(more)


def test_the_plan_of_a_report_names_the_items_that_were_asked() -> None:
    """Whoever writes it: the command that evaluated, or a later one with the run's own plan."""
    plan = load_plan("smoke", ["evaluate.bbq=/own"])
    evaluation = {"set": "a", "why_no_bias_scores": None, "models": {}, "accuracy_change": {}}
    for recorded, named in (({}, "/own"), ({"bbq": None}, "/own"), ({"bbq": "/other"}, "/other")):
        facts = {"seconds": 1, "peak_pss_gib": 1, "evaluation": {**evaluation, **recorded}}
        report = build_report(
            plan, {"eval": {**facts, "finished_at": "now"}}, STATEMENT_SCHEMA.empty_table()
        )
        assert report["plan"]["evaluate"]["bbq"] == named
        assert report["run"]["plan_digest"] == plan.digest()
