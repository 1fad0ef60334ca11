"""Training rows: what was rated best against worst, and what was true and believed."""

import msgspec
import pytest

from rldf_ray.protocols.persuasion.finished import finished
from rldf_ray.protocols.persuasion.prompt import render
from rldf_ray.protocols.persuasion.study import TABLES
from rldf_ray.protocols.persuasion.training import (
    PromptsChangedError,
    believed,
    pair_rows,
    sft_rows,
    training_data,
)
from rldf_ray.protocols.study import Held
from tests.protocols.persuasion.script import (
    ITEM,
    TRUE,
    Script,
    argument,
    held,
    honest,
    settings,
    side_of,
    tables_of,
    text_of,
    trusts_quotes,
)

TEXTS = [argument(f"Number {n}: <quote>the telephone</quote> it is.") for n in range(3)]


def numbered(request, number):
    if request.address.endswith("/critique"):
        return f"Advice {number}."
    if request.address.endswith("/refine"):
        return TEXTS[number].replace("Number", "Better")
    return TEXTS[number] if request.address.endswith("/turn") else honest(request, number)


def by_number(request):
    """Candidate 1 is the best and candidate 2 the worst, in turns, critiques and rewritings."""
    shown = text_of(request)
    if "/helpful" in request.address:
        return [0.5, 0.9, 0.2][int(shown.rpartition("Advice ")[2][0])]
    if "/rate" in request.address:
        # In the last round its own line; beside it the fixed claim, or in sequence an argument.
        plain = "swapped" not in request.address
        letter = "A" if (side_of(request) == "correct") == plain else "B"
        name = "Consultant" if "consultancy" in request.address else f"Debater {letter}"
        said = shown.rpartition("Round")[2].rpartition(f'{name}: """')[2]
        rating = [0.5, 0.9, 0.2][int(said.partition(": <v_quote>")[0][-1])]
        return rating if letter == "A" else 1 - rating
    return trusts_quotes(request)


async def data_of(script, item=ITEM, **changes):
    found = await held(script, item, **changes)
    return training_data([item], tables_of(found), settings(**changes))


@pytest.mark.parametrize("order", ["simultaneous", "sequential"])
@pytest.mark.parametrize("interactive", [False, True])
async def test_the_best_candidate_against_the_worst_of_every_choice(interactive, order):
    script = Script(numbered, by_number)
    changes = {
        "protocols": ["debate", "consultancy"],
        "interactive": [interactive],
        "order": order,
        "debaters": {"d": {"model": "m", "best_of": 3, "critiques": 3}},
    }
    data = await data_of(script, **changes)
    rows = list(pair_rows(data))
    # Each choice is rated: turns, critiques and rewritings of two rounds, of both sides.
    debates = 2 if interactive or order == "sequential" else 1
    consultancies = 4 if interactive else 2
    assert len(rows) == 3 * 2 * (2 * debates + consultancies)
    asked = [[(m.role, m.content) for m in r.messages] for r in script.asked if r.choices is None]
    for row in rows:
        assert [(m["role"], m["content"]) for m in row["prompt"]] in asked
        assert row["prompt"][0] == {"role": "system", "content": render("system")}
    debate = rows[: 3 * 2 * 2 * debates]
    told = {(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in debate}
    assert told == {
        (TEXTS[1], TEXTS[2]),
        ("Advice 1.", "Advice 2."),
        (TEXTS[1].replace("Number", "Better"), TEXTS[2].replace("Number", "Better")),
    }


async def test_where_there_is_no_choice_there_is_no_pair():
    assert list(pair_rows(await data_of(Script(honest, trusts_quotes)))) == []
    equal = {"debaters": {"d": {"model": "m", "best_of": 2}}}
    assert list(pair_rows(await data_of(Script(numbered, lambda request: 0.5), **equal))) == []


async def test_the_same_argument_after_other_thoughts_is_no_pair():
    def says(request, number):
        if request.address.endswith("/turn"):
            return argument(TEXTS[0], f"Thought {number}.")
        return honest(request, number)

    def wavers(request):
        return 0.5 + int(request.address[-1]) / 10 if "/rate " in request.address else 0.5

    changes = {"protocols": ["consultancy"], "debaters": {"d": {"model": "m", "best_of": 2}}}
    data = await data_of(Script(says, wavers), **changes)
    assert len({one["rating"] for several in data.candidates.values() for one in several}) > 1
    assert list(pair_rows(data)) == []


async def test_a_candidate_of_no_chance_at_all_is_the_worst_one(tmp_path):
    def rates(request):
        return float(request.address[-1] == "0") if "/rate " in request.address else 0.5

    changes = {"protocols": ["consultancy"], "debaters": {"d": {"model": "m", "best_of": 2}}}
    found = await held(Script(numbered, rates), **changes)
    # As a study that was cut off has it from its journal.
    tables = {name: msgspec.json.decode(msgspec.json.encode(found.tables[name])) for name in TABLES}
    data = training_data(
        [ITEM], tables_of(Held(turns=found.turns, tables=tables)), settings(**changes)
    )
    assert {row["rejected"][0]["content"] for row in pair_rows(data)} == {TEXTS[0], TEXTS[1]}


async def test_what_the_correct_side_says_and_the_judge_believes_is_a_row():
    script = Script(honest, trusts_quotes)
    rows = list(sft_rows(await data_of(script)))
    # Two rounds of the debate, and of the consultancy for the correct answer.
    assert len(rows) == 4
    assert {row["completion"][0]["content"] for row in rows} == {TRUE}
    asked = {r.address: [m.content for m in r.messages] for r in script.asked}
    first = [message["content"] for message in rows[0]["prompt"]]
    assert first in [asked[a] for a in asked if a.endswith("1/correct/turn")]


async def test_what_nobody_believes_is_none():
    def doubts(request):
        return 1 - trusts_quotes(request)

    rows = list(sft_rows(await data_of(Script(honest, doubts), protocols=["debate"])))
    assert rows == []


async def test_a_rewriting_is_what_was_said():
    changes = {"protocols": ["debate"], "debaters": {"d": {"model": "m", "critiques": 1}}}

    def says(request, number):
        if request.address.endswith("/refine") and side_of(request) == "correct":
            return TRUE.replace("settles", "ends")
        return honest(request, number)

    rows = list(sft_rows(await data_of(Script(says, trusts_quotes), **changes)))
    assert {row["completion"][0]["content"] for row in rows} == {TRUE.replace("settles", "ends")}
    assert {len(row["prompt"]) for row in rows} == {2}


async def test_belief_is_of_every_judge_and_of_both_positions():
    found = finished([ITEM], tables_of(await held(Script(honest, trusts_quotes))))
    (one,) = (d for d in found.values() if d.transcript.kind == "debate")
    assert believed(one)
    plain, swapped = one.verdicts

    def judged(*verdicts):
        return type(one)(
            **{name: getattr(one, name) for name in one.__slots__ if name != "verdicts"},
            verdicts=verdicts,
        )

    # .55 and .4 by a judge that likes A: it leans to the wrong answer, though one letter is right.
    assert not believed(judged({**plain, "p_correct": 0.55}, {**swapped, "p_correct": 0.4}))
    assert believed(judged({**plain, "p_correct": 0.75}, {**swapped, "p_correct": 0.4}))
    other = {**plain, "judge": "k", "p_correct": 0.2}
    assert not believed(judged(plain, swapped, other))
    # Without probabilities all letters have to be right.
    assert not believed(
        judged({**plain, "p_correct": None}, {**swapped, "p_correct": None, "correct": False})
    )
    assert believed(judged({**plain, "p_correct": None}, {**swapped, "p_correct": None}))


async def test_no_answer_stands_under_another_prompt():
    found = await held(Script(honest, trusts_quotes))
    other = settings(debate_length={"words": 9, "least": 3, "most": 30})
    with pytest.raises(PromptsChangedError, match="1/correct/turn is not what this version asks"):
        list(sft_rows(training_data([ITEM], tables_of(found), other)))


async def test_a_debate_that_failed_was_believed_by_nobody():
    def says(request, number):
        return "nothing" if side_of(request) == "incorrect" else TRUE

    data = await data_of(Script(says, trusts_quotes), protocols=["debate"])
    assert list(sft_rows(data)) == []
