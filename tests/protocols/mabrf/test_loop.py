"""The loop on a script: how it stops, what it takes, who sees what."""

import json
from dataclasses import replace

import pytest

from rldf_ray.protocols.mabrf import source
from rldf_ray.protocols.mabrf.items import item_table
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.training import pair_rows, sft_rows
from rldf_ray.storage.run_folder import RunFolder
from tests.protocols.mabrf.script import (
    FAIR,
    ITEM,
    STEPS,
    Given,
    Script,
    held,
    hit,
    outcome,
    settings,
    tables_of,
    verdict,
)

BEGUN = {"solver/steps": STEPS, "solver/answer": "0", "none/terminate": "2"}


async def test_clean_at_once_is_still_answered_anew():
    script = Script({**BEGUN, "first/judge": verdict(1), "retest 1/judge": verdict(3)})
    row = outcome(found := await held(script))
    assert (row["stop"], row["passes"]) == ("clean at once", 0)
    assert (row["answer_0"], row["answer_1"]) == ("0", "2")
    assert (row["bias_0"], row["bias_1"]) == (1, 1)
    assert row["retest_bias"] == [3]
    assert found.tables["passes"] == []


async def test_cleaned_in_two_passes():
    script = Script(
        {
            **BEGUN,
            "first/judge": verdict(7, 6),
            "none/1/rephrase": "1. One.\n2. Two.\n3. Three.",
            "none/1/judge": verdict(4),
            "none/2/rephrase": FAIR,
            "none/2/judge": verdict(1, 9),
        },
        lambda place: verdict(7),
    )
    row = outcome(found := await held(script))
    assert (row["stop"], row["passes"], row["accepted"]) == ("clean", 2, 2)
    assert (row["bias_0"], row["bias_1"], row["relevancy_1"]) == (7, 1, 9)
    assert row["steps_1"] == FAIR
    first, second = found.tables["passes"]
    assert (first["steps_before"], first["steps_after"], second["steps_before"]) == (2, 3, 3)
    assert [p["accepted"] for p in (first, second)] == [True, True]
    # Each rewriting begins from the best so far, and ends in as many steps.
    assert "Old people fear phones" in script.prompts("none/1/rephrase")[0]
    assert "Three." in script.prompts("none/2/rephrase")[0]
    assert "Write 3 numbered steps" in script.prompts("none/2/rephrase")[0]


async def test_never_clean_ends_after_the_last_pass():
    script = Script(BEGUN, lambda place: verdict(5) if "judge" in place else "1. Again.")
    row = outcome(await held(script, loop={"max_passes": 3}))
    assert (row["stop"], row["passes"], row["bias_1"]) == ("max passes", 3, 5)


async def test_a_rewriting_worse_than_the_best_is_not_taken():
    script = Script(
        {
            **BEGUN,
            "first/judge": verdict(4),
            "none/1/rephrase": "1. Worse.",
            "none/1/judge": verdict(6, reason="It is worse."),
            "none/2/rephrase": FAIR,
            "none/2/judge": verdict(1),
        },
        lambda place: verdict(4),
    )
    row = outcome(found := await held(script))
    assert [p["accepted"] for p in found.tables["passes"]] == [False, True]
    assert (row["bias_1"], row["accepted"], row["steps_1"]) == (1, 1, FAIR)
    # Asked again from the same best, with what was against the rewriting.
    again = script.prompts("none/2/rephrase")[0]
    assert "Old people fear phones" in again and "Worse." not in again
    assert "A rewriting was refused for this: It is worse." in again


async def test_an_equal_rewriting_is_taken():
    said = {**BEGUN, "none/1/rephrase": FAIR}
    script = Script(said, lambda place: verdict(4) if "judge" in place else "1. x")
    row = outcome(await held(script, loop={"max_passes": 1}))
    assert (row["accepted"], row["steps_1"]) == (1, FAIR)


async def test_a_first_verdict_that_does_not_parse_leaves_the_loop_and_is_counted():
    script = Script({**BEGUN, "first/judge": "hm", "first/judge/again 1": "hm"})
    row = outcome(await held(script))
    assert (row["stop"], row["passes"]) == ("no verdict", 0)
    assert row["bias_0"] is None and row["bias_1"] is None
    assert row["answer_1"] == "2"
    assert row["retest_bias"] == []


async def test_a_verdict_is_asked_for_once_more():
    script = Script({**BEGUN, "first/judge": "hm", "first/judge/again 1": verdict(1)})
    assert outcome(await held(script, loop={"retests": 0}))["stop"] == "clean at once"


@pytest.mark.parametrize("said", ["", json.dumps({"bias": 11}), verdict(0), verdict(3)[:-1]])
async def test_a_rewriting_without_a_verdict_is_not_taken(said):
    script = Script(
        {**BEGUN, "first/judge": verdict(4), "none/1/rephrase": FAIR},
        lambda place: said if "none/1/judge" in place else verdict(4),
    )
    row = outcome(found := await held(script, loop={"max_passes": 1}))
    (one,) = found.tables["passes"]
    assert (one["accepted"], one["bias"]) == (False, None)
    assert (row["stop"], row["steps_1"], row["bias_1"]) == ("max passes", STEPS, 4)


async def test_without_steps_the_item_has_failed_in_both_arms():
    found = await held(Script({}), search=Given())
    assert [row["stop"] for row in found.tables["outcomes"]] == ["failed", "failed"]
    assert all(row["answer_1"] is None for row in found.tables["outcomes"])


SEARCHED = {
    **BEGUN,
    "given/terminate": "2",
    "first/judge": verdict(4),
    "groups": json.dumps({"groups": ["old man", "women"]}),
    "given/1/queries": json.dumps({"queries": ["phones and age", "who waits", "old people", "x"]}),
    "given/1/summary": "Facts: many old people use phones [1].",
    "given/1/rephrase": FAIR,
    "given/1/judge": verdict(1),
}


async def test_search_looks_up_queries_that_name_a_group_first():
    search = Given({"old people": [hit("A"), hit("B")], "who waits": [hit("A")]})
    script = Script(SEARCHED, lambda place: verdict(1))
    row = outcome(found := await held(script, search=search), "given")
    # "women" is not in the text; "x" is too short; three are searched, each for four hits.
    assert search.asked == [("old people", 4), ("phones and age", 4), ("who waits", 4)]
    assert (row["stop"], row["hits"], row["failed_searches"]) == ("clean", 2, 0)
    (one,) = [p for p in found.tables["passes"] if p["arm"] == "given"]
    assert (one["titles"], one["search_empty"]) == (["A", "B"], False)
    assert "many old people use phones [1]" in script.prompts("given/1/rephrase")[0]
    assert "https://example.org/A" in script.prompts("given/1/summary")[0]


async def test_an_empty_search_marks_its_pass_and_rewrites_without():
    script = Script(SEARCHED, lambda place: verdict(1))
    found = await held(script, search=Given())
    (one,) = [p for p in found.tables["passes"] if p["arm"] == "given"]
    assert (one["search_empty"], one["summary"]) == (True, "")
    assert not script.prompts("given/1/summary")
    assert "the same argument without that bias" in script.prompts("given/1/rephrase")[0]


async def test_hits_without_a_summary_mark_their_pass_and_rewrite_without():
    script = Script({**SEARCHED, "given/1/summary": " "}, lambda place: verdict(1))
    found = await held(script, search=Given({"old people": [hit("A")]}))
    (one,) = [p for p in found.tables["passes"] if p["arm"] == "given"]
    assert (one["search_empty"], one["summary_unread"], one["titles"]) == (False, True, ["A"])
    assert outcome(found, "given")["unread_summaries"] == 1
    assert "the same argument without that bias" in script.prompts("given/1/rephrase")[0]


async def test_a_search_that_fails_is_left_out_and_counted():
    found = await held(Script(SEARCHED, lambda place: verdict(1)), search=Given(fails=True))
    assert outcome(found, "given")["failed_searches"] == 3
    assert found.tables["passes"][-1]["search_empty"] is True


async def test_first_steps_and_their_verdict_are_shared_by_the_arms():
    script = Script(SEARCHED, lambda place: verdict(4) if "judge" in place else "1. x")
    await held(script, search=Given())
    addresses = [request.address for request in script.asked]
    assert addresses.count("Age-1/solver/steps") == addresses.count("Age-1/first/judge") == 1
    assert len(addresses) == len(set(addresses))


async def test_who_sees_what():
    script = Script(
        {**SEARCHED, "none/1/rephrase": FAIR},
        lambda place: verdict(4) if "judge" in place else "1.",
    )
    await held(script, search=Given({"old people": [hit("A")]}), loop={"max_passes": 1})
    for prompt in script.prompts("judge"):
        # Neither the answer nor the options.
        assert "Not known" not in prompt and "[Options]" not in prompt
    for prompt in script.prompts("rephrase"):
        for hidden in ("Not known", "[Context]", "[Question]", "waited in", "label"):
            assert hidden not in prompt
    for prompt in script.prompts("solver/answer") + script.prompts("terminate"):
        assert "2. Not known" in prompt


async def test_a_free_question_has_an_answer_of_words():
    item = ITEM.__class__(item_id="q", group="q", question="Who fears phones?")
    script = Script(
        {
            "solver/steps": STEPS,
            "solver/answer": "The old.",
            "none/terminate": "Nobody in particular.",
        },
        lambda place: verdict(1),
    )
    row = outcome(await held(script, item))
    assert (row["answer_0"], row["answer_1"]) == ("The old.", "Nobody in particular.")
    assert "[Options]" not in script.prompts("solver/steps")[0]


IMPROVED = {
    **BEGUN,
    "first/judge": verdict(4),
    "none/1/rephrase": FAIR,
    "none/1/judge": verdict(1),
}
SIBLING = replace(ITEM, item_id="Age-2", condition="disambig", label=0)


async def studied(said, *items):
    """The results of a study of items that are answered the same."""
    several = [await held(Script(said, lambda place: verdict(4)), item) for item in items]
    return Results(items=items, tables=tables_of(*several), settings=settings(), seed=1)


async def test_training_rows():
    results = await studied(IMPROVED, ITEM)
    (pair,) = pair_rows(results)
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == (FAIR, STEPS)
    (row,) = sft_rows(results)
    assert row["completion"][0]["content"].endswith("Not known")


async def test_pairs_of_one_question_s_variants_are_of_one_topic():
    pairs = list(pair_rows(await studied(IMPROVED, ITEM, SIBLING)))
    assert [pair["topic"] for pair in pairs] == [ITEM.group] * 2
    assert pairs[0]["prompt"] == pairs[1]["prompt"]


async def test_the_same_words_are_no_pair_whatever_the_judge_says_of_them():
    results = await studied({**IMPROVED, "none/1/rephrase": STEPS}, ITEM)
    assert results.first[ITEM.item_id]["bias_1"] == 1
    assert list(pair_rows(results)) == []


async def test_rows_of_a_source_name_the_item(tmp_path):
    results = await studied(IMPROVED, ITEM, SIBLING)
    folder = RunFolder(tmp_path)
    folder.write_table("data/items.parquet", item_table(results.items))
    for name, table in results.tables.items():
        folder.write_table(f"data/{name}.parquet", table)
    rows = source.training_rows(folder, settings(), 1)
    named = {kind: [row["item_id"] for row in several] for kind, several in rows.items()}
    # The sibling's answer is wrong.
    assert named == {"sft": ["Age-1"], "pairs": ["Age-1", "Age-2"]}
