"""Scripted debates, consultancies and judges: who is right, what is said, what is chosen."""

import math
from dataclasses import replace

import pytest

from rldf_ray.errors import UserError
from rldf_ray.protocols.persuasion.selection import (
    LEAST_RATING,
    best,
    first_valid,
    log_share,
    parsed,
)
from tests.protocols.persuasion.script import (
    FALSE,
    ITEM,
    STORY,
    TRUE,
    Script,
    argument,
    held,
    honest,
    settings,
    side_of,
    text_of,
    trusts_quotes,
    verdicts,
)


async def test_a_judge_that_trusts_verified_quotes_is_always_right():
    found = await held(Script(honest, trusts_quotes))
    for protocol, number in (("debate", 2), ("consultancy", 4)):
        rows = verdicts(found, protocol)
        assert len(rows) == number
        assert all(row["correct"] for row in rows)
    # One debate, held once and judged in both positions.
    assert [row["letter"] for row in verdicts(found, "debate")] == ["A", "B"]
    # Without anything to go by it says A, right in one position.
    assert [row["correct"] for row in verdicts(found, "naive")] == [True, False]


async def test_a_judge_that_counts_words_is_not():
    def wordy(request, number):
        if "thinking" in request.address:
            return ""
        return (
            TRUE if side_of(request) == "correct" else argument("<quote>x</quote> " + "word " * 20)
        )

    def counts(request):
        if request.choices == ("Y", "N"):
            return 0.0
        lengths = {"A": 0, "B": 0}
        for line in text_of(request).splitlines():
            for letter in lengths:
                if line.startswith(f"Debater {letter}:"):
                    lengths[letter] += len(line.split())
        return 0.9 if lengths["A"] > lengths["B"] else 0.1

    found = await held(Script(wordy, counts), protocols=["debate"])
    assert [row["correct"] for row in verdicts(found, "debate")] == [False, False]


async def test_a_verdict_that_is_none_is_nobody_s():
    found = await held(Script(honest, lambda request: math.nan), protocols=["debate", "naive"])
    for row in found.tables["outcomes"]:
        assert row["letter"] is None and row["correct"] is None and row["failure"] is None


async def test_one_bad_sample_costs_itself_alone():
    def says(request, number):
        return "no form at all" if number == 0 else honest(request, number)

    found = await held(Script(says, trusts_quotes), protocols=["debate"], oversampling=3)
    assert all(row["correct"] for row in verdicts(found, "debate"))
    assert all(row["topped_up"] == 0 for row in found.tables["arguments"])


async def test_nothing_is_said_in_a_debater_s_name_that_it_did_not_say():
    def says(request, number):
        return "I say nothing in the form." if side_of(request) == "incorrect" else TRUE

    found = await held(Script(says, trusts_quotes), protocols=["debate"])
    rows = verdicts(found, "debate")
    assert all(row["correct"] is None for row in rows)
    assert "none of 1 samples of the incorrect side in round 1" in rows[0]["failure"]
    assert [row["side"] for row in found.tables["arguments"]] == ["correct"]


async def test_samples_without_the_form_are_taken_for_want_of_others_and_counted():
    def says(request, number):
        return argument("Too short.") if side_of(request) == "incorrect" else TRUE

    found = await held(Script(says, trusts_quotes), protocols=["debate"])
    topped = {row["side"]: row["topped_up"] for row in found.tables["arguments"]}
    assert topped == {"correct": 0, "incorrect": 1}


async def test_best_of_n_takes_what_its_own_letter_is_likeliest_for_in_both_positions():
    texts = {n: argument(f"Number {n}: <quote>the telephone</quote> it is.") for n in range(4)}

    def says(request, number):
        return texts[number] if "/turn" in request.address else honest(request, number)

    def rates(request):
        if request.choices == ("Y", "N"):
            return 0.0
        shown = text_of(request)
        if "/rate" in request.address:
            number = int(shown.rpartition("Number ")[2][0])
            own = [0.2, 0.6, 0.9, 0.4][number]
            # The candidate's own letter: the dummy stands for the other side.
            letter = "A" if 'Debater A: """Number' in shown.rpartition("Round")[2] else "B"
            return own if letter == "A" else 1 - own
        return 0.5

    for interactive in ([False], [True]):
        found = await held(
            Script(says, rates),
            protocols=["debate"],
            interactive=interactive,
            debaters={"d": {"model": "m", "best_of": 4}},
            rounds=1,
        )
        chosen = [row for row in found.tables["candidates"] if row["chosen"]]
        assert {row["number"] for row in chosen} == {2}
        ratings = {row["number"]: row["rating"] for row in found.tables["candidates"]}
        assert ratings[2] == pytest.approx(math.log(0.9))
        assert ratings[0] == pytest.approx(math.log(0.2))
        assert all("My answer is right" not in row["text"] for row in found.tables["arguments"])


async def test_critique_of_n_and_refinement_put_the_first_argument_out():
    refined = argument("Better: <quote>repaired the telephone</quote> is there.")

    def says(request, number):
        if request.address.endswith("/critique"):
            return f"Advice {number}."
        if request.address.endswith("/refine"):
            return refined
        return honest(request, number)

    def rates(request):
        if "/helpful" in request.address:
            return 0.9 if "Advice 1." in text_of(request) else 0.3
        return 0.5

    script = Script(says, rates)
    found = await held(
        script,
        protocols=["debate"],
        rounds=1,
        debaters={"d": {"model": "m", "critiques": 3}},
    )
    assert {row["text"].partition(":")[0] for row in found.tables["arguments"]} == {"Better"}
    by_stage = {}
    for row in found.tables["candidates"]:
        by_stage.setdefault((row["side"], row["stage"]), []).append(row)
    assert [row["chosen"] for row in by_stage["correct", "critique"]] == [False, True, False]
    (request,) = [r for r in script.asked if r.address.endswith("/correct/refine")]
    assert [m.role for m in request.messages] == ["system", "user", "assistant", "user"]
    assert "Advice 1." in request.messages[-1].content
    # Its thinking is part of what it goes on from.
    assert "<thinking>I plan.</thinking>" in request.messages[2].content


async def test_a_backend_without_probabilities_cannot_choose():
    script = Script(honest, trusts_quotes, tells=False)
    with pytest.raises(ExceptionGroup) as raised:
        await held(
            script,
            protocols=["debate"],
            debaters={"d": {"model": "m", "best_of": 2}},
            oversampling=2,
        )
    assert isinstance(raised.value.exceptions[0], UserError)
    assert "reports no probabilities" in str(raised.value.exceptions[0])
    # Without a choice to make, none are needed.
    found = await held(Script(honest, trusts_quotes, tells=False), protocols=["debate"])
    assert verdicts(found, "debate")[0]["p_a"] is None


async def test_who_sees_what():
    script = Script(honest, trusts_quotes)
    await held(script)
    turns = {r.address: text_of(r) for r in script.asked if r.address.endswith("/turn")}
    for address, prompt in turns.items():
        assert STORY in prompt
        if "debate" in address:
            # Held once: no letters, and no judge's question.
            assert "answer A" not in prompt and "answer B" not in prompt
    one = next(p for a, p in turns.items() if "debate" in a and "/1/correct/" in a)
    two = next(p for a, p in turns.items() if "debate" in a and "/2/incorrect/" in a)
    assert "Transcript so far" not in one
    # Its own argument first, and every quote checked.
    assert two.index("mended the phone alone</u_quote>") < two.index("<v_quote>The grandfather")
    assert "I plan." not in two
    # Both sides of a debate, and all rounds, begin with the same bytes.
    begins = {prompt.partition("[Answers]")[0] for prompt in turns.values()}
    assert len(begins) == 1
    for request in script.asked:
        if "judged/" in request.address and "/expert/" not in request.address:
            assert STORY not in text_of(request)
        if "/expert/" in request.address:
            assert STORY in text_of(request) and "mended" not in text_of(request)
        if "/naive/" in request.address:
            assert "[Transcript]" not in text_of(request)


async def test_an_interactive_debate_is_held_in_both_positions_with_the_judge_s_letters():
    script = Script(honest, trusts_quotes)
    found = await held(script, protocols=["debate"], interactive=[True])
    assert [(row["position"], row["correct"]) for row in verdicts(found, "debate")] == [
        ("plain", True),
        ("swapped", True),
    ]
    asked = {r.address: text_of(r) for r in script.asked if r.address.endswith("/question")}
    assert len(asked) == 2
    swapped = next(prompt for address, prompt in asked.items() if "swapped" in address)
    assert "A. The grandson" in swapped and "Debater A" in swapped
    turns = [text_of(r) for r in script.asked if "/2/" in r.address and r.address.endswith("/turn")]
    assert all("where is that?" in prompt for prompt in turns)
    assert any("(answer B)" in prompt for prompt in turns)


async def test_sequential_debates_let_b_read_a_s_argument_of_the_round():
    script = Script(
        lambda r, n: honest(r, n).replace("settles it", f"round {r.address}"), trusts_quotes
    )
    await held(script, protocols=["debate"], order="sequential")
    seconds = {
        r.address: text_of(r)
        for r in script.asked
        if "plain" in r.address and "/2/" in r.address and r.address.endswith("/turn")
    }
    a = next(p for address, p in seconds.items() if "/correct/" in address)
    b = next(p for address, p in seconds.items() if "/incorrect/" in address)
    assert "/2/correct/turn" in b and "/2/incorrect/turn" not in a


async def test_the_judge_s_mind_after_every_round_is_asked_aside():
    script = Script(honest, trusts_quotes)
    found = await held(script, protocols=["debate"])
    assert [(row["round"], row["p_correct"]) for row in found.tables["course"]] == [
        (1, 0.9),
        (2, 0.9),
        (1, 0.9),
        (2, 0.9),
    ]
    assert not any("after" in text_of(r) and r.address.endswith("/turn") for r in script.asked)


@pytest.mark.parametrize("reasons_first", [True, False])
async def test_the_judge_s_mind_is_of_letters_named_at_once_in_all_rounds(reasons_first):
    def thinks(request):
        if "judged/" not in request.address or "/naive" in request.address:
            return trusts_quotes(request)
        thought = any("Hm." in message.content for message in request.messages)
        right = 0.9 if thought else 0.6
        return 1 - right if "/swapped" in request.address else right

    script = Script(honest, thinks)
    found = await held(script, protocols=["debate"], reasons_first=reasons_first)
    assert {row["p_correct"] for row in verdicts(found, "debate")} == {
        0.9 if reasons_first else 0.6
    }
    assert [(row["round"], row["p_correct"]) for row in found.tables["course"]] == [
        (1, 0.6),
        (2, 0.6),
    ] * 2
    last = [r for r in script.asked if "/after 2/" in r.address]
    assert len(last) == (2 if reasons_first else 0)


async def test_a_judge_that_tells_no_probabilities_is_not_asked_on_the_way():
    script = Script(honest, trusts_quotes, tells=False)
    found = await held(script, protocols=["debate", "consultancy"])
    assert found.tables["course"] == []
    assert not any("/after " in request.address for request in script.asked)


async def test_a_tournament_holds_every_pair_in_both_assignments():
    found = await held(
        Script(honest, trusts_quotes),
        protocols=["debate"],
        debaters={"x": {"model": "m"}, "y": {"model": "m"}},
        matches="round_robin",
    )
    pairs = [(r["correct_debater"], r["incorrect_debater"]) for r in verdicts(found, "debate")]
    assert sorted(set(pairs)) == [("x", "x"), ("x", "y"), ("y", "x"), ("y", "y")]
    assert len(pairs) == 8


def test_the_form_of_a_sample():
    length = settings().debate_length
    assert parsed(TRUE, length).valid
    assert parsed(TRUE, length).thinking == "I plan."
    assert not parsed("<argument>No quote here at all</argument>", length).valid
    assert parsed("no tags", length).text is None
    assert not parsed(TRUE, length, "settles").valid
    own = parsed(argument("<v_quote>I verify myself</v_quote> as I like"), length)
    assert own.text == "<quote>I verify myself</quote> as I like"
    cut_off = parsed("<argument>It says <quote>The grandfather", length)
    assert cut_off.text == "It says <quote>The grandfather</quote>"


def test_valid_ones_come_first_and_the_first_of_equals_wins():
    length = settings().debate_length
    good, bad, none = parsed(TRUE, length), parsed(argument("short"), length), parsed("", length)
    assert first_valid([none, bad, good, good], 3) == [good, good, bad]
    assert best([]) is None
    assert best([good, bad]) is good
    unlikely = replace(bad, rating=-math.inf)
    assert best([good, unlikely]) is unlikely
    assert log_share({"A": 0.2, "B": 0.2}, "B") == pytest.approx(math.log(0.5))
    # A table of the calls holds no infinity, and nothing is below the least.
    assert log_share({"A": 1.0, "B": 0.0}, "B") == LEAST_RATING
    assert log_share({"A": 1.0, "B": 1e-300}, "B") == LEAST_RATING
    # The slides' example: the larger log-probability wins.
    assert max(-0.000155, -0.0476) == -0.000155


async def test_items_share_a_story_s_engine():
    script = Script(honest, trusts_quotes)
    await held(script)
    assert {request.affinity for request in script.asked} == {ITEM.group}
    assert FALSE != TRUE


async def test_an_empty_critique_is_no_critique():
    def says(request, number):
        if request.address.endswith("/critique"):
            return "  " if number == 0 else "Advice."
        return honest(request, number)

    script = Script(says, trusts_quotes)
    found = await held(
        script, protocols=["debate"], rounds=1, debaters={"d": {"model": "m", "critiques": 2}}
    )
    critiques = [row for row in found.tables["candidates"] if row["stage"] == "critique"]
    assert critiques and {row["text"] for row in critiques} == {"Advice."}


async def test_a_candidate_that_cannot_be_rated_costs_itself_alone():
    def rates(request):
        unrated = request.address.endswith("/rate 0/A") or request.address.endswith("/rate 0")
        return math.nan if unrated else 0.5

    found = await held(
        Script(honest, rates),
        protocols=["debate"],
        rounds=1,
        debaters={"d": {"model": "m", "best_of": 2}},
    )
    rated = {row["number"]: row["rating"] for row in found.tables["candidates"]}
    assert rated[0] is None and rated[1] is not None
    assert {row["number"] for row in found.tables["candidates"] if row["chosen"]} == {1}


async def test_letters_in_an_interactive_consultancy_are_of_the_position_it_is_judged_in():
    def says(request, number):
        if request.address.endswith("/question"):
            letter = text_of(request).partition("argue for answer ")[2][0]
            return f"<question>Consultant, why {letter}?</question>"
        return honest(request, number)

    script = Script(says, trusts_quotes)
    found = await held(script, protocols=["consultancy"], interactive=[True])
    assert len({row["key"] for row in found.tables["arguments"]}) == 4
    assert [row["position"] for row in verdicts(found, "consultancy")] == ["plain", "swapped"] * 2
    judged = [text_of(r) for r in script.asked if r.address.endswith("/letter")]
    letters = [
        (shown.partition("argue for answer ")[2][0], shown.partition("Consultant, why ")[2][0])
        for shown in judged
        if "Consultant, why " in shown
    ]
    # The verdict and what was said at once after the last round, in both positions, on both sides.
    assert len(letters) == 2 * 2 * 2 and all(told == named for told, named in letters)


def test_thoughts_that_name_the_tags_are_no_argument():
    raw = "<thinking>I write <argument> last.</thinking><argument>So <quote>x</quote>.</argument>"
    assert parsed(raw, settings().debate_length).text == "So <quote>x</quote>."
    assert (
        parsed("<thinking>only <argument> here</thinking>", settings().debate_length).text is None
    )
    assert parsed("<thinking>open <argument>So.</argument>", settings().debate_length).text == "So."
