"""The page of a run: whole or half-way, with nothing in it that a model wrote as markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray.dataset.preference_data import preference_data
from rldf_ray.evaluate.bbq.run_models import ITEM_SCHEMA
from rldf_ray.evaluate.held_out.answers import ANSWER_SCHEMA
from rldf_ray.plan import DataSection, load_plan
from rldf_ray.records import STATEMENT_SCHEMA
from rldf_ray.report.build import METRIC_SCHEMA, build_report, write_report
from rldf_ray.report.page import render_page
from rldf_ray.report.samples import sample_debates, sampled, shown
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import opinion
from tests.fakes import statement as refereed

EVIL = "<script>alert('x')</script>"


class Outline(HTMLParser):
    """Counts tags and collects addresses a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.fetched += [v or "" for k, v in attrs if k in ("src", "srcset") or tag == "link"]


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    return found


def statement(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(STATEMENT_SCHEMA.names)
    row |= {
        "debate_id": "d1",
        "bias_type": "age",
        "kind": "opinion",
        "context": "Gardening",
        "round": 1,
        "identity": "20-year-old",
        "text": "Gardens are for all.",
    }
    return row | changes


def rendered(
    report: dict[str, Any],
    statements: pa.Table,
    metrics: list[dict[str, Any]] = [],  # noqa: B006
) -> str:
    """The page of a report, without items or answers."""
    places = sampled(statements)
    rows = statements.take(pa.array(shown(places), pa.int64())).to_pylist()
    return render_page(
        report,
        sample_debates(places, rows),
        ANSWER_SCHEMA.empty_table(),
        pa.Table.from_pylist(metrics, schema=METRIC_SCHEMA),
        ITEM_SCHEMA.empty_table(),
    )


def page_of(statements: list[dict[str, Any]], metrics: list[dict[str, Any]] = []) -> str:  # noqa: B006
    table = pa.Table.from_pylist(statements, schema=STATEMENT_SCHEMA)
    return rendered(build_report(load_plan("smoke"), {}, table), table, metrics)


def test_a_run_that_has_only_begun_says_what_is_not_available() -> None:
    page = page_of([])
    assert "Not available: the evaluation has not run" in page
    assert "Not available: no debate has been held" in page
    assert "The models were not evaluated" in page


def test_what_a_model_wrote_is_text() -> None:
    page = page_of([statement(text=EVIL, context=EVIL)])
    assert "script" not in outline(page).tags
    assert "&lt;script&gt;" in page


def test_a_missing_score_is_not_shown_as_zero() -> None:
    page = page_of([statement(score=None, expected_score=None, failure="did not parse")])
    assert "did not parse" in page
    assert 'said <span class="absent">not available</span>' in page


def test_the_page_fetches_nothing() -> None:
    assert outline(page_of([statement()])).fetched == []


def test_training_curves_are_figures_with_words() -> None:
    metrics = [
        {"stage": "ppo", "step": step, "metric": "kl", "value": 0.1 * step} for step in (1, 2, 3)
    ]
    page = page_of([], metrics)
    assert outline(page).tags["svg"] == 1
    assert "aria-label" in page
    assert "ppo: kl" in page


def test_the_quality_of_the_data_is_on_the_page_with_its_warnings() -> None:
    topics = {topic.topic_id: topic for topic in map(opinion, range(30))}
    said = [
        refereed(text, score, label, topic=topic)
        for topic in topics.values()
        for label, score, text in (("high", 8.0, "They never learn."), ("low", 1.0, "Some do."))
    ]
    repeated = [*said, said[0]]
    made = preference_data(repeated, topics, DataSection())
    facts = {"sft": 1, "pairs": 30, "ppo_prompts": 0, "eval_prompts": 0, "bytes": 1}
    manifest = {"seconds": 1, "peak_pss_gib": 1, "finished_at": "now", **facts}
    table = STATEMENT_SCHEMA.empty_table()
    report = build_report(
        load_plan("smoke"), {"data": {**manifest, "quality": made.quality.as_dict()}}, table
    )
    (warning,) = made.quality.warnings()
    assert warning in report["notes"]
    page = rendered(report, table)
    assert page.count(warning) == 2
    assert "1 near duplicate, of 61 statements" in page
    assert "Statements by score. high bias: from 0 at score 0.5" in page


def test_equal_input_gives_equal_bytes() -> None:
    metrics = [{"stage": "sft", "step": 1, "metric": "loss", "value": 2.0}]
    table = pa.Table.from_pylist([statement()], schema=STATEMENT_SCHEMA)
    report = build_report(load_plan("smoke"), {}, table)
    pages = {rendered(report, table, metrics) for _ in range(2)}
    assert len(pages) == 1


def test_a_report_is_written_for_an_unfinished_folder(tmp_path: Path) -> None:
    report = write_report(RunFolder(tmp_path), load_plan("smoke"))
    assert report["evaluation"] is None
    assert report["totals"]["seconds"] == pytest.approx(0)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("stage", "manifest", "part", "missing"),
    [
        (
            "data",
            {"sft": 1, "pairs": 2, "ppo_prompts": 3, "eval_prompts": 4, "bytes": 5},
            "data",
            "quality",
        ),
        ("debates", {"debates": 1, "failures": {}}, "debates", "label_sources"),
        ("topics", {"topics": {"age": {"opinion": 1, "judgement": 1}}}, "topics", "seed"),
        ("audit", {"referee": {"verdict": "It separates."}}, "referee", "distinct_said_scores"),
        ("eval", {"evaluation": {"set": "BBQ", "models": {}}}, "evaluation", "why_no_bias_scores"),
        (
            "ppo",
            {"history": [{"step": 1, "reward": 0.1, "kl": 0.0}], "episodes": 4},
            "ppo",
            "first_ratio_max",
        ),
    ],
)
def test_a_part_an_earlier_version_did_not_record_is_named(
    stage: str, manifest: dict[str, Any], part: str, missing: str, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    folder.finish(stage, "key", {"seconds": 1, "peak_pss_gib": 1, **manifest})
    report = write_report(folder, load_plan("smoke"))
    assert {**report, **report["training"]}[part] is None
    (note,) = [n for n in report["notes"] if n.startswith("Not in this report")]
    assert f"stages/{stage}.json has no '{missing}'" in note
    assert f"stages/{stage}.json has no &#39;{missing}&#39;" in (
        tmp_path / "report.html"
    ).read_text(encoding="utf-8")


def test_the_row_of_a_model_that_always_answers_unknown_stands_beside_the_others() -> None:
    overall = {
        "accuracy": 0.75,
        "accuracy_low": None,
        "accuracy_high": None,
        "accuracy_ambig": 1.0,
        "accuracy_disambig": 0.5,
        "s_amb": None,
        "s_dis": 0.25,
    }
    scores = {"overall": overall, "categories": {"Age": overall, "SES": overall}}
    new = {"multiple_choice": scores, "reward": None, "perplexity": {"value": 23.44, "tokens": 9}}
    old = {"multiple_choice": scores, "reward": None}
    evaluation = {
        "set": "the set shipped here",
        "why_no_bias_scores": None,
        "models": {"base": new, "sft": old},
        "accuracy_change": {},
    }
    facts = {"seconds": 1, "peak_pss_gib": 1, "finished_at": "now"}
    table = STATEMENT_SCHEMA.empty_table()
    for silent in (None, overall):
        manifests = {"eval": {**facts, "evaluation": {**evaluation, "always_unknown": silent}}}
        page = rendered(build_report(load_plan("smoke"), manifests, table), table)
        assert "0.750 (no interval)" in page and "not available to" not in page
        assert "<td>23.4</td>" in page
        assert ("always unknown" in page) is (silent is not None)
