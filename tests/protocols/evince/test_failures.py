"""A reply that cannot be used fails its own dialogue or baseline; what is left is reported."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st

from rldf_ray.figures.files import drawn
from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.protocols.evince.case import entries, remediation_table
from rldf_ray.protocols.evince.page import remediation_page, sheet_page
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.summary import summary
from rldf_ray.storage.json_text import json_text
from tests.protocols.evince.script import (
    ITEM,
    Script,
    held,
    outcome,
    percent,
    rows,
    settings,
    turn,
    without_label,
)
from tests.protocols.evince.tables import tables_of

BASELINES = ["one_shot", "mean_of_two", "self_consistency"]
SAID = {
    **{f"A{n}": turn(60, 20, 20, 0, 0, label="negative", quote="a scandal") for n in range(1, 7)},
    **{f"B{n}": turn(0, 10, 80, 10, 0, claim=f"claim {n}") for n in range(1, 7)},
    "one shot": {"reason": "r", "distribution": percent(0, 0, 100, 0, 0)},
}


@dataclass
class Wild(Script):
    """A script with other replies at some places.

    Attributes:
        silent: parts of addresses whose replies come without probabilities.
        instead: replies by a part of the address.
    """

    silent: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        completions = await super().complete(request)
        if not request.choice_probabilities or any(s in request.address for s in self.silent):
            return completions
        choices = request.choices or ()
        likely = {choice: float(choice == completions[0].text) for choice in choices}
        if sum(likely.values()) != 1:
            return completions
        return tuple(replace(one, choice_probabilities=likely) for one in completions)

    def _text(self, request: ChatRequest) -> str:
        for part, text in self.instead.items():
            if part in request.address:
                return text
        return "neutral" if "/label " in request.address else super()._text(request)


async def test_a_reply_without_probabilities_fails_its_dialogue_alone():
    found = await held(
        Wild(SAID, silent=("/schedule/B1/label",)),
        distribution="token",
        arms=["main", "schedule"],
        baselines=BASELINES,
    )
    assert {row["arm"]: row["status"] for row in found.tables["outcomes"]} == {
        "main": "agreed",
        "schedule": "failed",
        **dict.fromkeys(BASELINES, "answer"),
    }
    row = outcome(found, "schedule")
    assert row["failure"].startswith("settings.distribution=token: a reply of the model 'm' came")
    assert (row["rounds"], row["label"], row["review"]) == (0, None, ["failed"])
    # What A said is kept.
    assert [one["argument_id"] for one in rows(found, "arguments", "schedule")] == ["A1.1"]


async def test_a_reply_without_probabilities_fails_its_baseline_alone():
    found = await held(
        Wild(SAID, silent=("one shot/1 at 0.7/label",)), distribution="token", baselines=BASELINES
    )
    status = {row["arm"]: row["status"] for row in found.tables["outcomes"]}
    # A mean of two is none of one; self-consistency counts the answers that there are.
    assert status == {
        "main": "agreed",
        "one_shot": "answer",
        "mean_of_two": "failed",
        "self_consistency": "answer",
    }
    assert "1 of 2 answers: settings.distribution=token" in outcome(found, "mean_of_two")["failure"]
    assert outcome(found, "mean_of_two")["label"] is None
    several = outcome(found, "self_consistency")
    asked = several["answers"] + 1
    assert several["failure"].startswith(f"1 of {asked} answers: ")


async def test_answers_that_cannot_be_used_are_counted_where_the_others_are():
    changes = {"distribution": "token", "baselines": ["self_consistency"]}
    found = await held(Wild(SAID, silent=("one shot/1 at 0.7/label",)), **changes)
    report = summary([ITEM], tables_of(found), settings(**changes), 7)
    assert "These failed in part: 1 self_consistency (tables/failures)." in report.notes
    (table,) = [table for table in report.tables if table.name == "failures"]
    ((name, failed, of, why, items),) = table.rows
    assert (name, failed, of, items) == ("self_consistency, in part", "1", "1", ITEM.item_id)
    assert why.startswith("1 of ")


async def test_why_there_is_no_justification_is_kept_and_counted():
    found = await held(Wild(SAID, instead={"/remediation": "no case"}))
    row = outcome(found)
    assert (row["status"], row["remediation"]) == ("max rounds", None)
    assert row["failure"].startswith("No justification: Invalid JSON")
    tables = tables_of(found)
    report = summary([ITEM], tables, settings(), 7)
    assert "These failed in part: 1 main (tables/failures)." in report.notes
    (table,) = [table for table in report.tables if table.name == "failures"]
    assert table.rows[0][0] == "main, in part"
    results = Results(
        items={ITEM.item_id: ITEM},
        tables=tables,
        settings=settings(),
        scale=load_scale("toward"),
        seed=7,
    )
    page = remediation_page(results, entries(results), "one")
    assert "max rounds. No justification: Invalid JSON" in page


async def test_without_a_label_to_defend_no_dialogue_is_held():
    found = await held(
        Wild(SAID, silent=("one shot/1 at 0.1/label",)),
        without_label(),
        distribution="token",
        arms=["main", "schedule"],
        baselines=["one_shot"],
    )
    for arm in ("main", "schedule"):
        assert outcome(found, arm)["status"] == "failed"
        assert "no label to defend: settings.distribution=token" in outcome(found, arm)["failure"]
    assert outcome(found, "one_shot")["status"] == "failed"


async def test_a_second_try_for_duality_that_fails_leaves_the_first():
    script = Wild(SAID, silent=("/dual 1/label",))
    found = await held(script, distribution="token", initial="duality", stop={"max_rounds": 1})
    assert any("/dual 1" in request.address for request in script.asked)
    assert outcome(found)["status"] != "failed"


PLACES = {
    "crit": "crit/",
    "repeated": "repeated/",
    "case": "/remediation",
    "label": "/label ",
    "one shot": "one shot/",
    "turn": "main/B2",
}
WILD = (
    "",
    "null",
    "[]",
    "[" * 100_000,
    '{"distribution":' * 5000,
    '{"reason": "r", "distribution": {"neutral": 1e999}}',
    '{"reason": "r", "distribution": {"neutral": NaN}}',
    '{"reason": "r", "distribution": {"neutral": 99.5}}',
    '{"reason": "r", "distribution": {"neutral": ' + "9" * 5000 + "}}",
    '{"reason": "r", "distribution": {"fair": 100}}',
    '{"reason": "r", "distribution": {}}',
    '{"reason": "r", "distribution": []}',
    '{"reason": "\\ud83d", "distribution": {"neutral": 100}}',
    json.dumps({**turn(0, 0, 100, 0, 0), "arguments": []}),
)


@pytest.mark.parametrize("distribution", ["said", "token", "sampled"])
@pytest.mark.parametrize("place", PLACES)
async def test_no_reply_ends_more_than_one_item(place, distribution):
    for text in WILD:
        script = Wild({**SAID, "A1 again": SAID["A1"]}, instead={PLACES[place]: text})
        found = await held(
            script,
            distribution=distribution,
            baselines=BASELINES,
            stop={"max_rounds": 2, "agreed": False},
        )
        tables = tables_of(found)
        assert tables["outcomes"].num_rows == 4
        for row in tables["outcomes"].to_pylist():
            assert (row["label"] is None) == (row["status"] == "failed")
            assert row["status"] != "failed" or row["failure"]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(sorted(PLACES)))
@tried(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
async def test_no_text_ends_more_than_one_item(text, place):
    script = Wild({**SAID, "A1 again": SAID["A1"]}, instead={PLACES[place]: text})
    found = await held(script, baselines=BASELINES, stop={"max_rounds": 2, "agreed": False})
    assert tables_of(found)["outcomes"].num_rows == 4


ARMS = ["main", "schedule", "duality"]
BROKEN = {"A1": "no", "A1 again": "no", "one shot": "no"}
FAILS_LATER = {**SAID, "B2": "no", "B2 again": "no"}
CORPORA = {
    "one item": [SAID],
    "one item, failed": [BROKEN],
    "all failed": [BROKEN, BROKEN],
    "one of two failed": [SAID, BROKEN],
    "one failed in round 2": [SAID, FAILS_LATER],
    "one item, failed in round 2": [FAILS_LATER],
}


async def corpus(scripts, scale="toward", people=("ann", "ben"), **changes):
    """A study's items and tables, an item a script."""
    given = dict(zip(people, ("negative", "neutral", "neutral"), strict=False))
    items = [
        replace(ITEM, item_id=f"t{n}", text_id=f"t{n}", given=given) for n in range(len(scripts))
    ]
    every = [
        await held(Script(said), item, **changes) for item, said in zip(items, scripts, strict=True)
    ]
    return items, tables_of(*every)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("people", [(), ("ann",), ("ann", "ben"), ("ann", "ben", "cem")])
@pytest.mark.parametrize("scripts", CORPORA.values(), ids=CORPORA)
async def test_tables_figures_and_pages_of_small_and_failed_corpora(scripts, people, tmp_path):
    changes = {"arms": ARMS, "baselines": BASELINES, "stop": {"max_rounds": 3}}
    given_none = {} if people else {"given": "none"}
    items, tables = await corpus(scripts, people=people, **changes, **given_none)
    found = summary(items, tables, settings(**changes, **given_none), 7)
    failed = sum(script is not SAID for script in scripts)
    assert found.notes[0].startswith(f"{len(scripts)} dialogues: {failed} failed")
    assert "nan" not in json_text(found.facts).lower()
    for table in found.tables:
        assert all(len(row) == len(table.columns) for row in table.rows), table.name
        assert not any("nan" in cell for row in table.rows for cell in row), table.name
    for figure in found.figures:
        with drawn(tmp_path / figure.name, figure.width, figure.height) as empty:
            figure.draw(empty)
    results = Results(
        items={item.item_id: item for item in items},
        tables=tables,
        settings=settings(**changes),
        scale=load_scale("toward"),
        seed=7,
    )
    shown = entries(results)
    assert len(shown) == len(scripts)
    assert remediation_table(shown).num_rows == len(scripts)
    page = remediation_page(results, shown, "few")
    assert page.count("failed.") >= failed
    sheet_page(results, "few")


async def test_what_failed_is_counted_and_named():
    items, tables = await corpus([SAID, BROKEN, BROKEN], baselines=["one_shot"])
    found = summary(items, tables, settings(baselines=["one_shot"]), 7)
    assert found.notes[0].startswith("3 dialogues: 2 failed")
    assert "Besides, these failed: 2 one_shot (tables/failures)." in found.notes
    (table,) = [table for table in found.tables if table.name == "failures"]
    dialogue, baseline = table.rows
    assert [dialogue[place] for place in (0, 1, 2, 4)] == ["main", "2", "3", "t1; t2"]
    assert "Invalid JSON" in dialogue[3]
    assert baseline[0] == "one_shot" and "1 of 1 answers" in baseline[3]
    # Figures are of what is left.
    (agreed,) = [table for table in found.tables if table.name == "agreement"]
    assert {row[3] for row in agreed.rows if row[1] in ("main", "one_shot")} == {"1"}
