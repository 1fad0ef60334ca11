"""Tables 1 and 2 in form: everybody's labels, distances by hand, S against each person."""

from dataclasses import replace

import pytest

from rldf_ray.protocols.evince.figures import raters_figure, triangle_figure
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.label_tables import labels_tables, letters, pairs
from rldf_ray.protocols.evince.scale import load_scale
from tests.protocols.evince.tables import answered

FIVE = load_scale("toward")
LABELS = dict(zip("abcde", FIVE.names, strict=True))


def item(name: str, given: str, **more: str) -> EvinceItem:
    """An item whose people are those of `given`: "ann a ben c"."""
    words = given.split()
    labels = {who: LABELS[letter] for who, letter in zip(words[::2], words[1::2], strict=True)}
    return EvinceItem(item_id=name, text_id=name, text="x", given=labels, **more)


def table(items: list[EvinceItem], ours: str):
    """The one table, where the dialogues came to these letters; "-" is a failed one."""
    labels = {one.item_id: LABELS.get(letter) for one, letter in zip(items, ours, strict=True)}
    (made,) = labels_tables(answered(items, labels, FIVE))
    assert all(len(row) == len(made.columns) for row in made.rows)
    return made


def distances(made) -> dict[str, str]:
    return {row[0]: row[-2] for row in made.rows}


def test_letters_and_whose_distances():
    assert letters(["ann", "ben", "cem", "dan"]) == {
        "ann": "D",
        "ben": "R",
        "cem": "P3",
        "dan": "P4",
    }
    assert pairs([]) == []
    assert pairs(["D"]) == [("D", "S")]
    assert pairs(["D", "R"]) == [("D", "R"), ("D", "S"), ("S", "R")]
    assert pairs(["D", "R", "P3"])[3:] == [("S", "P3")]


def test_one_person():
    made = table([item("t1", "ann a"), item("t2", "ann c")], "bc")
    assert made.columns[-2] == "DS"
    assert made.rows[0][2:7] == ["D", "S", "", "", ""]
    found = distances(made)
    assert (found["t1"], found["t2"], found["total"]) == ("1", "0", "1")
    assert found["S and D"].startswith("0.500 apart; kappa ")


def test_two_people_as_the_paper_writes_them():
    made = table([item("t1", "ann a ben c"), item("t2", "ann d ben d")], "be")
    assert made.columns[-2] == "DR, DS, SR"
    assert distances(made)["t1"] == "2, 1, 1"
    assert distances(made)["total"] == "2, 2, 2"
    assert "D is ann; R is ben; S is the dialogue's label" in made.notes[0]


def test_everybody_of_three_and_more_is_there():
    items = [item("t1", "ann a ben c cem e"), item("t2", "ann b"), item("t3", "cem c dan d")]
    made = table(items, "cbd")
    assert made.columns[-2] == "DR, DS, SR, SP3, SP4"
    assert made.rows[0][2:7] == ["D", "", "R S", "", "P3"]
    assert made.rows[2][2:7] == ["", "", "P3", "P4 S", ""]
    found = distances(made)
    assert found["t1"] == "DR 2, DS 2, SR 0, SP3 2"
    assert found["t2"] == "DS 0"
    assert found["t3"] == "SP3 1, SP4 0"
    assert found["total"] == "DR 2 (1), DS 2 (2), SR 0 (1), SP3 3 (2), SP4 0 (1)"
    assert found["S and P3"].startswith("1.500 apart; kappa ")
    assert found["S and P4"] == "0.000 apart; kappa –"
    assert [row[1] for row in made.rows[-4:]] == ["n = 2", "n = 1", "n = 2", "n = 1"]
    assert "P3 is cem; P4 is dan; " in made.notes[0]


def test_weighted_kappa_with_each_person():
    items = [item(f"t{n}", f"ann {one} ben c") for n, one in enumerate("aaeeaaee")]
    found = distances(table(items, "aaecaaec"))
    # Squared steps, mean: 4 / 4 seen. By chance, as Ann is at a or e in half each:
    # (0 + 16) / 2 from a, in half; (16 + 0) / 2 from e and (4 + 4) / 2 from c, in a quarter each.
    assert f"apart; kappa {1 - 1 / 7:.3f} (" in found["S and D"]


def test_intervals_resample_articles():
    items = [item(f"t{n}", f"ann {one}") for n, one in enumerate("aaaaaacccccc")]
    alone = distances(table(items, "c" * 12))["S and D"]
    articles = [replace(one, text_id=one.text_id if n > 5 else "t0") for n, one in enumerate(items)]
    grouped = distances(table(articles, "c" * 12))["S and D"]
    assert alone[:7] == grouped[:7] == "1.000 ("
    assert alone != grouped
    few = [replace(one, text_id=f"t{n % 5}") for n, one in enumerate(items)]
    assert distances(table(few, "c" * 12))["S and D"].startswith("1.000 apart; kappa 0.000")


def test_an_item_whose_dialogue_failed_keeps_its_people():
    made = table([item("t1", "ann a ben c"), item("t2", "ann a ben b")], "c-")
    assert made.rows[1][2:7] == ["D", "R", "", "", ""]
    found = distances(made)
    assert (found["t2"], found["total"]) == ("1, –, –", "3, 2 (1), 0 (1)")


def test_without_people_the_dialogues_labels_alone():
    made = table([item("t1", ""), item("t2", "")], "c-")
    assert [row[0] for row in made.rows] == ["t1"]
    assert made.columns[-2] == "distances"


def test_targets_have_tables_of_their_own():
    items = [item("t1, X", "ann a", target="X"), item("t1, Y", "cem b", target="Y")]
    results = answered(items, {"t1, X": LABELS["b"], "t1, Y": LABELS["b"]}, FIVE)
    one, two = labels_tables(results)
    assert (one.name, two.name) == ("labels-1", "labels-2")
    assert [row[0] for row in one.rows] == ["t1, X", "total", "S and D"]
    # Cem rated Y alone.
    assert [row[0] for row in two.rows] == ["t1, Y", "total", "S and R"]


def test_figures_have_everybody_of_few_and_all_of_many_together():
    few = [item("t1", "ann a ben c"), item("t2", "ben b cem c"), item("t3", "ben b cem c")]
    labels = {one.item_id: LABELS["c"] for one in few}
    assert raters_figure(answered(few, labels, FIVE)) is not None
    # Ben and Cem rated two texts together, Ann and Ben one.
    triangle = triangle_figure(answered(few, labels, FIVE))
    assert triangle is not None
    drawn = _titles(triangle)
    assert drawn == ["all: 2 between people,\n2 and 0 to the dialogue"]
    many = [item("t1", " ".join(f"p{n} a" for n in range(9)))]
    assert _legend(raters_figure(answered(many, {"t1": LABELS["c"]}, FIVE))) == [
        "people",
        "dialogue",
    ]
    assert _legend(raters_figure(answered(few, labels, FIVE))) == ["ann", "ben", "cem", "dialogue"]


def _axes(figure):
    from matplotlib.figure import Figure

    empty = Figure()
    figure.draw(empty)
    return empty.axes


def _titles(figure) -> list[str]:
    return [axes.get_title() for axes in _axes(figure)]


def _legend(figure) -> list[str]:
    return [text.get_text() for text in _axes(figure)[-1].get_legend().get_texts()]


@pytest.mark.parametrize("scale", ["biased", "toward"])
def test_groups_stand_by_their_shares(scale):
    chosen = load_scale(scale)
    first, last = chosen.names[0], chosen.names[-1]
    one = EvinceItem(
        item_id="t1",
        text_id="t1",
        text="x",
        given={"liberals": last},
        votes={"liberals": {last: 4, first: 1}, "conservatives": {first: 2, last: 2}},
    )
    results = answered(
        [one], {"t1": last}, chosen, distributions=[[0.3, *[0.0] * (len(chosen.names) - 2), 0.7]]
    )
    (made,) = labels_tables(results)
    row = made.rows[0]
    assert row[2] == "R 2/4"
    assert row[1 + len(chosen.names)] == "D 4/5 R 2/4 S"
    # Shares .8 and .5 against the probability .7, times the width of the scale.
    width = chosen.width
    expected = [abs(0.8 - 0.5) * width, 0.1 * width, 0.2 * width]
    assert row[-2] == ", ".join(f"{d:.4g}" for d in expected)
    assert [each[0] for each in made.rows[1:]] == ["total", "S and D", "S and R"]
    assert "kappa –" in made.rows[3][-2]
    assert "shares" in made.notes[1]


def test_kappa_s_n_is_given_where_it_is_another():
    biased, plain = load_scale("biased").names
    votes = [{biased: 3}, {biased: 2, plain: 2}]
    items = [
        EvinceItem(
            item_id=f"t{n}",
            text_id=f"t{n}",
            text="x",
            given={} if len(each) > 1 else {"liberals": biased},
            votes={"liberals": each},
        )
        for n, each in enumerate(votes)
    ]
    results = answered(items, dict.fromkeys(("t0", "t1"), biased), load_scale("biased"))
    (made,) = labels_tables(results)
    assert made.rows[-1][1] == "n = 2"
    assert made.rows[-1][-2].endswith("apart; kappa –, n = 1")
