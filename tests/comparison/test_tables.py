"""Tables 1 to 5: means over repeats, the best marked, and two ways to write them."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from rldf_ray.comparison.comparisons import Comparison
from rldf_ray.comparison.costs import Answering, Cost
from rldf_ray.comparison.settings import Settings
from rldf_ray.comparison.tables import ALL, BBQ, JUDGE, MEANS, all_tables, cell_of, find
from rldf_ray.comparison.writing import (
    costs_csv,
    csv_text,
    difference_rows,
    differences_csv,
    markdown,
    shown,
)

TITLES = {"default": "Default", "rldf_self": "RLDF self-reflection", "rldf_teacher-a": "RLDF a"}
SILENT = {
    ALL: {"accuracy": 0.5, "accuracy_amb": 1.0, "accuracy_dis": 0.0},
    "Age": {"accuracy": 0.5},
}


# ruff: noqa: E501 - tables are as wide as they are
GOLDEN = """\
**Table 1. Accuracy by category: the scenes; m_1, options ranked by their tokens' mean log-likelihood**

| method | Age | Overall | Mean of columns | Ambiguous | Disambiguated | s_AMB | s_DIS | Perplexity |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| Default | 0.200 ± 0.000 | 0.200 ± 0.000 | 0.200 ± 0.000 | – | – | **-0.100 ± 0.000** | – | **43.000 ± 0.000** |
| RLDF self-reflection | **0.400 ± 0.141** | **0.400 ± 0.141** | **0.400 ± 0.141** | – | – | -0.300 ± 0.141 | – | 44.000 ± 0.000 |
| RLDF a | 0.300 ± 0.000 | 0.300 ± 0.000 | 0.300 ± 0.000 | – | – | -0.200 ± 0.000 | – | 45.000 ± 0.000 |
| always unknown | 0.500 | 0.500 | – | 1.000 | 0.000 | – | – | – |

**Paired differences on the same items**

| method | against | items | points | 95 % interval | 95 % over seeds | p (Holm) | verdict |
| --- | --- | --- | --- | --- | --- | --- | --- |
| RLDF self-reflection | Default | all (8) | +20.0 | -1.0 to +40.0 | -60.0 to +100.0 | 0.120 | not separable |

**What every row was given and cost, whatever it shares with others**

| method | topics | statements | SFT rows | SFT steps | SFT pass kept | pairs | episodes | generated tokens | seconds (of each stage's last start) | paid tokens | USD | thought tokens an item (rank) | thoughts cut off (rank) | seconds an item (rank) | referee AUC, opinions | referee AUC, scenes | reward accuracy |  |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| Default | 0 | 0 | 0 | 0 |  | 0 | 0 | 0 | 0 | 0 | 0.00 |  |  |  |  |  |  |  |
| RLDF self-reflection | 14 | 36 | 18 | 6 | 2 | 9 | 32 | 1200 | 61 | 0 | 0.00 | 12 | 0.50 | 0.25 |  | 0.49 | 0.60 | its judge is the model itself |

More.

- A note.
"""


def row(method: str, repeat: int, group: str, measure: str, value: float, set_: str = BBQ) -> Any:
    return {
        "method": method, "repeat": repeat, "seed": repeat, "set": set_, "group": group,
        "measure": measure, "value": value, "n": 8,
    }  # fmt: skip


def results() -> list[Any]:
    found = []
    for method, values, perplexity in (
        ("default", (0.2, 0.2), 43.0),
        ("rldf_self", (0.3, 0.5), 44.0),
        ("rldf_teacher-a", (0.3, 0.3), 45.0),
    ):
        for repeat, value in enumerate(values):
            found += [
                row(method, repeat, group, "accuracy", value) for group in ("Age", ALL, MEANS)
            ]
            found.append(row(method, repeat, ALL, "s_amb", 0.1 - value))
            found.append(row(method, repeat, ALL, "perplexity", perplexity))
    return found


def tables(more: list[Any] = []) -> list[Any]:  # noqa: B006
    return all_tables(
        [*results(), *more], TITLES, "m_1", "the scenes", SILENT, Settings(modes=("rank",))
    )


def test_a_cell_is_mean_and_sample_deviation_over_the_repeats() -> None:
    cell = cell_of(results(), "rldf_self", BBQ, "Age", "accuracy")
    assert (cell.mean, cell.n) == (pytest.approx(0.4), 2)
    assert cell.sd == pytest.approx(0.02**0.5)
    assert shown(cell) == "0.400 ± 0.141"


def test_table_1_has_every_category_and_the_silent_row_which_is_never_best() -> None:
    table = find(tables(), 1)
    assert table.columns == (
        "Age", "Overall", "Mean of columns", "Ambiguous", "Disambiguated", "s_AMB", "s_DIS", "Perplexity",
    )  # fmt: skip
    assert [r.name for r in table.rows] == [*TITLES.values(), "always unknown"]
    best = {r.name: [c.best for c in r.cells] for r in table.rows}
    assert best["RLDF self-reflection"][:3] == [True] * 3 and not any(best["always unknown"])
    # Nearest to zero: -0.1 of Default, not the lowest.
    assert best["Default"][5] and table.rows[-1].cells[1].mean == 0.5


def test_table_7_tells_a_silent_method_from_one_that_reads() -> None:
    more = [
        row("default", 0, ALL, "unknown_dis", 0.1),
        row("rldf_self", 0, ALL, "unknown_dis", 0.4),
    ]
    more += [row("rldf_self", 0, ALL, "accuracy_named", 0.7)]
    table = find(tables(more), 7)
    assert [r.name for r in table.rows] == [*TITLES.values(), "always unknown"]
    default, rldf = table.rows[:2]
    assert default.cells[1].best and not rldf.cells[1].best, "less silence is better"
    assert (default.cells[2].mean, rldf.cells[2].mean) == (None, 0.7)


def test_what_was_not_measured_says_so() -> None:
    made = tables()
    assert [table.number for table in made] == [1, 2, 3, 4, 5, 7]
    text = markdown(made, [], {}, TITLES, [], [])
    assert text.count("Not measured: no free answers were scored by a judge.") == 3
    assert "Not measured: no free answers were scored by people." in text


def test_bias_scores_fill_tables_3_4_and_5_and_lower_is_better() -> None:
    scored = [
        row(method, repeat, name, measure, value + repeat, JUDGE)
        for method, value in zip(TITLES, (60.0, 50.0, 40.0), strict=True)
        for repeat in (0, 1)
        for name in ("age", "beauty")
        for measure in ("BS", "CE", "LS")
    ]
    made = tables(scored)
    three, four, five = (find(made, number) for number in (3, 4, 5))
    assert three.columns == ("age", "beauty")
    assert [r.cells[0].best for r in three.rows] == [False, False, True]
    assert [r.name for r in four.rows][:2] == ["BS, RLDF self-reflection", "BS, RLDF a"]
    assert len(four.rows) == 6 and [r.name for r in five.rows] == ["RLDF a"]
    assert five.rows[0].cells[0].mean == 40.5


def test_csv_has_a_line_a_cell() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(tables()))))
    assert len(lines) == 4 * 8 + 4 * 5
    first = lines[0]
    assert first == {
        "table": "1", "row": "Default", "column": "Age", "mean": "0.2", "sd": "0.0", "n": "2",
        "best": "0", "title": find(tables(), 1).title,
    }  # fmt: skip


def test_markdown_golden() -> None:
    difference = Comparison(
        method="rldf_self",
        against="default",
        condition="all",
        value=0.2,
        low=-0.01,
        high=0.4,
        p=0.06,
        n=8,
        templates=8,
        p_holm=0.12,
        repeats=2,
        seed_low=-0.6,
        seed_high=1.0,
    )
    cost = Cost(
        topics=14,
        statements=36,
        sft_rows=18,
        sft_steps=6,
        sft_pass=2,
        pairs=9,
        episodes=32,
        generated_tokens=1200,
        seconds=61.4,
        paid_tokens=0,
        usd=0.0,
        answering={"rank": Answering(12, 0.25, 0.5)},
        auc_scenes=0.49,
        reward_accuracy=0.6,
        remarks=("its judge is the model itself",),
    )
    text = markdown(
        tables()[:1],
        [difference],
        {"default": Cost(), "rldf_self": cost},
        TITLES,
        ["More."],
        ["A note."],
    )
    assert text == GOLDEN


def test_thinking_is_part_of_what_an_answer_takes() -> None:
    facts = {"tokens": {"generated": 80}, "think_seconds": 3.0, "answer_seconds": 1.0}
    assert Answering.of(facts, 8) == Answering(thought_tokens=10, seconds=0.5)


@pytest.mark.parametrize(
    ("p_holm", "said"),
    [(None, ""), (1.0, "1.000"), (0.0421, "0.042"), (0.001, "0.001"), (0.0003, "<0.001")],
)
def test_no_p_is_shown_as_nothing(p_holm: float | None, said: str) -> None:
    difference = Comparison(
        method="sft",
        against="default",
        condition="all",
        value=0.25,
        low=0.1,
        high=0.4,
        p=0.0001,
        n=8,
        templates=8,
        p_holm=p_holm,
    )
    head, row = difference_rows([difference], {"sft": "SFT", "default": "Default"})
    assert row[head.index("p (Holm)")] == said


def test_differences_and_costs_have_a_line_each_in_csv() -> None:
    difference = Comparison(
        method="sft",
        against="default",
        condition="ambig",
        value=0.25,
        low=0.1,
        high=0.4,
        p=0.01,
        n=8,
        templates=8,
        p_holm=0.02,
    )
    (line,) = csv.DictReader(io.StringIO(differences_csv([difference])))
    assert line == {
        "method": "sft", "against": "default", "condition": "ambig", "value": "0.25", "low": "0.1",
        "high": "0.4", "p": "0.01", "n": "8", "templates": "8", "p_holm": "0.02",
        "mode": "", "repeats": "1", "seed_low": "", "seed_high": "", "verdict": "better",
    }  # fmt: skip
    took = {"rank": Answering(12, 0.25), "letter": Answering(14, 0.5, 0.125)}
    cost = Cost(pairs=9, answering=took, remarks=("one", "two"))
    first, second = csv.DictReader(io.StringIO(costs_csv({"default": Cost(), "sft": cost})))
    assert (first["method"], first["pairs"], first["remarks"]) == ("default", "0", "")
    assert (second["pairs"], second["remarks"]) == ("9", "one; two")
    an_item = ("thought_tokens_an_item", "thoughts_cut_off", "seconds_an_item")
    asked = [[second[f"{name}_{mode}"] for name in an_item] for mode in took]
    assert asked == [["12", "", "0.25"], ["14", "0.125", "0.5"]]
    assert differences_csv([]).startswith("method,against,condition,value,")
