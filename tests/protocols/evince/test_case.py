"""The case of a text: cost, rounds, the triangle of distances and both positions, in all forms."""

import json
from dataclasses import replace

import pytest

from rldf_ray.protocols.evince.case import TRIANGLE, entries, remediation_table
from rldf_ray.protocols.evince.cost import costs, summed
from rldf_ray.protocols.evince.page import HEIGHT, MARGIN, WIDTH, corner, remediation_page
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.tables import (
    arguments_table,
    differences_table,
    duality_table,
    round_table,
)
from rldf_ray.storage.json_text import json_text
from tests.protocols.evince.script import FIVE, ITEM, Script, held, percent, settings, turn
from tests.protocols.evince.tables import tables_of

TURNS = {
    "A1": turn(100, 0, 0, 0, 0, label="negative", quote="a scandal", claim="A begins."),
    "B1": turn(0, 0, 0, 0, 100, label="positive", claim="B begins."),
    "A2": turn(0, 100, 0, 0, 0, label="negative", claim="A ends."),
    "B2": turn(0, 0, 0, 50, 50, label="positive", claim="B ends."),
    "one shot": {"reason": "r", "distribution": percent(0, 0, 100, 0, 0)},
}


async def results(item=ITEM, turns=TURNS, **changes) -> Results:
    found = await held(Script(turns), item, stop={"max_rounds": 2}, **changes)
    return Results(
        items={item.item_id: item},
        tables=tables_of(found),
        settings=settings(**changes),
        scale=FIVE,
        seed=7,
    )


async def test_the_triangle_by_hand():
    (entry,) = entries(await results())
    # Ann is at 0 and Ben at 2, A ends at 1, and B half at 3 and half at 4.
    assert entry["triangle"] == pytest.approx(
        {"a_to_people": 1.0, "b_to_people": 2.5, "a_to_b": 2.5}
    )
    assert entry["distances"] == {"ann": 1.0, "ben": 1.0}
    (row,) = remediation_table([entry]).to_pylist()
    assert row["triangle"] == entry["triangle"]


async def test_places_are_counted_in_the_text_that_is_shown():
    (entry,) = entries(await results(replace(ITEM, title="A bridge, at last")))
    assert entry["text"].startswith("A bridge, at last\n\nThe mayor")
    for one in entry["best"]["A"]:
        assert entry["text"][one["quote_at"] :].startswith(one["quote"])
    (finding,) = entry["case"]["findings"]
    assert entry["text"][finding["passage_at"] :].startswith(finding["passage"])


async def test_without_people_there_is_no_triangle():
    (entry,) = entries(await results(replace(ITEM, given={})))
    assert entry["triangle"] is None
    (failed,) = entries(await results(turns={"A1": "no", "A1 again": "no"}))
    assert failed["triangle"] is None


@pytest.mark.parametrize(
    "ends", [(1.0, 2.5, 2.5), (0.0, 2.0, 2.0), (3.0, 1.0, 2.0), (1.0, 1.0, 0.0), (0.0, 0.0, 0.0)]
)
def test_a_triangle_is_drawn_to_scale_and_within_its_frame(ends):
    at = corner(dict(zip(TRIANGLE, ends, strict=True)))
    for x, y in at.values():
        assert MARGIN - 0.1 <= x <= WIDTH - MARGIN + 0.1
        assert MARGIN - 0.1 <= y <= HEIGHT - MARGIN + 0.1

    def side(one, other):
        (x, y), (v, w) = at[one], at[other]
        return ((x - v) ** 2 + (y - w) ** 2) ** 0.5

    drawn = (side("A", "people"), side("B", "people"), side("A", "B"))
    if any(ends):
        room = max(drawn) / max(ends)
        assert drawn == pytest.approx([room * end for end in ends], abs=0.3)


async def test_cost_by_who_was_asked():
    study = await results(baselines=["one_shot"])
    (entry,) = entries(study)
    by_seat = {row["seat"]: row for row in entry["cost_by_seat"]}
    assert set(by_seat) == {"A", "B", "judge", "writer", "one shot"}
    # Four arguments with five scores each, and twice how much is repeated.
    assert {seat: row["calls"] for seat, row in by_seat.items()} == {
        "A": 2,
        "B": 2,
        "judge": 22,
        "writer": 1,
        "one shot": 1,
    }
    # The script reads ten tokens a call; a judge's score is one.
    assert entry["cost"]["calls"] == 28 and entry["cost"]["prompt_tokens"] == 280
    assert by_seat["judge"]["generated_tokens"] == 22
    every = study.tables["turns"]["generated_tokens"].to_pylist()
    assert entry["cost"]["generated_tokens"] == sum(every)
    (row,) = remediation_table([entry]).to_pylist()
    assert (row["cost"], row["cost_by_seat"]) == (entry["cost"], entry["cost_by_seat"])
    page = remediation_page(study, [entry], "one")
    assert "Cost: 28 calls, 280 tokens read" in page
    assert "28 calls: 280 tokens read, 0 of them from a cache" in page


async def test_several_samples_of_one_request_are_one_call():
    study = await results(crit={"form": "rubric", "judges": 3})
    (judge,) = [r for r in costs(study.tables["turns"])[ITEM.item_id] if r["seat"] == "judge"]
    # Three scores of each of four turns, and two of repetition, which is one sample each.
    assert (judge["calls"], judge["generated_tokens"]) == (3 * 4 + 2, 3 * 3 * 4 + 2)
    assert summed([judge, judge])["calls"] == 28
    assert summed([])["calls"] == 0


async def test_the_rounds_are_in_every_form():
    study = await results()
    (entry,) = entries(study)
    (row,) = remediation_table([entry]).to_pylist()
    assert [one["round"] for one in row["course"]] == [1, 2]
    assert row["course"][1]["b"] == entry["course"][1]["b"] == [[0, 0, 0, 0.5, 0.5]]
    assert row["course"][0]["wd"] == 4.0
    assert json.loads(json_text(entry))["course"][1]["wd"] == pytest.approx(2.5)
    page = " ".join(remediation_page(study, [entry], "one").split())
    b = "<td>B</td><td>0</td><td>0</td><td>0</td><td>50</td><td>50</td><td>2.50</td>"
    assert f"<tr><td>2</td>{b}" in page
    # In round 2 both quote the same words.
    assert "quotes shared" in page and row["course"][1]["evidence_overlap"] == 1.0


async def test_what_each_side_argues_first_and_last():
    table = arguments_table(await results())
    assert table is not None
    assert [row[0] for row in table.rows] == [
        "A, round 1",
        "B, round 1",
        "A, round 2",
        "B, round 2",
    ]
    assert table.rows[-1][1].startswith("B ends.")


def both(mine, theirs):
    said = turn(*mine)
    said["distributions"] = {"A's position": percent(*mine), "B's position": percent(*theirs)}
    return said


async def test_both_positions_are_shown():
    turns = {
        "A1": both((0, 0, 100, 0, 0), (0, 0, 0, 0, 100)),
        "B1": both((100, 0, 0, 0, 0), (0, 0, 100, 0, 0)),
        "A2": both((0, 0, 100, 0, 0), (0, 0, 0, 100, 0)),
        "B2": both((0, 0, 100, 0, 0), (0, 0, 0, 100, 0)),
    }
    views = ["the <i>mayor</i>", "the critics"]
    study = await results(replace(ITEM, given={}), turns, rates="positions", positions=views)
    (entry,) = entries(study)
    names = [f"A's position, {views[0]}", f"B's position, {views[1]}"]
    assert [(one["name"], one["label"]) for one in entry["rated"]] == [
        (names[0], "neutral"),
        (names[1], "weakly positive"),
    ]
    (row,) = remediation_table([entry]).to_pylist()
    assert [one["mean_position"] for one in row["rated"]] == [2.0, 3.0]
    page = " ".join(remediation_page(study, [entry], "two").split())
    safe = "A&#39;s position, the &lt;i&gt;mayor&lt;/i&gt;"
    assert f"for {safe} at <strong>neutral</strong>" in page
    assert "the critics at <strong>weakly positive</strong>" in page
    assert "<i>" not in page
    last = "<td>0</td><td>0</td><td>0</td><td>100</td><td>0</td>"
    assert f"<tr><td>2</td><td>B</td><td>B&#39;s position</td>{last}" in page
    table = round_table(study)
    assert table is not None and table.columns[:3] == ["round", "side", "of"]
    assert [row[:4] for row in table.rows[:4]] == [
        ["1", "A", "A's position", "0"],
        ["1", "A", "B's position", "0"],
        ["1", "B", "A's position", "100"],
        ["1", "B", "B's position", "0"],
    ]


async def test_a_group_is_shown_with_how_many_said_what():
    votes = {"liberals": {"negative": 3, "neutral": 2}}
    item = replace(ITEM, given={"liberals": "negative"}, votes=votes)
    study = await results(item)
    (entry,) = entries(study)
    page = " ".join(remediation_page(study, [entry], "one").split())
    group = "of liberals 3 say <strong>negative</strong>, 2 say <strong>neutral</strong>;"
    assert group in page
    (row,) = remediation_table([entry]).to_pylist()
    assert {who: dict(each) for who, each in row["votes"]} == votes
    # A at 1 against 3/5 at 0 and 2/5 at 2.
    assert entry["triangle"]["a_to_people"] == pytest.approx(1.0)


async def test_distances_of_a_group_are_those_of_its_shares():
    votes = {"liberals": {"negative": 3, "neutral": 2}, "others": {"negative": 1, "neutral": 1}}
    item = replace(ITEM, given={"liberals": "negative"}, votes=votes)
    study = await results(item, baselines=["one_shot"])
    (entry,) = entries(study)
    # The mixture is half at 1, and a quarter each at 3 and 4; a split group has shares as well.
    assert entry["distances"] == pytest.approx({"liberals": 1.45, "others": 1.25})
    assert "Steps from: liberals 1.45, others 1.25." in remediation_page(study, [entry], "one")
    duality = duality_table(study)
    assert duality is not None
    assert duality.rows[0][3] == "1.350"
    # One answer's 2 is 1.2 and 1 steps away.
    (difference,) = differences_table(study).rows
    assert difference[4] == "-0.250"
    assert "A group's labels count by their shares." in differences_table(study).notes[0]
