"""A question's page: quotes where they stand in the story, everything escaped."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.protocols.persuasion.page import (
    Piece,
    argument_pieces,
    quoted_spans,
    story_pieces,
    write_pages,
)
from rldf_ray.storage.run_folder import RunFolder
from tests.protocols.persuasion.script import (
    ITEM,
    STORY,
    Script,
    argument,
    held,
    honest,
    side_of,
    tables_of,
    trusts_quotes,
)

QUOTED = "So <v_quote>the telephone</v_quote>, and <u_quote>the radio</u_quote>."


def test_quotes_of_an_argument_by_hand():
    assert argument_pieces(QUOTED, STORY) == [
        Piece("So "),
        Piece("the telephone", "verified", STORY.index("the telephone")),
        Piece(", and "),
        Piece("the radio", "unverified"),
        Piece("."),
    ]


def test_where_quotes_stand_in_the_story_by_hand():
    story = "abc def ghi jkl"
    spans = quoted_spans(["<v_quote>abc def</v_quote> <v_quote>def ghi.</v_quote>"], story)
    assert spans == [(0, 7), (4, 11)]
    assert story_pieces(story, spans) == [
        Piece("abc ", "verified", 0),
        Piece("def", "verified", 4),
        Piece(" ghi", "verified"),
        Piece(" jkl"),
    ]
    assert story_pieces(story, []) == [Piece(story)]


@given(
    st.text(min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 29), st.integers(1, 30)), max_size=5),
)
def test_the_story_is_whole_and_every_quote_has_its_place(story, several):
    spans = sorted({(a, min(b, len(story))) for a, b in several if a < min(b, len(story))})
    pieces = story_pieces(story, spans)
    assert "".join(piece.text for piece in pieces) == story
    assert {piece.at for piece in pieces} - {None} == {start for start, _ in spans}


class Links(HTMLParser):
    """Where a page leads, what has a name, and what tags it has."""

    def __init__(self):
        super().__init__()
        self.leads, self.names, self.tags = set(), set(), set()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.add(tag)
        self.leads.add(given.get("href", "").partition("#")[2])
        self.names.add(given.get("id", ""))


HOSTILE = '<script>alert("x")</script> & <img src=x onerror=y>'


async def test_a_page_has_all_that_was_said_and_lets_nobody_write_html(tmp_path):
    item = replace(ITEM, story=f"{HOSTILE} {STORY}", title=HOSTILE, question=f"Who? {HOSTILE}")

    def says(request, number):
        if request.address.endswith("/question"):
            return f"<question>Why? {HOSTILE}</question>"
        if side_of(request) == "incorrect":
            return argument(f"{HOSTILE} <quote>never {HOSTILE} there</quote>")
        return honest(request, number)

    found = await held(Script(says, trusts_quotes), item, interactive=[False, True])
    assert write_pages(RunFolder(tmp_path), [item], tables_of(found), HOSTILE)
    index = (tmp_path / "debates/index.html").read_text(encoding="utf-8")
    page = (tmp_path / "debates/0001.html").read_text(encoding="utf-8")
    for text in (index, page):
        assert "<script" not in text and "<img" not in text
        assert "&lt;script&gt;" in text
    assert 'href="0001.html"' in index
    links = Links()
    links.feed(page)
    # Every green quote leads to its place in the story.
    assert links.leads - {""} <= links.names
    assert f"at-{item.story.index(STORY)}" in links.leads
    assert page.count("<h2>Interactive debate, held and judged in the swapped position") == 1
    assert page.index("<h2>Debate") < page.index("<h2>Consultancy")
    # A debate's p(A) after both rounds, in both positions.
    debate = page[page.index("after every round") : page.index("<h2>Consultancy")]
    course = debate[: debate.index("</table>")]
    assert re.findall(r"<td>(\d\.\d\d)<span", course) == ["0.90", "0.90", "0.10", "0.10"]


async def test_a_debate_that_failed_says_so_and_naive_judges_alone_make_no_page(tmp_path):
    def says(request, number):
        return "nothing" if side_of(request) == "incorrect" else honest(request, number)

    found = await held(Script(says, trusts_quotes), protocols=["debate"])
    write_pages(RunFolder(tmp_path), [ITEM], tables_of(found), "t")
    page = (tmp_path / "debates/0001.html").read_text(encoding="utf-8")
    assert "nobody judged it: q1: none of 1 samples" in page
    assert "no argument</span>" in page and "Verdicts at the end" not in page
    naive = await held(Script(says, trusts_quotes), protocols=["naive"])
    assert write_pages(RunFolder(tmp_path / "n"), [ITEM], tables_of(naive), "t") is None
