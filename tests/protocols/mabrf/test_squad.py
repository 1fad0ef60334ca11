"""SQuAD v2: the published metrics by hand on every edge case, the arms, what is found."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from rldf_ray.errors import UserError
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.reading import NOT_DRAWN, read_items
from rldf_ray.protocols.mabrf.squad.data import read_squad
from rldf_ray.protocols.mabrf.squad.metrics import exact, f1, normalised
from rldf_ray.protocols.mabrf.summary import summary
from tests.protocols.mabrf.script import Given, Script, held, hit, settings, tables_of

SHARED = Path(__file__).parents[4] / "shared/data/squad/dev_12_articles.json.gz"

# prediction, golds, EM, F1: as the published script gives them.
CASES = [
    ("the Normans!", ["Normans"], 1, 1),
    ("A cat, an owl", ["cat owl"], 1, 1),
    ("", [], 1, 1),
    ("", ["Paris"], 0, 0),
    ("Paris", [], 0, 0),
    ("the", [], 1, 1),
    ("the", ["a"], 1, 1),
    ("Paris", ["the", "Paris"], 1, 1),
    ("in Paris", ["Paris"], 0, 2 / 3),
    ("Paris Paris", ["Paris"], 0, 2 / 3),
    ("London", ["Paris", "London town"], 0, 2 / 3),
    ("1,000", ["1000"], 1, 1),
    ("it's", ["its"], 1, 1),
    ("10th-century", ["10th century"], 0, 0),
    ("Ångström", ["ångström"], 1, 1),
    ("a b c d", ["b d e"], 0, 2 * (2 / 3) * (2 / 3) / (4 / 3)),
    ("theatre", ["atre"], 0, 0),
    ("“quoted”", ["quoted"], 0, 0),
]


@pytest.mark.parametrize(("said", "golds", "em", "score"), CASES)
def test_metrics_as_published(said, golds, em, score):
    assert exact(said, golds) == em
    assert f1(said, golds) == pytest.approx(score)


def test_normalising():
    assert normalised(" The  quick,\tbrown-fox; an A ") == "quick brownfox"


def squad(path, **more):
    data = {
        "version": "v2.0",
        "data": [
            {
                "title": "Tea",
                "paragraphs": [
                    {
                        "context": "Tea is drunk hot.",
                        "qas": [
                            {
                                "id": "1",
                                "question": "How is tea drunk?",
                                "answers": [{"text": "hot", "answer_start": 13}] * 2,
                                "is_impossible": False,
                            },
                            {
                                "id": "2",
                                "question": "Who sells it?",
                                "answers": [],
                                "plausible_answers": [{"text": "Tea", "answer_start": 0}],
                                "is_impossible": True,
                            },
                        ],
                    }
                ],
            }
        ],
        **more,
    }
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_the_published_form_is_read(tmp_path):
    one, two = read_squad(squad(tmp_path / "dev.json"))
    assert (one.golds, one.title, one.group, one.category) == (("hot",), "Tea", "Tea", "answerable")
    assert (two.golds, two.category) == ((), "unanswerable")
    zipped = tmp_path / "dev.json.gz"
    zipped.write_bytes(gzip.compress((tmp_path / "dev.json").read_bytes()))
    assert read_squad(zipped) == [one, two]
    drawn = read_items(settings(kind="squad", data=str(zipped), per_category=1), 1)
    assert (len(drawn), drawn.left_out) == (1, {NOT_DRAWN: 1})
    with pytest.raises(UserError, match="no file of SQuAD v2"):
        read_squad(squad(tmp_path / "bad.json", data=[{"title": "x"}]))


@pytest.mark.parametrize("marked", [{}, {"is_impossible": False}])
def test_a_question_without_answers_that_is_not_marked_is_refused(tmp_path, marked):
    asked = [{"id": "7", "question": "Who?", "answers": [], **marked}]
    paragraphs = [{"context": "Tea is drunk hot.", "qas": asked}]
    path = squad(tmp_path / "test.json", data=[{"title": "Tea", "paragraphs": paragraphs}])
    with pytest.raises(UserError, match=r"1 of 1 questions have no `answers`.*'7'; allowed: "):
        read_squad(path)


@pytest.mark.skipif(not SHARED.exists(), reason="SQuAD is not there")
def test_twelve_articles():
    items = read_squad(SHARED)
    assert len(items) == 4449
    assert len({item.group for item in items}) == 12
    sample = read_items(settings(kind="squad", data=str(SHARED), per_category=10), 1)
    assert len(sample) == 120 and sample.left_out == {NOT_DRAWN: 4329}
    # Always answering nothing is right exactly where there is no answer.
    nothing = sum(exact("", item.golds) for item in items) / len(items)
    assert nothing == sum(not item.golds for item in items) / len(items)


ITEM = MabrfItem(
    item_id="1",
    group="Tea",
    title="Tea",
    category="answerable",
    context="Tea is drunk hot.",
    question="How is tea drunk?",
    golds=("hot",),
)
NONE = MabrfItem(
    item_id="2",
    group="Milk",
    title="Milk",
    category="unanswerable",
    context="Milk is white.",
    question="Who sells it?",
)


def reply(answer, answerable=True):
    return json.dumps({"answerable": answerable, "answer": answer})


SAID = {
    "closed/reader": reply("cold"),
    "context/reader": reply("hot"),
    "given/search/reader": reply("", answerable=False),
    "given/search+context/reader": reply("hot"),
    "groups": json.dumps({"groups": []}),
    "given/look up/queries": json.dumps({"queries": ["how tea is drunk"]}),
    "given/look up/summary": "Facts: tea is drunk hot [1].",
}


async def test_five_arms_and_what_each_reader_is_given():
    search = Given({"how tea is drunk": [hit("Tea", ITEM.context), hit("Tee", "Tea is a leaf.")]})
    script = Script(SAID)
    found = await held(script, ITEM, search, kind="squad")
    said = {row["arm"]: row["prediction"] for row in found.tables["outcomes"]}
    assert said == {
        "empty": "",
        "closed": "cold",
        "context": "hot",
        "search, given": "",
        "search+context, given": "hot",
    }
    rows = {row["arm"]: row for row in found.tables["outcomes"]}
    assert rows["search, given"]["gold_found"] is True
    assert rows["context"]["gold_found"] is None
    assert ITEM.context not in script.prompts("closed/reader")[0]
    assert "tea is drunk hot [1]" in script.prompts("given/search/reader")[0]
    assert ITEM.context not in script.prompts("given/search/reader")[0]
    both = script.prompts("given/search+context/reader")[0]
    assert both.index("tea is drunk hot [1]") < both.index(ITEM.context)


async def test_queries_are_written_from_the_question_unless_the_plan_shows_its_paragraph():
    search = Given({"how tea is drunk": [hit("Tee", "Tea is a leaf.")]})
    script = Script(SAID)
    await held(script, ITEM, search, kind="squad")
    assert ITEM.question in script.prompts("given/look up/queries")[0]
    assert ITEM.context not in script.prompts("given/look up/queries")[0]
    shown = Script(SAID)
    await held(shown, ITEM, search, kind="squad", squad={"queries_from": "paragraph"})
    assert ITEM.context in shown.prompts("given/look up/queries")[0]


@pytest.mark.parametrize(
    ("query", "facts", "told"),
    [
        ("how tea is drunk", "Facts: none.", (False, False)),
        ("Is tea drunk HOT?", "Facts: none.", (True, False)),
        ("how tea is drunk", "Facts: it is a hot drink [1].", (False, True)),
        ("how hotels serve tea", "Facts: hotter [1].", (False, False)),
    ],
)
async def test_an_answer_that_queries_or_the_summary_tell_is_counted(query, facts, told):
    said = {
        **SAID,
        "given/look up/queries": json.dumps({"queries": [query]}),
        "given/look up/summary": facts,
    }
    search = Given({query: [hit("Tee", "Tea is a leaf.")]})
    found = await held(Script(said), ITEM, search, kind="squad")
    row = {row["arm"]: row for row in found.tables["outcomes"]}["search, given"]
    assert (row["answer_in_queries"], row["answer_in_summary"]) == told
    assert row["answer_in_hits"] is False
    given = settings(kind="squad", searches={"given": "ddgs"})
    report = summary([ITEM], tables_of(found), given, 1)
    (table,) = [table for table in report.tables if table.name == "retrieval"]
    shares = [f"{float(one):.3f} of 1" for one in (told[0], False, told[1])]
    assert table.rows[0][-3:] == shares and table.columns[-3] == "answer in the queries"


async def test_of_a_hit_counts_what_was_shown():
    long = hit("Tea", f"{'Tea is drunk. ' * 60}At last: hot.")
    search = Given({"how tea is drunk": [long]})
    for tokens, there in ((16, False), (400, True)):
        found = await held(Script(SAID), ITEM, search, kind="squad", loop={"hit_tokens": tokens})
        row = {row["arm"]: row for row in found.tables["outcomes"]}["search, given"]
        assert row["answer_in_hits"] is there


async def test_no_answer_is_told_where_there_is_none_or_the_question_holds_it():
    search = Given({"how tea is drunk": [hit("Tee", "Tea is a leaf.")]})
    for item in (NONE, replace(ITEM, question="Is tea drunk hot?")):
        found = await held(Script(SAID), item, search, kind="squad")
        for row in found.tables["outcomes"]:
            assert row["answer_in_queries"] is None and row["answer_in_summary"] is None


async def test_a_piece_of_the_item_s_own_paragraph_is_found_too():
    search = Given({"how tea is drunk": [hit("Tea", f"Of drinks.\n\n{ITEM.context} So is milk.")]})
    found = await held(Script(SAID), ITEM, search, kind="squad")
    rows = {row["arm"]: row for row in found.tables["outcomes"]}
    assert rows["search, given"]["gold_found"] is True


async def test_each_arm_with_search_costs_what_was_looked_up_and_its_own_reply():
    search = Given({"how tea is drunk": [hit("Tea", ITEM.context)]})
    found = await held(Script(SAID), ITEM, search, kind="squad")
    calls = {row["arm"]: row["calls"] for row in found.tables["outcomes"]}
    # Queries, summary and reply.
    assert calls == {
        "empty": 0,
        "closed": 1,
        "context": 1,
        "search, given": 3,
        "search+context, given": 3,
    }


async def test_a_summary_that_is_empty_is_counted_and_read_as_without_search():
    search = Given({"how tea is drunk": [hit("Tea", ITEM.context)]})
    script = Script({**SAID, "given/look up/summary": ""})
    found = await held(script, ITEM, search, kind="squad")
    assert script.prompts("given/search/reader") == script.prompts("closed/reader")
    given = settings(kind="squad", searches={"none": "none", "given": "ddgs"})
    report = summary([ITEM], tables_of(found), given, 1)
    # Asked for once for both arms with search.
    assert report.notes[0] == "Format failures: 1 of 6 replies did not parse: 1 of 1 summaries."


async def test_the_item_s_own_article_can_be_left_out():
    search = Given({"how tea is drunk": [hit("Tea", ITEM.context), hit("Tee", "Tea is a leaf.")]})
    found = await held(Script(SAID), ITEM, search, kind="squad", leave_out_gold=True)
    rows = {row["arm"]: row for row in found.tables["outcomes"]}
    assert rows["search, given"]["gold_found"] is False
    assert rows["search, given"]["hits"] == 1


async def test_what_is_found_of_one_s_own_article_does_not_take_a_place():
    own = [hit("tea", f"{ITEM.context} {n}") for n in range(5)]
    search = Given({"how tea is drunk": [*own, hit("Tee", "Tea is a leaf.")]})
    found = await held(Script(SAID), ITEM, search, kind="squad", leave_out_gold=True)
    rows = {row["arm"]: row for row in found.tables["outcomes"]}
    assert rows["search, given"]["hits"] == 1


async def test_every_query_is_made_and_a_summary_does_not_see_the_paragraph():
    queries = [f"query number {n}" for n in range(5)]
    search = Given({query: [hit(query, f"Text {query}.")] for query in queries})
    said = {**SAID, "given/look up/queries": json.dumps({"queries": queries})}
    script = Script(said)
    await held(script, ITEM, search, kind="squad")
    assert [query for query, _ in search.asked] == queries
    (prompt,) = script.prompts("given/look up/summary")
    assert ITEM.context not in prompt and ITEM.question in prompt
    assert not script.prompts("groups")


async def test_a_reply_that_is_none_is_wrong_and_never_no_answer():
    found = await held(Script({**SAID, "context/reader": "hot"}), ITEM, Given(), kind="squad")
    rows = {row["arm"]: row for row in found.tables["outcomes"]}
    assert rows["context"]["prediction"] is None
    given = settings(kind="squad", searches={"none": "none", "given": "ddgs"})
    report = summary([ITEM], tables_of(found), given, 1)
    table = next(t for t in report.tables if t.name == "reader")
    context = next(row for row in table.rows if row[0] == "context")
    assert context[2:4] == ["1", "0.000"]
    assert report.notes[0] == (
        "Format failures: 1 of 5 replies did not parse: 1 of 1 replies (context)."
    )


async def test_every_arm_is_read_against_the_empty_one():
    both = [
        await held(Script(SAID), item, Given({"how tea is drunk": [hit("T")]}), kind="squad")
        for item in (ITEM, NONE)
    ]
    given = settings(kind="squad", searches={"none": "none", "given": "ddgs"})
    report = summary([ITEM, NONE], tables_of(*both), given, 1)
    assert report.notes[0] == "Format failures: none of 12 replies."
    assert "The empty arm: 2 questions of 2 articles, 1 with an answer" in report.notes[1]
    assert "nothing has 50.0 EM" in report.notes[1]
    assert report.notes[2].startswith("given: 2 queries were written and 2 searches made; 0 failed")
    table = next(t for t in report.tables if t.name == "reader")
    assert {row[0] for row in table.rows} >= {"empty", "closed", "context"}
    for one in report.tables:
        assert all(len(row) == len(one.columns) for row in one.rows)
