"""What a study will ask at most: never less than what it asks."""

from collections import Counter

import pytest

from rldf_ray.protocols.mabrf.estimate import estimate
from rldf_ray.protocols.mabrf.items import MabrfItem
from tests.protocols.mabrf.script import ITEM, STEPS, Script, held, settings, verdict

ROLES = {name: name for name in ("solver", "judge", "rephraser", "searcher", "terminator")}


def estimated(*items, **changes):
    return {one.speaker: one for one in estimate(items, settings(**ROLES, **changes))}


@pytest.mark.parametrize("reask", [0, 2])
async def test_every_verdict_may_be_asked_for_again(reask):
    loop = {"reask": reask, "retests": 1, "max_passes": 2}

    def wild(place):
        if "judge" not in place:
            return STEPS
        # The last that may be asked is a verdict, so that the loop goes on.
        return verdict(4) if place.endswith(f"again {reask}") or not reask else "none"

    script = Script({"solver/answer": "0", "none/terminate": "0"}, wild)
    found = await held(script, loop=loop)
    asked = Counter(turn.seat for turn in found.turns)
    at_most = estimated(ITEM, loop=loop)
    # The first steps, those again, and two rewritings.
    assert asked["judge"] == at_most["judge"].calls == 4 * (1 + reask)
    assert asked["rephraser"] == at_most["rephraser"].calls == 2


def test_a_free_answer_may_be_as_long_as_a_reasoning():
    free = MabrfItem(item_id="q", group="q", question="Who fears phones?")
    most = settings().loop.max_tokens
    assert estimated(ITEM)["terminator"].generated < most
    assert estimated(free)["terminator"].generated == most
    assert estimated(free)["solver"].generated == 2 * most
    both = estimated(ITEM, free)["terminator"]
    assert (both.calls, both.generated) == (2, most + estimated(ITEM)["terminator"].generated)
