"""Where both sides' positions are rated, nothing of it is held against labels of the text."""

import pytest

from rldf_ray.protocols.evince.case import entries
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.summary import summary
from rldf_ray.protocols.evince.tables import justifications_table
from rldf_ray.protocols.evince.training import sft_rows
from tests.protocols.evince.script import FIVE, ITEM, Script, held, outcome, percent, settings, turn
from tests.protocols.evince.tables import tables_of

CHANGES = {
    "rates": "positions",
    "positions": ["the mayor's view", "the critics' view"],
    "arms": ["main", "schedule"],
    "baselines": ["one_shot"],
    "stop": {"max_rounds": 1},
}
BOTH = {
    **turn(0, 0, 0, 0, 100),
    "distributions": {
        "A's position": percent(0, 0, 0, 0, 100),
        "B's position": percent(0, 0, 0, 0, 100),
    },
}
SCRIPT = Script(
    {
        "A1": BOTH,
        "B1": BOTH,
        "one shot": {"reason": "r", "distribution": percent(0, 0, 100, 0, 0)},
    }
)


@pytest.fixture
async def found():
    return await held(SCRIPT, ITEM, **CHANGES)


async def test_no_label_moves(found):
    assert outcome(found)["label"] == "positive"
    assert "label moves" not in outcome(found)["review"]


async def test_people_and_baselines_are_held_against_each_other_alone(found):
    report = summary([ITEM], tables_of(found), settings(**CHANGES), 7)
    tables = {table.name: table for table in report.tables}
    assert "labels-1" not in tables and "duality" not in tables
    assert {row[1] for row in tables["agreement"].rows} == {"one_shot", "ann"}
    assert all(row[3:5] == ["–", "–"] for row in tables["differences"].rows)
    assert {one["system"] for one in report.facts["agreement"]} == {"one_shot"}
    assert "triangle" not in {figure.name for figure in report.figures}
    said = "\n".join(report.notes)
    assert "told labels" not in said and "weighted kappa" not in said
    assert "steps nearer" not in said
    assert "dialogues are held against no label of a text" in said


async def test_the_case_has_no_distances(found):
    results = Results(
        items={ITEM.item_id: ITEM},
        tables=tables_of(found),
        settings=settings(**CHANGES),
        scale=FIVE,
        seed=7,
    )
    (entry,) = entries(results)
    assert entry["distances"] == {}
    table = justifications_table(results)
    assert table is not None
    assert table.rows[0][1].startswith("–, ")
    # The question of an SFT row is about the text, and the label is not.
    decided = {"item_id": ITEM.item_id, "decision": "change", "final": ["positive"]}
    assert not list(sft_rows(results, [decided]))
