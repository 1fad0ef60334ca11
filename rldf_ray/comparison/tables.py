"""Tables 1 to 5 as data: rows of cells with mean and standard deviation over the repeats.

1  accuracy, methods x categories                   results of the set "bbq"
2  self-reflection and teacher-student, by people   set "people", measures BS, CE, LS
3  bias score, methods x bias types                 set "answers", measure BS
4  self-reflection and teacher-student              set "answers", measures BS, CE, LS
5  bias score, teachers x bias types                set "answers", measure BS

and some of ours: 6, impartial answers, methods x bias types, set "multirole", where it was run; 7,
when a method says that something is not known, set "bbq"; 8 and 9, what 1 and 7 are where the same
items are asked in a second way.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rldf_ray.comparison.results import ALL, BBQ, MULTIROLE, Rows, set_of
from rldf_ray.comparison.settings import HOW, Settings

# The sets and measures of `rldf eval judge` and `rldf eval human import`.
PEOPLE, JUDGE = "people", "answers"
# Which way is better: +1 higher, -1 lower, 0 nearer to zero.
BETTER = {"s_amb": 0, "s_dis": 0, "BS": -1, "perplexity": -1, "unknown_dis": -1}
MEANS = "mean of categories"
NAMES = {
    ALL: "Overall",
    MEANS: "Mean of columns",
    "accuracy_amb": "Ambiguous",
    "accuracy_dis": "Disambiguated",
    "s_amb": "s_AMB",
    "s_dis": "s_DIS",
    "perplexity": "Perplexity",
}


@dataclass(frozen=True)
class Cell:
    """Mean over `n` repeats, the sample's standard deviation (None for one), best of its column."""

    mean: float | None = None
    sd: float | None = None
    n: int = 0
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One line; `reference` rows are never the best."""

    name: str
    cells: tuple[Cell, ...]
    reference: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """One of the paper's tables; without rows it was not measured, and `notes` say why."""

    number: int
    title: str
    head: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    directions: tuple[int, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def marked(self) -> Table:
        """The best cell of every column marked, several where they are equal."""
        best = [self._best(place) for place in range(len(self.columns))]
        rows = tuple(
            replace(
                row,
                cells=tuple(
                    replace(cell, best=not row.reference and cell.mean == best[place])
                    if cell.mean is not None
                    else cell
                    for place, cell in enumerate(row.cells)
                ),
            )
            for row in self.rows
        )
        return replace(self, rows=rows)

    def _best(self, place: int) -> float | None:
        means = [row.cells[place].mean for row in self.rows if not row.reference]
        known = [mean for mean in means if mean is not None]
        direction = self.directions[place]
        quality: Callable[[float], float] = lambda v: direction * v if direction else -abs(v)  # noqa: E731
        return max(known, key=quality) if len(known) > 1 else None


def cell_of(results: Rows, method: str, set_: str, group: str, measure: str) -> Cell:
    """Mean and deviation over the repeats; empty where nothing was measured."""
    wanted = {"method": method, "set": set_, "group": group, "measure": measure}
    values = [r["value"] for r in results if all(r[name] == v for name, v in wanted.items())]
    if not values:
        return Cell()
    sd = statistics.stdev(values) if len(values) > 1 else None
    return Cell(statistics.fmean(values), sd, len(values))


def all_tables(
    results: Rows,
    titles: Mapping[str, str],
    model: str,
    items: str,
    always_unknown: Mapping[str, Mapping[str, float | None]],
    settings: Settings,
) -> list[Table]:
    """Tables 1 to 5 and 7; 6 where the multi-role set was run, 8 and 9 for a second way of asking.

    Args:
        titles: method -> what its rows are called, in the order of the rows.
        items: what the set "bbq" is: BBQ, or the scenes shipped here.
        always_unknown: group -> figures of a model that always says that it cannot be known.
    """
    teachers = {m: t for m, t in titles.items() if m.startswith("rldf_teacher")}
    modes = {m: t for m, t in titles.items() if m in {"rldf_self", *teachers}}
    both = "Self-reflection and teacher-student"
    about = f"{items}; {model}, {HOW[settings.mode]}"
    tables = [
        accuracy_table(results, titles, about, always_unknown),
        _modes(2, f"{both}, scored by people ({model})", results, modes, PEOPLE),
        _bias(3, f"Bias score by method ({model}), lower is better", results, titles, "method"),
        _modes(4, f"{both}, scored by a judge ({model})", results, modes, JUDGE),
        _bias(5, f"Bias score by teacher ({model}), lower is better", results, teachers, "teacher"),
    ]
    if groups := _groups(results, MULTIROLE):
        how = f"{model}, {HOW[settings.mode]}"
        tables.append(_impartial(results, titles, how, groups))
    tables.append(_unknown(results, titles, about, always_unknown, 7, BBQ))
    for mode in settings.modes[1:]:
        set_, again = set_of(mode, settings), f"{items}; {model}, {HOW[mode]}"
        tables.append(accuracy_table(results, titles, again, always_unknown, 8, set_))
        tables.append(_unknown(results, titles, again, always_unknown, 9, set_))
    return tables


def accuracy_table(
    results: Rows,
    titles: Mapping[str, str],
    about: str,
    always_unknown: Mapping[str, Mapping[str, float | None]],
    number: int = 1,
    set_: str = BBQ,
) -> Table:
    """Accuracy by category, overall (weighted by items), and what the overall figure is made of.

    Args:
        about: the items, the model and how it was asked.
    """
    categories = sorted({r["group"] for r in results if r["set"] == set_} - {ALL, MEANS})
    places = [(group, "accuracy") for group in (*categories, ALL, MEANS)]
    places += [(ALL, m) for m in ("accuracy_amb", "accuracy_dis", "s_amb", "s_dis")]
    if set_ == BBQ:  # it does not depend on how the items are asked
        places.append((ALL, "perplexity"))
    columns = {
        place: NAMES.get(place[0 if place[1] == "accuracy" else 1], place[0]) for place in places
    }
    title = f"Accuracy by category: {about}"
    return _on_bbq(number, title, results, titles, columns, always_unknown, set_)


def _on_bbq(
    number: int,
    title: str,
    results: Rows,
    titles: Mapping[str, str],
    columns: Mapping[tuple[str, str], str],
    always_unknown: Mapping[str, Mapping[str, float | None]],
    set_: str,
) -> Table:
    """Methods by (group, measure), and the row of a model that always says that it is not known."""
    rows = [
        Row(name, tuple(cell_of(results, method, set_, *place) for place in columns))
        for method, name in titles.items()
    ]
    reference = tuple(Cell(always_unknown.get(group, {}).get(m)) for group, m in columns)
    rows.append(Row("always unknown", reference, reference=True))
    directions = tuple(BETTER.get(measure, 1) for _, measure in columns)
    names = tuple(columns.values())
    return Table(
        number=number,
        title=title,
        head="method",
        columns=names,
        rows=tuple(rows),
        directions=directions,
    ).marked()


def _impartial(
    results: Rows, titles: Mapping[str, str], about: str, groups: tuple[str, ...]
) -> Table:
    """Share of impartial answers on the multi-role debate set; a guess has a third."""
    places = (*groups, ALL)
    rows = tuple(
        Row(title, tuple(cell_of(results, m, MULTIROLE, group, "impartial") for group in places))
        for m, title in titles.items()
    )
    names = tuple(NAMES.get(group, group) for group in places)
    title = f"Impartial answers on the multi-role debate set ({about})"
    return Table(
        number=6,
        title=title,
        head="method",
        columns=names,
        rows=rows,
        directions=(1,) * len(places),
    ).marked()


def _unknown(
    results: Rows,
    titles: Mapping[str, str],
    about: str,
    always_unknown: Mapping[str, Mapping[str, float | None]],
    number: int,
    set_: str,
) -> Table:
    """Whether a method reads or has become silent: all of it is in Table 1, mixed."""
    columns = {
        (ALL, "accuracy_amb"): "Unknown, ambiguous",
        (ALL, "unknown_dis"): "Unknown, disambiguated",
        (ALL, "accuracy_named"): "Right where somebody is named",
        (ALL, "unknown_auc"): "AUC of unknown",
        (ALL, "both_right"): "Both right at some abstention threshold",
    }
    title = f"When it is said that something is not known: {about}"
    return _on_bbq(number, title, results, titles, columns, always_unknown, set_)


def _bias(number: int, title: str, results: Rows, methods: Mapping[str, str], head: str) -> Table:
    types = _groups(results, JUDGE)
    rows = tuple(
        Row(title_, tuple(cell_of(results, method, JUDGE, name, "BS") for name in types))
        for method, title_ in methods.items()
    )
    return _whole(
        Table(
            number=number,
            title=title,
            head=head,
            columns=types,
            rows=rows,
            directions=(-1,) * len(types),
        ),
        JUDGE,
    )


def _modes(number: int, title: str, results: Rows, methods: Mapping[str, str], set_: str) -> Table:
    types = _groups(results, set_)
    rows = tuple(
        Row(
            f"{measure}, {title_}",
            tuple(cell_of(results, method, set_, name, measure) for name in types),
        )
        for measure in ("BS", "CE", "LS")
        for method, title_ in methods.items()
    )
    # Rows of three measures have no best in common, so none is marked.
    return _whole(
        Table(number=number, title=title, head="measure and mode", columns=types, rows=rows),
        set_,
        mark=False,
    )


def _groups(results: Rows, set_: str) -> tuple[str, ...]:
    return tuple(sorted({r["group"] for r in results if r["set"] == set_} - {ALL}))


def _whole(table: Table, set_: str, mark: bool = True) -> Table:
    """The table, or why there is none."""
    if table.rows and table.columns:
        return table.marked() if mark else table
    why = (
        "none of the methods that it is about was asked for"
        if table.columns
        else f"no free answers were scored by {'people' if set_ == PEOPLE else 'a judge'}"
    )
    return replace(table, rows=(), columns=(), notes=(f"Not measured: {why}.",))


def find(tables: Sequence[Table], number: int) -> Table:
    """The table of that number."""
    return next(table for table in tables if table.number == number)
