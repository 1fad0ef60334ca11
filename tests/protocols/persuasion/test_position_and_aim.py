"""In which position static dialogues are held, and who is told that winning counts."""

from dataclasses import replace

import pyarrow as pa
import pytest

from rldf_ray.protocols.persuasion.finished import finished
from rldf_ray.protocols.persuasion.transcript import drawn_position
from tests.protocols.persuasion.script import (
    ITEM,
    Script,
    held,
    honest,
    side_of,
    tables_of,
    text_of,
    trusts_quotes,
    verdicts,
)


@pytest.mark.parametrize("position", ["plain", "swapped"])
async def test_static_dialogues_are_held_in_a_position_drawn_for_the_item(position):
    item = next(
        one
        for one in (replace(ITEM, item_id=f"q{n}") for n in range(20))
        if drawn_position(one) == position
    )
    script = Script(honest, trusts_quotes)
    found = await held(script, item, debaters={"n2": {"model": "m", "best_of": 2}})
    letter = "A" if position == "plain" else "B"
    for request in script.asked:
        if request.address.endswith("/turn") and "debate/" in request.address:
            own = letter if side_of(request) == "correct" else {"A": "B", "B": "A"}[letter]
            assert f"You are Debater {own}." in text_of(request)
    for row in found.tables["arguments"]:
        assert row["position"] == position
    for protocol in ("debate", "consultancy"):
        assert {row["position"] for row in verdicts(found, protocol)} == {"plain", "swapped"}
    tables = tables_of(found)
    assert {d.transcript.position for d in finished([item], tables).values()} == {position}
    # An earlier version recorded no position, and held all of them in the first.
    nothing = pa.nulls(len(tables["arguments"]), pa.string())
    place = tables["arguments"].schema.get_field_index("position")
    tables["arguments"] = tables["arguments"].set_column(place, "position", nothing)
    assert {d.transcript.position for d in finished([item], tables).values()} == {"plain"}


def test_both_positions_are_drawn_as_often():
    drawn = [drawn_position(replace(ITEM, item_id=f"story-{n}")) for n in range(400)]
    assert 160 < drawn.count("plain") < 240


@pytest.mark.parametrize(
    ("wins", "told"),
    [
        ("published", {"consultancy", "interactive"}),
        ("always", {"consultancy", "interactive", "static"}),
        ("never", set()),
    ],
)
async def test_who_is_told_that_winning_counts(wins, told):
    script = Script(honest, trusts_quotes)
    await held(script, interactive=[False, True], wins=wins)
    found = set()
    for request in script.asked:
        if not request.address.endswith("/turn") or "What counts is that you win" not in text_of(
            request
        ):
            continue
        if "consultancy/" in request.address:
            found.add("consultancy")
        else:
            found.add("interactive" if " asks" in request.address else "static")
    assert found == told
