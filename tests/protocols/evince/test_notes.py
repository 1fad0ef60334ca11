"""What a reader is told first: how a dialogue that argues for people's labels agrees with them."""

from dataclasses import replace

import pytest

from rldf_ray.protocols.evince.summary import summary
from tests.protocols.evince.script import ITEM, Script, held, percent, settings, turn
from tests.protocols.evince.tables import tables_of

# The sides end at the label that the first person gave; one answer says another.
SAID = {
    "A1": turn(100, 0, 0, 0, 0),
    "B1": turn(100, 0, 0, 0, 0),
    "one shot": {"reason": "r", "distribution": percent(0, 0, 0, 0, 100)},
}
ITEMS = [replace(ITEM, item_id=f"t{i}, the mayor", text_id=f"t{i}") for i in range(6)]


async def notes(**changes: object) -> str:
    changes = {"baselines": ["one_shot"], **changes}
    found = [await held(Script(SAID), item, **changes) for item in ITEMS]
    return "\n".join(summary(ITEMS, tables_of(*found), settings(**changes), 7).notes)


async def test_of_a_dialogue_that_is_told_labels_no_agreement_is_claimed():
    said = await notes()
    assert "told labels that people gave" in said
    assert "weighted kappa" not in said
    assert "than one answer's" not in said
    # Both people are 0 and 2 steps from the first label, which the dialogue ends at, too.
    assert "Repeating the first label that each text came with is +0.000" in said


async def test_one_that_is_told_none_stands_against_people_and_one_answer():
    said = await notes(arms=["main", "untold"])
    assert "told labels that people gave" in said
    assert "weighted kappa of arm untold with ben" in said
    # 4 and 2 steps from people for one answer, 0 and 2 for the dialogue.
    assert "labels of arm untold are +2.000" in said


async def test_where_nobody_is_told_a_label_the_dialogue_as_planned_is_what_is_measured():
    said = await notes(given="none")
    assert "told labels" not in said and "Repeating" not in said
    assert "weighted kappa with ben" in said
    assert "The dialogue's labels are +2.000" in said


async def test_what_the_answers_of_self_consistency_cost_is_what_was_recorded():
    # Its answers are limited, and cost far less than such a dialogue.
    long = turn(100, 0, 0, 0, 0, claim="word " * 600)
    changes = {"given": "none", "baselines": ["self_consistency"], "stop": {"max_rounds": 1}}
    script = Script({**SAID, "A1": long, "B1": long})
    tables = tables_of(await held(script, **changes))
    spent = {row["arm"]: row["generated_tokens"] for row in tables["outcomes"].to_pylist()}
    times = spent["main"] / spent["self_consistency"]
    assert times > 2
    said = "\n".join(summary([ITEM], tables, settings(**changes), 7).notes)
    assert f"than those of several answers, at {times:.1f} times the tokens" in said


async def test_tables_say_who_is_told_labels():
    for given, told in (("both", True), ("none", False)):
        changes = {"baselines": ["one_shot"], "given": given}
        tables = tables_of(await held(Script(SAID), **changes))
        made = summary([ITEM], tables, settings(**changes), 7).tables
        said = {table.name: " ".join(table.notes) for table in made}
        assert ("Dialogues argue for labels that people gave" in said["agreement"]) is told
        assert ("other dialogues are" in said["differences"]) is told
        assert ("Both sides are told people's labels" in said["duality"]) is told
        nobody = "No dialogue is told a label that people gave, and no baseline."
        assert (nobody in said["agreement"]) is (nobody in said["differences"]) is not told


@pytest.mark.parametrize(("reader", "there"), [("plain", False), ("biaslab", True)])
async def test_whose_labels_are_of_parties(reader, there):
    item = replace(ITEM, target="Democrats")
    tables = tables_of(await held(Script(SAID), item))
    said = "\n".join(summary([item], tables, settings(reader=reader), 7).notes)
    assert ("how the text treats a party" in said) is there
