"""Scripted dialogues: each with its status, its reasons for review, and its numbers by hand."""

import json

import pytest

from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.review import Filled, decide
from tests.protocols.evince.script import (
    FIVE,
    ITEM,
    Script,
    held,
    outcome,
    rows,
    settings,
    turn,
    without_label,
)
from tests.protocols.evince.tables import tables_of

AGREED = turn(0, 10, 80, 10, 0)


async def test_a_dialogue_that_agrees():
    turns = {
        "A1": turn(60, 20, 20, 0, 0, label="negative", quote="a scandal"),
        "B1": turn(0, 10, 80, 10, 0),
        "A2": AGREED,
        "B2": AGREED,
    }
    found = await held(Script(turns), ITEM)
    row = outcome(found)
    assert (row["status"], row["rounds"], row["label"]) == ("agreed", 2, "neutral")
    assert row["distributions"] == ((0.0, 0.1, 0.8, 0.1, 0.0),)
    assert row["mean_position"] == pytest.approx(2.0)
    # All scores 8: own 7/9 each, rivals 7/9: G = 2/3 x 7/9 + 1/3 x 2/9.
    crit = 2 / 3 * 7 / 9 + 1 / 3 * 2 / 9
    assert rows(found, "rounds")[0]["crit_a"] == pytest.approx(crit)
    assert (row["weight_a"], row["weight_b"]) == (0.5, 0.5)
    # Two steps from Ann's "negative".
    assert row["review"] == ("label moves",)
    levels = [one["level"] for one in rows(found, "rounds")]
    assert levels == pytest.approx([0.9, 0.9])


async def test_a_dialogue_that_never_does():
    turns = {}
    for number in range(1, 7):
        # The two do not move, so that the level falls to .3, and never to its lowest.
        turns[f"A{number}"] = turn(80, 20, 0, 0, 0, label="negative", claim=f"claim {number}")
        turns[f"B{number}"] = turn(0, 0, 10, 10, 80, label="positive", claim=f"claim {number}")
    row = outcome(found := await held(Script(turns)))
    assert (row["status"], row["rounds"]) == ("max rounds", 6)
    assert row["review"][0] == "not converged"
    assert [one["level"] for one in rows(found, "rounds")] == pytest.approx([0.9, 0.9] + [0.3] * 4)
    mixture = (0.4, 0.1, 0.05, 0.05, 0.4)
    assert row["distributions"][0] == pytest.approx(mixture)
    # Two equally likely labels: the one nearer the mean of 1.95 steps.
    assert row["label"] == "negative"
    assert "close vote" in row["review"]


async def test_a_stale_dialogue_is_made_milder_and_ends_without_progress():
    turns = {}
    for number in range(1, 7):
        turns[f"A{number}"] = turn(70, 30, 0, 0, 0, label="negative")
        turns[f"B{number}"] = turn(0, 0, 20, 0, 80, label="positive")
    found = await held(Script(turns, repeated=lambda prompt: 10))
    levels = [one["level"] for one in rows(found, "rounds")]
    # Round 2 shows a plateau (.3) and repetition (.9 - .2); each further round .2 less, to .1.
    assert levels == pytest.approx([0.9, 0.9, 0.3, 0.1, 0.1])
    assert outcome(found)["status"] == "no progress"
    assert outcome(found)["review"][0] == "not converged"
    assert rows(found, "rounds")[1]["repeated_a"] == 1.0
    assert rows(found, "rounds")[0]["repeated_a"] is None


@pytest.mark.parametrize(
    "broken",
    [
        "no JSON",
        json.dumps(turn(10, 10, 10, 10, 10)),
        json.dumps(turn(-20, 60, 60, 0, 0)),
        json.dumps({**turn(0, 0, 100, 0, 0), "concedes": ["A9.9"]}),
        json.dumps(turn(0, 0, 100, 0, 0, label="sideways")),
        json.dumps({**turn(0, 0, 100, 0, 0), "arguments": []}),
    ],
)
async def test_a_turn_that_is_none_twice_ends_its_dialogue_as_failed(broken):
    turns = {"A1": AGREED, "B1": broken, "B1 again": broken}
    script = Script(turns)
    row = outcome(found := await held(script))
    assert (row["status"], row["rounds"], row["label"]) == ("failed", 0, None)
    assert row["failure"]
    assert row["review"] == ["failed"]
    assert row["distributions"] is None
    assert rows(found, "rounds") == []
    # What was said is kept.
    assert [one["argument_id"] for one in rows(found, "arguments")] == ["A1.1"]
    asked = [r.address for r in script.asked if "/B1" in r.address]
    assert asked == ["t1, the mayor/main/B1", "t1, the mayor/main/B1/again"]


async def test_a_turn_that_is_none_once_is_asked_for_again():
    turns = {"A1": AGREED, "B1": "no JSON", "B1 again": AGREED}
    assert outcome(await held(Script(turns)))["status"] == "agreed"


async def test_quotes_that_are_not_in_the_text_make_reasons_worth_nothing():
    turns = {
        "A1": turn(90, 10, 0, 0, 0, label="negative", quote="a TOTAL disaster"),
        "B1": turn(0, 0, 90, 10, 0, quote="  Opened the\nBRIDGE "),
    }
    found = await held(Script(turns), stop={"max_rounds": 1})
    first, second = rows(found, "arguments")
    assert (first["quote_at"], first["own"], first["rival"]) == (None, 0.0, 0.0)
    assert first["flags"] == ["quote not found", "weak"]
    assert second["quote_at"] == ITEM.text.index("opened the bridge")
    assert second["flags"] == []
    one = rows(found, "rounds")[0]
    assert one["crit_a"] == pytest.approx(1 / 3 * (1 - 7 / 9))
    assert one["crit_b"] == pytest.approx(2 / 3 * 7 / 9 + 1 / 3)
    row = outcome(found)
    weight = one["crit_a"] / (one["crit_a"] + one["crit_b"])
    assert row["weight_a"] == pytest.approx(weight)
    assert row["distributions"][0][0] == pytest.approx(0.9 * weight)
    assert row["label"] == "neutral"
    assert "weak arguments" in row["review"]


async def test_b_persuades_a_and_the_decision_without_b_s_argument():
    turns = {
        "A1": turn(80, 20, 0, 0, 0, label="negative", quote="a scandal"),
        "B1": turn(0, 0, 90, 10, 0),
        "A2": turn(0, 10, 80, 10, 0, concedes=["B1.1"], answers=[{"of": "B1.1", "reply": "True."}]),
        "B2": turn(0, 0, 90, 10, 0, quote=""),
    }

    def scores(prompt: str) -> int:
        return 4 if "a scandal" in prompt.rpartition("The reason")[2] else 10

    found = await held(
        Script(turns, scores=scores), stop={"max_rounds": 2}, crit={"weights": "mean"}
    )
    conceded = {one["argument_id"]: one for one in rows(found, "arguments") if one["conceded"]}
    assert list(conceded) == ["B1.1"]
    assert conceded["B1.1"]["replies"] == ["True."]
    a1, b1 = 2 / 3 * (1 / 3) + 1 / 3 * 0, 2 / 3 * 1 + 1 / 3 * (1 - 1 / 3)
    one = rows(found, "rounds")[0]
    assert (one["crit_a"], one["crit_b"]) == pytest.approx((a1, b1))
    # Round 2: both own 1, rivals 1: 2/3 each.
    row = outcome(found)
    weight_a = (a1 + 2 / 3) / (a1 + b1 + 4 / 3)
    assert row["weight_a"] == pytest.approx(weight_a)
    assert row["distributions"][0] == pytest.approx(
        (0, 0.1 * weight_a, 0.8 * weight_a + 0.9 * (1 - weight_a), 0.1, 0)
    )

    # A person rejects B's argument of round 2: B has no reason there, and A no rival.
    results = Results(
        items={ITEM.item_id: ITEM},
        tables=tables_of(found),
        settings=settings(crit={"weights": "mean"}),
        scale=FIVE,
        seed=7,
    )
    filled = Filled(
        item_id=ITEM.item_id,
        decision="",
        change_to="",
        reject=("B2.1",),
        person="eve",
        date="",
        reason="",
    )
    (again,) = decide([filled], results)
    weight = (a1 + 1) / (a1 + 1 + b1 + 0)
    assert again["distribution_again"] == pytest.approx(
        (0, 0.1 * weight, 0.8 * weight + 0.9 * (1 - weight), 0.1, 0)
    )
    assert again["final"] == ["neutral"]


async def test_who_sees_what():
    turns = {
        "A1": turn(60, 20, 20, 0, 0, claim="A opens."),
        "B1": turn(0, 10, 80, 10, 0, claim="B refutes."),
        "A2": turn(0, 10, 70, 20, 0, claim="A answers."),
        "B2": turn(0, 10, 80, 10, 0, claim="B answers."),
    }
    script = Script(turns)
    await held(script, stop={"max_rounds": 2})
    prompts = {
        r.address.split("/")[2]: r.messages[-1].content
        for r in script.asked
        if "/main/" in r.address
    }
    text = prompts["A1"].split("[End of the text]")[0]
    assert all(prompt.startswith(text) for prompt in prompts.values())
    assert "argued so far" not in prompts["A1"]
    assert "A opens." in prompts["B1"] and "negative 60 %" in prompts["B1"]
    assert "B refutes." in prompts["A2"] and "B's latest percentages" in prompts["A2"]
    assert "Your own percentages of the round before: negative 60 %" in prompts["A2"]
    assert "A answers." in prompts["B2"]
    # The record only grows, so what was sent stays a prefix.
    record = prompts["A2"].split("\n\nB's latest")[0]
    assert prompts["B2"].startswith(record)
    for name in ("A1", "B1", "A2", "B2"):
        prompt = prompts[name]
        assert f"You are {name[0]}." in prompt
        assert "not its referee" in prompt
        assert "How contentious you are, from 0 to 1: 0.90" in prompt
        for hidden in ("CRIT", "Wasserstein", "max_rounds"):
            assert hidden not in prompt
    judged = [r.messages[-1].content for r in script.asked if "/crit/" in r.address]
    assert judged
    for prompt in judged:
        # The judge sees neither who spoke nor percentages.
        assert "%" not in prompt and "You are A" not in prompt and "You are B" not in prompt


async def test_simultaneous_turns_see_the_rounds_before_alone():
    turns = {
        name: turn(0, 10, 80, 10, 0, claim=f"{name} says.") for name in ("A1", "B1", "A2", "B2")
    }
    script = Script(turns)
    await held(script, order="simultaneous", stop={"max_rounds": 2, "agreed": False})
    prompts = {
        r.address.split("/")[2]: r.messages[-1].content
        for r in script.asked
        if "/main/" in r.address
    }
    assert "A1 says." not in prompts["B1"]
    assert "A1 says." in prompts["B2"] and "A2 says." not in prompts["B2"]


async def test_stances_of_two_given_labels_of_one_and_of_none():
    said = dict.fromkeys(("A1", "B1"), AGREED)

    async def prompts(item=ITEM, **changes):
        script = Script(
            {
                **said,
                "one shot": {
                    "reason": "r",
                    "distribution": turn(0, 0, 0, 0, 100)["distributions"]["the text"],
                },
            }
        )
        await held(script, item, **changes)
        return {r.address.split("/", 1)[1]: r.messages[-1].content for r in script.asked}

    both = await prompts()
    assert 'defend the label "negative"' in both["main/A1"]
    assert 'defend the label "neutral"' in both["main/B1"]
    one = await prompts(given="first")
    assert 'defend the label "negative"' in one["main/A1"]
    assert 'oppose the label "negative"' in one["main/B1"]
    none = await prompts(without_label())
    assert 'defend the label "positive"' in none["main/A1"]
    assert 'oppose the label "positive"' in none["main/B1"]
    swapped = await prompts(arms=["main", "swapped", "same_stance"])
    assert 'defend the label "neutral"' in swapped["swapped/A1"]
    assert 'defend the label "negative"' in swapped["swapped/B1"]
    assert 'defend the label "negative"' in swapped["same_stance/B1"]
    untold = await prompts(arms=["main", "untold"])
    assert untold["main/A1"] == both["main/A1"] and untold["main/B1"] == both["main/B1"]
    assert 'defend the label "positive"' in untold["untold/A1"]
    assert 'oppose the label "positive"' in untold["untold/B1"]


async def test_levels_of_the_arms():
    turns = {}
    for number in (1, 2, 3):
        turns[f"A{number}"] = turn(80, 20, 0, 0, 0, claim=f"c {number}")
        turns[f"B{number}"] = turn(0, 0, 10, 10, 80, claim=f"c {number}")
    found = await held(
        Script(turns),
        arms=["main", "schedule", "held_high", "held_low"],
        stop={"max_rounds": 3, "no_progress": False},
    )
    levels = {
        arm: [one["level"] for one in rows(found, "rounds", arm)]
        for arm in ("schedule", "held_high", "held_low")
    }
    assert levels == {
        "schedule": [0.9, 0.7, 0.3],
        "held_high": [0.9] * 3,
        "held_low": [0.1] * 3,
    }


async def test_duality_asks_b_again_until_the_two_differ_enough():
    turns = {
        "A1": turn(100, 0, 0, 0, 0),
        "B1": turn(100, 0, 0, 0, 0),
    }
    script = Script(turns)
    found = await held(script, initial="duality", stop={"max_rounds": 1})
    asked = [r for r in script.asked if "/main/B1" in r.address]
    assert [r.address.split("/")[2:] for r in asked] == [["B1"], ["B1", "dual 1"], ["B1", "dual 2"]]
    assert len({r.seed for r in asked}) == 3
    assert outcome(found)["dual"] is False
    assert "Weigh every label" in asked[0].messages[-1].content
    met = await held(
        Script({**turns, "B1": turn(20, 20, 20, 20, 20)}),
        initial="duality",
        stop={"max_rounds": 1},
    )
    assert outcome(met)["dual"] is True


async def test_baselines_are_requests_of_their_own():
    answer = {"reason": "r", "distribution": turn(0, 0, 20, 80, 0)["distributions"]["the text"]}
    script = Script({"A1": AGREED, "B1": AGREED, "one shot": answer})
    found = await held(script, baselines=["one_shot", "mean_of_two", "self_consistency"])
    for name in ("one_shot", "mean_of_two", "self_consistency"):
        row = outcome(found, name)
        assert (row["status"], row["label"]) == ("answer", "weakly positive")
    assert outcome(found, "mean_of_two")["answers"] == 2
    # As many answers as the dialogue's two turns took tokens.
    spent = outcome(found)["generated_tokens"]
    each = outcome(found, "one_shot")["generated_tokens"]
    assert outcome(found, "self_consistency")["answers"] == round(spent / each)
    asked = [r for r in script.asked if "one shot" in r.address]
    assert all("argued so far" not in r.messages[-1].content for r in asked)
    addresses = [r.address for r in script.asked]
    assert len(addresses) == len(set(addresses))


async def test_a_baseline_without_percentages_is_a_failure_not_a_label():
    answer = {"reason": "r", "distribution": dict.fromkeys(FIVE.names, 0)}
    found = await held(
        Script({"A1": AGREED, "B1": AGREED, "one shot": answer}), baselines=["one_shot"]
    )
    row = outcome(found, "one_shot")
    assert (row["status"], row["label"]) == ("failed", None)


async def test_the_case_for_the_editor_locates_its_passages():
    found = await held(Script({"A1": AGREED, "B1": AGREED}))
    case = json.loads(outcome(found)["remediation"])
    assert case["action"] == "show both with a note"
    assert case["findings"][0]["passage_at"] == ITEM.text.index("call the bill a scandal")


async def test_a_rubric_rates_whole_turns():
    found = await held(
        Script({"A1": AGREED, "B1": AGREED}, scores=lambda prompt: 10), crit={"form": "rubric"}
    )
    one = rows(found, "rounds")[0]
    assert (one["crit_a"], one["crit_b"]) == (1.0, 1.0)
    assert rows(found, "arguments")[0]["own"] is None


async def test_positions_are_rated_by_both_and_measured_position_by_position():
    def both(mine, theirs):
        return {
            "arguments": turn(0, 0, 100, 0, 0)["arguments"],
            "distributions": {
                "A's position": turn(*mine)["distributions"]["the text"],
                "B's position": turn(*theirs)["distributions"]["the text"],
            },
        }

    turns = {
        "A1": both((0, 0, 100, 0, 0), (0, 0, 0, 0, 100)),
        "B1": both((100, 0, 0, 0, 0), (0, 0, 100, 0, 0)),
    }
    found = await held(
        Script(turns),
        rates="positions",
        positions=["the mayor's view", "the critics' view"],
        stop={"max_rounds": 1},
    )
    one = rows(found, "rounds")[0]
    # Two steps apart on each position.
    assert one["wd"] == pytest.approx(2.0)
    assert len(outcome(found)["distributions"]) == 2


async def test_scores_that_are_none_fail_the_dialogue():
    class Broken(Script):
        def _text(self, request):
            return "hm" if "/crit/" in request.address else super()._text(request)

    row = outcome(await held(Broken({"A1": AGREED, "B1": AGREED})))
    assert row["status"] == "failed"
    assert "did not parse: 'hm'" in row["failure"]
