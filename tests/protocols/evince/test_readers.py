"""Texts as they come: one's own files, BiasLab, Budak's table, MBIC; and what is refused."""

import gzip
import json
from pathlib import Path

import pytest

from rldf_ray.errors import UserError
from rldf_ray.protocols.evince.items import EvinceItem, cut, item_table, items_of
from rldf_ray.protocols.evince.reading import read_items, reader_names
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.summary import summary
from tests.protocols.evince.script import settings
from tests.protocols.evince.tables import answered

SHARED = Path(__file__).parents[4] / "shared/data/news"


def read(path, **changes):
    return read_items(settings(data=str(path), **changes), 1)


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_readers_are_found_by_being_there():
    assert reader_names() == ["biaslab", "budak", "mbic", "plain"]


def test_one_s_own_lines(tmp_path):
    path = lines(
        tmp_path / "texts.jsonl",
        {"id": "a", "text": "One.", "given": "neutral", "title": "T", "source": "S", "other": 1},
        {"text": "Two.", "given": {"ann": "positive", "ben": ""}, "target": "the mayor"},
        {"text": "Three."},
    )
    one, two, three = read(path, targets=["X"])
    assert (one.item_id, one.given, one.title) == ("a", {"given": "neutral"}, "T")
    assert (two.item_id, two.given, two.target) == ("texts-2", {"ann": "positive"}, "the mayor")
    assert three.given == {}


def test_every_text_once_for_each_target(tmp_path):
    path = lines(tmp_path / "t.jsonl", {"id": "a", "text": "One."}, {"id": "b", "text": "Two."})
    items = read(path, targets=["X", "Y"])
    assert [item.item_id for item in items] == ["a, X", "a, Y", "b, X", "b, Y"]
    assert [item.text_id for item in items] == ["a", "a", "b", "b"]


def test_labels_of_several_targets_say_which_they_are_of(tmp_path):
    rows = [
        {"id": "a", "text": "x", "given": {"X": {"ann": "neutral"}, "Y": "positive"}},
        {"id": "b", "text": "x", "given": None},
    ]
    found = read(lines(tmp_path / "t.jsonl", *rows), targets=["X", "Y"])
    assert [item.given for item in found] == [{"ann": "neutral"}, {"given": "positive"}, {}, {}]
    flat = lines(tmp_path / "f.jsonl", {"id": "a", "text": "x", "given": {"ann": "neutral"}})
    with pytest.raises(UserError, match="line 1: `given` does not say toward whom"):
        read(flat, targets=["X", "Y"])


def test_labels_whose_names_are_all_targets_are_of_these(tmp_path):
    row = {"id": "a", "text": "x", "given": {"X": "neutral", "Y": "positive"}}
    path = lines(tmp_path / "t.jsonl", row)
    found = read(path, targets=["X", "Y"])
    assert [item.given for item in found] == [{"given": "neutral"}, {"given": "positive"}]
    # With others among them, they are people.
    assert read(path, targets=["X"])[0].given == {"X": "neutral", "Y": "positive"}
    table = tmp_path / "t.csv"
    table.write_text("id,text,given:X,given:Y\na,x,neutral,positive\n", encoding="utf-8")
    found = read(table, targets=["X", "Y"])
    assert [item.given for item in found] == [{"given": "neutral"}, {"given": "positive"}]


def test_labels_toward_others_alone_are_refused(tmp_path):
    given = {"Y": {"ann": "neutral"}, "Z": "positive"}
    path = lines(tmp_path / "t.jsonl", {"id": "a", "text": "x", "given": given})
    with pytest.raises(UserError, match=r"line 1: `given` has labels toward Y, Z; allowed: X; "):
        read(path, targets=["X"])
    with pytest.raises(UserError, match="allowed: none, as the text has no target"):
        read(path, scale="biased")
    # A study may be about some of a file's targets.
    assert read(path, targets=["X", "Y"])[1].given == {"ann": "neutral"}


def test_a_scale_with_a_target_needs_one(tmp_path):
    path = lines(tmp_path / "t.jsonl", {"id": "a", "text": "x"})
    with pytest.raises(UserError, match=r"asks about a target, and .* has texts without one"):
        read(path)
    assert len(read(path, scale="biased")) == 1


def test_one_s_own_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(
        b"\xef\xbb\xbfid,text,given,given:ben,note\r\n"
        b'a,"One, and\r\nmore.",neutral,positive,x\r\nb,Two.,,,\r\n'
    )
    one, two = read(path, targets=["X"])
    assert one.given == {"given": "neutral", "ben": "positive"}
    assert one.text == "One, and\r\nmore."
    assert two.given == {}
    zipped = tmp_path / "t.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert [i.given for i in read(zipped, targets=["X"])] == [one.given, {}]
    semicolons = tmp_path / "s.csv"
    semicolons.write_text("id;text;given\na;One.;neutral\n", encoding="utf-8")
    assert read(semicolons, targets=["X"])[0].given == {"given": "neutral"}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": "a", "text": "One.", "given": "sideways"}, "'sideways'; the scale 'toward' has"),
        ({"id": "a", "text": ""}, "line 1: text"),
        ({"id": "a"}, "line 1: text"),
        ({"id": "a", "text": "   "}, "'a' has no text"),
    ],
)
def test_what_is_no_item_is_refused(tmp_path, row, words):
    with pytest.raises(UserError, match=words):
        read(lines(tmp_path / "t.jsonl", row))


def test_files_that_are_not_there_or_empty_or_twice(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match=r"holds no text"):
        read(lines(tmp_path / "empty.jsonl"))
    double = lines(tmp_path / "d.jsonl", {"id": "a", "text": "x"}, {"id": "a", "text": "y"})
    with pytest.raises(UserError, match="'a' is given to two items"):
        read(double)
    with pytest.raises(UserError, match=r"settings\.reader='nyt'"):
        read(double, reader="nyt")
    with pytest.raises(UserError, match=r"settings\.scale='stars'"):
        read(double, scale="stars")
    table = tmp_path / "t.csv"
    table.write_text("id,body\n1,x\n", encoding="utf-8")
    with pytest.raises(UserError, match="no column 'text'; it has id, body"):
        read(table)
    table.write_bytes("id,text\n1,caf\xe9\n".encode("latin-1"))
    with pytest.raises(UserError, match="is not UTF-8"):
        read(table)


def test_a_larger_sample_of_texts_holds_a_smaller(tmp_path):
    path = lines(tmp_path / "t.jsonl", *({"id": f"{n}", "text": "x"} for n in range(30)))
    few = {i.text_id for i in read(path, items=5, targets=["X", "Y"])}
    more = {i.text_id for i in read(path, items=12, targets=["X", "Y"])}
    assert len(few) == 5 and len(more) == 12 and few < more
    assert len(read(path, items=5, targets=["X", "Y"])) == 10
    # Whatever it is rated toward, and in whatever order the file has it.
    assert {i.text_id for i in read(path, items=5, targets=["Z"])} == few
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert {i.text_id for i in read(path, items=5, targets=["X"])} == few


def test_long_texts_are_cut_at_a_sentence_and_marked():
    item = EvinceItem(item_id="a", text_id="a", text="One two. Three four! Five six seven. Eight.")
    short = cut(item, 25)
    assert (short.text, short.truncated) == ("One two. Three four!", True)
    assert cut(item, 100) is item
    led = EvinceItem(item_id="a", text_id="a", text="\n" + "x" * 50)
    assert cut(led, 10).text == "x" * 10
    endless = EvinceItem(item_id="a", text_id="a", text="x" * 50)
    assert cut(endless, 10).text == "x" * 10


def test_items_come_back_from_their_table(tmp_path):
    path = lines(
        tmp_path / "t.jsonl",
        {"id": "a", "text": "One.", "given": {"ann": "neutral", "ben": "positive"}},
        {"id": "b", "text": "Two."},
    )
    items = read(path, targets=["X"])
    assert list(items_of(item_table(items))) == list(items)


def test_biaslab_as_published(tmp_path):
    path = tmp_path / "Batch.csv"
    header = "WorkerId,Input.docid,Input.title,Input.fullDoc,Answer.q1,Answer.q2\n"
    path.write_text(
        header
        + 'w1,d1,T,"<p>One &amp; two.</p> <p>Three.</p>",-5,-2.5\n'
        + 'w2,d1,T,"<p>One &amp; two.</p> <p>Three.</p>",0,5\n',
        encoding="utf-8",
    )
    democrats, republicans = read(path, reader="biaslab")
    assert democrats.text == "One & two.\nThree."
    # The sign of the answer toward Democrats is turned in the file.
    assert democrats.given == {"person 1": "weakly positive", "person 2": "negative"}
    assert republicans.given == {"person 1": "negative", "person 2": "neutral"}
    assert {democrats.text_id, republicans.text_id} == {"d1"}
    path.write_text(header + "w1,d1,T,<p>x</p>,4,0\n", encoding="utf-8")
    with pytest.raises(UserError, match="line 2: '4' is none of"):
        read(path, reader="biaslab")


def test_biaslab_wants_its_own_scale_and_targets(tmp_path):
    path = lines(
        tmp_path / "b.jsonl",
        {"id": "a", "text": "x", "toward_republicans": [0, 1], "toward_democrats": [-2, 2]},
    )
    (one,) = read(path, reader="biaslab", targets=["Democrats"])
    assert one.given == {"person 1": "negative", "person 2": "positive"}
    with pytest.raises(UserError, match="BiasLab has five steps"):
        read(path, reader="biaslab", scale="biased")
    with pytest.raises(UserError, match="'Greens'; BiasLab has Democrats, Republicans"):
        read(path, reader="biaslab", targets=["Greens"])
    bad = lines(
        tmp_path / "c.jsonl",
        {"id": "a", "text": "x", "toward_republicans": [3], "toward_democrats": [0]},
    )
    with pytest.raises(UserError, match=r"line 1: toward_republicans.0"):
        read(bad, reader="biaslab")


@pytest.mark.skipif(not SHARED.is_dir(), reason="BiasLab's articles are not there")
def test_biaslab_s_articles():
    items = read(SHARED / "biaslab.jsonl.gz", reader="biaslab")
    assert len(items) == 2 * 191
    assert all(len(item.given) == 2 for item in items)


BUDAK = "url\tq3\tperceived\tprimary.topic\tsecondary.topic\tdemocrat.vote\trepublican.vote\n"


def test_budak_s_table_with_texts_beside_it(tmp_path):
    path = tmp_path / "newsArticlesWithLabels.tsv"
    path.write_text(
        BUDAK
        + "http://n.com/a\tNews\t1\tDemocrat Scandals\tx\tSomewhatNegative\tNeutral\n"
        + "http://n.com/a\tNews\t0\tDemocrat Scandals\tx\tNegative\tPositive\n"
        + "http://n.com/b\tOpinion\t0\tDemocrat Scandals\tx\tNegative\tNeutral\n"
        + "http://n.com/c\tNews\t0\tEconomy\tx\tNegative\tNeutral\n"
        + "http://n.com/d\tNews\t0\tRepublican Scandals\tx\tNegative\tNeutral\n",
        encoding="utf-8",
    )
    with pytest.raises(UserError, match=r"texts.jsonl: no such file"):
        read(path, reader="budak")
    lines(
        tmp_path / "texts.jsonl",
        *({"url": f"http://n.com/{name}", "text": f"Text {name}."} for name in "abc"),
    )
    democrats, republicans = found = read(path, reader="budak")
    assert found.left_out == {
        "they are no news on a scandal of either party": 2,
        "texts.jsonl has no text of theirs": 1,
    }
    assert democrats.given == {
        "not shown the outlet": "negative",
        "shown the outlet": "weakly negative",
    }
    assert republicans.given["not shown the outlet"] == "positive"
    assert (democrats.source, democrats.category) == ("n.com", "Democrat Scandals")
    assert "/" not in democrats.item_id
    path.write_text(BUDAK + "u\tNews\t1\tEconomy\tx\tBad\tNeutral\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"line 2: democrat\.vote is 'Bad'"):
        read(path, reader="budak")


def test_mbic_s_camps(tmp_path):
    path = tmp_path / "mbic.csv"
    votes = [("One.", "Biased", -5)] * 3 + [("One.", "Non-biased", 4)] * 2
    votes += [("One.", "Biased", 9), ("One.", "Biased", 0), ("One.", "Biased", "")]
    votes += [("Two.", "Biased", -5)] * 3 + [("Two.", "Biased", 5)] * 2
    votes += [("Three.", "Biased", -3)] * 3 + [("Three.", "Non-biased", 3)] * 2
    votes += [("Three.", "Biased", 3)] * 2 + [("Three.", "Non-biased", 2.9)] * 5
    path.write_text(
        "text,label_bias,political_ideology,outlet\n"
        + "".join(f"{text},{label},{place},o\n" for text, label, place in votes),
        encoding="utf-8",
    )
    one, three = items = read(path, reader="mbic", scale="biased")
    assert items.left_out == {
        "their raters are of no camp": 7,
        "fewer than 3 people of a camp judged their sentence": 5,
    }
    assert one.given == {"liberals": "biased", "conservatives": "not biased"}
    assert one.votes == {"liberals": {"biased": 3}, "conservatives": {"not biased": 2, "biased": 1}}
    # A camp that is split evenly has no label, and its share all the same.
    assert three.given == {"liberals": "biased"}
    assert three.votes["conservatives"] == {"not biased": 2, "biased": 2}
    assert list(items_of(item_table(items))) == list(items)
    found = answered(list(items), dict.fromkeys(("mbic-1", "mbic-3")), load_scale("biased"))
    said = summary(items, found.tables, settings(reader="mbic", scale="biased"), 7)
    assert "Rows of the data that are left out: 7 as their raters are of no camp; " in said.notes[1]
    few = "text,label_bias,political_ideology\nOne.,Biased,5\n"
    path.write_text(few, encoding="utf-8")
    with pytest.raises(UserError, match=r"holds no text .*; 1 rows left out as fewer than 3"):
        read(path, reader="mbic", scale="biased")
    with pytest.raises(UserError, match="MBIC's is `biased`"):
        read(path, reader="mbic")
