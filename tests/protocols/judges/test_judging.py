"""The three systems: who is asked what, in which order, and which verdict counts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from rldf_ray.models.base import ChatRequest
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.protocols.judges.study import hold
from rldf_ray.protocols.study import Held
from tests.protocols.judges.items import (
    cast,
    first_slot,
    item,
    judge_by,
    longest,
    right,
    settings,
)

ITEM = item(3)
SPOKEN = re.compile(r"^\[((?:Round|Referee) [^\]]+)\]\n(.*)$", re.MULTILINE)


class Numbered(ScriptedModel):
    """Says its name and the number of its call, with scores."""

    def __init__(self, own: str) -> None:
        super().__init__(reply=self._say)
        self._own = own
        self.asked: list[ChatRequest] = []

    def _say(self, request: ChatRequest) -> str:
        self.asked.append(request)
        if "best referee" in request.messages[-1].content:
            return "The best referee is: A"
        said = f"{self._own}{len(self.asked)}"
        return f"{said}\nThe score of Assistant 1: 7\nThe score of Assistant 2: 6"


def held(of: Any, **models: Any) -> Held:
    return asyncio.run(hold(ITEM, cast(of, **models)))


def history(request: ChatRequest) -> list[tuple[str, str]]:
    return SPOKEN.findall(request.messages[-1].content)


DEBATE = {"judges": [], "debates": [["j", "c"]], "conditions": ["clean"], "rounds": 3}


def test_a_debate_is_j_c_j_c_j_with_the_views_of_the_paper() -> None:
    judge, critic = Numbered("J"), Numbered("C")
    outcome = held(settings(**DEBATE), j=judge, c=critic)
    assert len(judge.asked) == 4 and len(critic.asked) == 3
    # The critic sees the judge's latest text alone.
    assert [history(r) for r in critic.asked] == [
        [("Round 1: Judge", "J1")],
        [("Round 2: Judge", "J2")],
        [("Round 3: Judge", "J3")],
    ]
    # The judge sees the whole transcript, its own texts included.
    assert [history(r) for r in judge.asked] == [
        [],
        [("Round 1: Judge", "J1"), ("Round 1: Agent", "C1")],
        [
            ("Round 1: Judge", "J1"),
            ("Round 1: Agent", "C1"),
            ("Round 2: Judge", "J2"),
            ("Round 2: Agent", "C2"),
        ],
        [
            ("Round 1: Judge", "J1"),
            ("Round 1: Agent", "C1"),
            ("Round 2: Judge", "J2"),
            ("Round 2: Agent", "C2"),
            ("Round 3: Judge", "J3"),
            ("Round 3: Agent", "C3"),
        ],
    ]
    assert [(r["system"], r["round"]) for r in outcome.outcomes] == [
        ("single", 0),
        *(("debate", number) for number in range(4)),
    ]
    assert "You are the Critic." in critic.asked[0].messages[-1].content
    assert all("You are the General Public" in r.messages[-1].content for r in judge.asked)


def test_a_critic_may_see_all() -> None:
    judge, critic = Numbered("J"), Numbered("C")
    held(settings(**DEBATE, critic_view="full"), j=judge, c=critic)
    assert [speaker for speaker, _ in history(critic.asked[2])] == [
        "Round 1: Judge",
        "Round 1: Agent",
        "Round 2: Judge",
        "Round 2: Agent",
        "Round 3: Judge",
    ]


def test_a_judge_may_be_its_own_critic() -> None:
    judge = Numbered("J")
    held(settings(judges=[], debates=[["j", "j"]], conditions=["clean"], rounds=1), j=judge)
    assert [len(history(request)) for request in judge.asked] == [0, 1, 2]


META = {
    "judges": [],
    "conditions": ["clean", "position"],
    "meta": {"pools": {"m": [["a", "b"]]}},
}


def test_a_meta_judge_reads_the_pools_openings_about_the_same_view() -> None:
    models = {name: Numbered(name.upper()) for name in "mab"}
    outcome = held(settings(**META), **models)
    # An opening a view, and for the meta-judge one text more in each mode.
    assert {name: len(model.asked) for name, model in models.items()} == {"m": 6, "a": 2, "b": 2}
    select, conclude = (
        [r for r in models["m"].asked if word in r.messages[-1].content]
        for word in ("You are the Chair", "[Referee 1]")
    )
    assert [n for n, _ in history(select[0])] == ["Referee A", "Referee B"]
    assert [n for n, _ in history(conclude[0])] == ["Referee 1", "Referee 2"]
    assert "The score of Assistant 1: NUMBER" not in select[0].messages[-1].content
    assert "The score of Assistant 1: NUMBER" in conclude[0].messages[-1].content
    swapped = [r for r in select if ITEM.answer2 in r.documents[0]]
    assert len(swapped) == 1
    by_mode = {r["mode"]: r for r in outcome.outcomes if r["system"] == "meta"}
    assert by_mode["select"]["chosen"] in ("a", "b") and by_mode["conclude"]["chosen"] is None


def test_the_chosen_text_is_the_verdict_and_the_pool_has_one_order_in_all_conditions() -> None:
    one, other = judge_by(longest), judge_by(right)
    of = settings(**META | {"conditions": ["clean", "rerun", "position"]})
    chosen: list[Sequence[str]] = []
    for number in range(12):
        outcome = asyncio.run(hold(item(number), cast(of, m=judge_by(right), a=one, b=other)))
        metas = [r for r in outcome.outcomes if r["system"] == "meta" and r["mode"] == "select"]
        chosen.append([r["chosen"] for r in metas])
        for row in metas:
            assert row["winner"] == {"a": "2", "b": "1"}[row["chosen"]]
    # The chair names A, so whom it chooses is the order: a rerun changes it no more than the rest.
    assert all(len(several) == 3 and len(set(several)) == 1 for several in chosen)
    assert {several[0] for several in chosen} == {"a", "b"}


def test_an_opening_is_asked_for_once_whoever_shares_it() -> None:
    models = {name: Numbered(name.upper()) for name in "jc"}
    of = settings(
        judges=["j", "c"],
        debates=[["j", "c"], ["c", "j"], ["j", "j"]],
        meta={"pools": {"j": [["j", "c"]]}},
        conditions=["clean", "rerun"],
        rounds=1,
    )
    outcome = held(of, **models)
    addresses = [turn.address for turn in outcome.turns]
    assert len(addresses) == len(set(addresses))
    openings = [a for a in addresses if a.endswith("/judge") and a.count("/") == 3]
    assert sorted(openings) == [
        f"item-3/{key}/{name}/judge" for key in ("clean", "rerun-1") for name in "cj"
    ]
    seeds = {turn.seed for turn in outcome.turns}
    assert len(seeds) == len(addresses)


def test_a_text_without_a_verdict_is_asked_for_once_more_and_is_then_invalid() -> None:
    asked: list[str] = []

    def reply(request: ChatRequest) -> str:
        asked.append(request.address)
        return "Hm." if len(asked) < 3 else "The score of Assistant 1: 7\nScore of Assistant 2: 2"

    once = held(settings(conditions=["clean"]), j=ScriptedModel(reply=reply))
    assert asked == ["item-3/clean/j/judge", "item-3/clean/j/judge/again/1"]
    assert once.outcomes[0]["winner"] is None and once.outcomes[0]["score_1"] is None
    assert len(once.turns) == 2
    asked.clear()
    twice = held(settings(conditions=["clean"], reask=2), j=ScriptedModel(reply=reply))
    assert twice.outcomes[0]["winner"] == "1"
    assert twice.outcomes[0]["address"] == "item-3/clean/j/judge/again/2"


def test_a_generator_writes_the_twin_that_an_item_lacks() -> None:
    twin = "It is 7, I think; and I think so, as it seems to me."

    def reply(request: ChatRequest) -> str:
        if "Write the answer again" in request.messages[-1].content:
            assert request.temperature == 0.7
            return twin
        return "The score of Assistant 1: 7\nThe score of Assistant 2: 2"

    of = settings(
        conditions=["clean", "verbosity"], verbosity={"generator": "g"}, rounds=1, judges=["j"]
    )
    model = ScriptedModel(reply=reply)
    one = asyncio.run(hold(item(3, answer2_long=None), cast(of, j=model, g=model)))
    assert [r["condition"] for r in one.outcomes] == ["clean", "verbosity"]
    assert [t.seat for t in one.turns].count("lengthen") == 1
    without = settings(conditions=["clean", "verbosity"])
    none = asyncio.run(hold(item(3, answer2_long=None), cast(without, j=model)))
    assert [r["condition"] for r in none.outcomes] == ["clean"]


@pytest.mark.parametrize("kept", [False, True])
def test_a_verdict_is_kept_by_candidate_under_either_swap(kept: bool) -> None:
    name = "position_labels" if kept else "position"
    of = settings(conditions=["clean", name])
    knows = held(of, j=judge_by(right))
    assert [r["winner"] for r in knows.outcomes] == ["1", "1"]
    assert [r["score_1"] for r in knows.outcomes] == [9, 9 if kept else 3]
    first = held(of, j=judge_by(first_slot))
    assert [r["winner"] for r in first.outcomes] == ["1", "2"]
