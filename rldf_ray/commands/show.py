"""`rldf show`: the debates of a run, to be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import pyarrow as pa
import typer
from more_itertools import chunked
from rich.console import Console
from rich.text import Text

from rldf_ray.console import TextConsole, harmless, write
from rldf_ray.plan import Plan
from rldf_ray.plan.saved import PLAN, saved_plan
from rldf_ray.protocols.known import source_names
from rldf_ray.protocols.transcripts import ENDED_DEBATES, ended_so_far
from rldf_ray.records import STATEMENT_SCHEMA, Label, Statement, statements_of
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.left_over import left_over
from rldf_ray.storage.run_folder import RunFolder, RunFolderError

TRANSCRIPTS = "data/transcripts.parquet"
DEBATES_AT_ONCE = 100
STYLES = {"high": "dark_orange", "low": "green", None: "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What a statement is chosen by."""

    bias_type: str
    round: int
    role: int
    identity: str
    label: Label | None


_INDEX = pa.schema(
    [
        STATEMENT_SCHEMA.field(name)
        for name in ("debate_id", "bias_type", "round", "role", "identity", "label")
    ]
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which statements to show; None is all of them. `role` is a seat from 0 or an identity."""

    debate: str | None = None
    bias_type: str | None = None
    round: int | None = None
    role: str | None = None
    label: Label | None = None

    def admits(self, statement: _Entry) -> bool:
        return (
            self.bias_type in (None, statement.bias_type)
            and self.round in (None, statement.round)
            and self.role in (None, str(statement.role), statement.identity)
            and self.label in (None, statement.label)
        )


@dataclass(frozen=True)
class Chosen:
    """A debate's place in the run, from 1, and the rows of its wanted statements."""

    number: int
    places: tuple[int, ...]


@dataclass(frozen=True)
class ShownDebate:
    """A debate with its place in the run, from 1, and those of its statements that are wanted."""

    number: int
    statements: tuple[Statement, ...]


def show(
    out: Annotated[str, typer.Argument(metavar="RUN", help="a run folder or address")],
    debate: Annotated[
        str | None, typer.Option("--debate", metavar="N", help="one debate: number or id")
    ] = None,
    bias_type: Annotated[str | None, typer.Option("--bias-type", metavar="NAME")] = None,
    number: Annotated[int | None, typer.Option("--round", min=1, help="one round")] = None,
    role: Annotated[
        str | None, typer.Option("--role", help="one debater: seat from 0, or identity")
    ] = None,
    high: Annotated[
        bool | None, typer.Option("--high/--low", help="only statements of one label")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of pages")] = False,
) -> None:
    """Read a run's debates: who said what, its scores, rank and label."""
    label: Label | None = None if high is None else "high" if high else "low"
    folder = RunFolder.at(out)
    if folder.fetched(PLAN).exists():
        _check_debated(folder, saved_plan(folder))
    wanted = Wanted(debate=debate, bias_type=bias_type, round=number, role=role, label=label)
    contents = Contents(folder)
    debates = contents.chosen(wanted)
    if not debates:
        raise RunFolderError(f"{out}: no statement is {wanted}; there are {contents}")
    if as_json:
        print(json_text([_as_dict(shown) for shown in contents.read(debates)], indent=2))
        return
    page(contents.read(debates), TextConsole(soft_wrap=False))


def _check_debated(folder: RunFolder, plan: Plan) -> None:
    """Nothing where the run's statements are, or are going to be, those of multi-role debates.

    Raises:
        RunFolderError: another protocol was held, or pairs were given.
    """
    if plan.debate.protocol in source_names():
        raise RunFolderError(
            f"{folder.where}: its data come from the protocol {plan.debate.protocol}, and not from "
            "debates of statements that a referee scores; what was said is in "
            f"{folder.address('source/data/turns.parquet')} once it has been held"
        )
    if folder.manifest("debates") is not None and not folder.fetched(TRANSCRIPTS).exists():
        raise RunFolderError(
            f"{folder.where} has no debates: it was begun with pairs, which are in "
            f"{folder.address('data/pairs.parquet')}"
        )


class Contents:
    """What is where in a run's transcripts, without their texts: these are read as they are shown.

    While debates are held, they are those that have ended so far.

    Raises:
        RunFolderError, UnreadableFileError: there are none, or not as the debates write them.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._ended = _ended_debates(folder)
        self._debates: dict[str, list[tuple[int, _Entry]]] = {}
        known: dict[_Entry, _Entry] = {}
        for place, row in enumerate(self._rows()):
            entry = _Entry(**{name: row[name] for name in _Entry.__slots__})
            of_debate = self._debates.setdefault(row["debate_id"], [])
            of_debate.append((place, known.setdefault(entry, entry)))

    def chosen(self, wanted: Wanted) -> list[Chosen]:
        """The debates with a wanted statement, in the run's order."""
        return [
            Chosen(number, places)
            for number, (name, entries) in enumerate(self._debates.items(), start=1)
            if wanted.debate in (None, str(number), name)
            and (places := tuple(place for place, entry in entries if wanted.admits(entry)))
        ]

    def read(self, debates: Sequence[Chosen]) -> Iterator[ShownDebate]:
        for some in chunked(debates, DEBATES_AT_ONCE):
            places = sorted(place for debate in some for place in debate.places)
            of_place = dict(zip(places, self._statements(places), strict=True))
            for debate in some:
                yield ShownDebate(debate.number, tuple(of_place[p] for p in debate.places))

    def __str__(self) -> str:
        entries = [entry for debate in self._debates.values() for _, entry in debate]
        types = sorted({entry.bias_type for entry in entries})
        identities = sorted({entry.identity for entry in entries})
        rounds = max((entry.round for entry in entries), default=0)
        return (
            f"{len(self._debates)} debates about {', '.join(types)}, {rounds} rounds, "
            f"debaters {', '.join(identities)}"
        )

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        if self._ended is not None:
            yield from map(asdict, self._ended)
            return
        for batch in self._folder.read_batches(TRANSCRIPTS, _INDEX):
            yield from batch.to_pylist()

    def _statements(self, places: Sequence[int]) -> list[Statement]:
        if self._ended is not None:
            return [self._ended[place] for place in places]
        return statements_of(self._folder.read_rows(TRANSCRIPTS, places, STATEMENT_SCHEMA))


def _ended_debates(folder: RunFolder) -> list[Statement] | None:
    """The statements of a run whose debates have not all ended; None where they have.

    Raises:
        RunFolderError: they are to be held again, and none has ended since.
    """
    transcripts, ended = folder.fetched(TRANSCRIPTS), folder.root / ENDED_DEBATES
    why = left_over(folder.root, TRANSCRIPTS)
    if why and not ended.exists():
        raise RunFolderError(f"{why}: `rldf debate` does it")
    if not ended.exists() or (transcripts.exists() and not why):
        return None
    write(
        f"{folder.where}: its debates have not finished; these have, in the order of their end",
        to_stderr=True,
    )
    return ended_so_far(ended)


def page(debates: Iterable[ShownDebate], console: Console) -> None:
    """Through the reader's pager on a terminal, plain text elsewhere."""
    lines = (line for debate in debates for line in written(debate))
    if not console.is_terminal:
        for line in lines:
            print(line.plain)
        return
    # `less` shows colours only with this option.
    os.environ.setdefault("LESS", "-R")
    with console.pager(styles=True):
        for line in lines:
            console.print(line)


def written(debate: ShownDebate) -> Iterator[Text]:
    """A debate line by line."""
    first = debate.statements[0]
    clue = {True: ", clue shown", False: ", clue withheld"}[first.clue_shown]
    about = f"{first.bias_type}, {first.kind}{clue if first.kind == 'judgement' else ''}"
    yield Text(harmless(f"Debate {debate.number}: {about} ({first.debate_id})"), style="bold")
    yield Text(harmless(first.context), style="italic")
    for statement in debate.statements:
        yield Text()
        yield Text(harmless(_heading(statement)), style=STYLES[statement.label])
        yield Text(f"  {harmless(statement.text)}")
    yield Text("\n")


def _heading(s: Statement) -> str:
    score = "no score" if s.score is None else f"said {s.score:g}"
    expected = "" if s.expected_score is None else f", expected {s.expected_score:.2f}"
    rank = "not ranked" if s.rank is None else f"rank {s.rank}"
    label = f"{s.label} bias" if s.label else s.failure or "no label"
    return f"Round {s.round}, {s.identity}: {score}{expected}, {rank}, {label}"


def _as_dict(debate: ShownDebate) -> dict[str, Any]:
    shared = ("debate_id", "topic_id", "bias_type", "kind", "clue_shown", "context")
    rows = [asdict(statement) for statement in debate.statements]
    return {
        "number": debate.number,
        **{name: rows[0][name] for name in shared},
        "statements": [{k: v for k, v in row.items() if k not in shared} for row in rows],
    }
