"""`rldf show`: the debates of a run, to be read."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rldf_ray.plan.saved import PLAN, saved_plan
from rldf_ray.protocols.transcripts import ENDED_DEBATES, ended_so_far
from rldf_ray.records import STATEMENT_SCHEMA, Label, Statement, statements_of
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder, RunFolderError

TRANSCRIPTS = "data/transcripts.parquet"
STYLES = {"high": "dark_orange", "low": "green", None: "dim"}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which statements to show; None is all of them. `role` is a seat from 0 or an identity."""

    debate: str | None = None
    bias_type: str | None = None
    round: int | None = None
    role: str | None = None
    label: Label | None = None

    def admits(self, statement: Statement) -> bool:
        return (
            self.bias_type in (None, statement.bias_type)
            and self.round in (None, statement.round)
            and self.role in (None, str(statement.role), statement.identity)
            and self.label in (None, statement.label)
        )


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
        saved_plan(folder)
    statements = _statements(folder)
    wanted = Wanted(debate=debate, bias_type=bias_type, round=number, role=role, label=label)
    debates = chosen_debates(statements, wanted)
    if not debates:
        raise RunFolderError(
            f"{out}: no statement is {wanted}; there are {_what_there_is(statements)}"
        )
    if as_json:
        print(json_text([_as_dict(shown) for shown in debates], indent=2))
        return
    page(debates, Console(highlight=False, soft_wrap=False))


def _statements(folder: RunFolder) -> list[Statement]:
    """Those of all debates; while debates are held, of those that have ended so far."""
    transcripts, ended = folder.fetched(TRANSCRIPTS), folder.root / ENDED_DEBATES
    if not transcripts.exists() and ended.exists():
        statements = ended_so_far(ended)
        print(
            f"{folder.where}: its debates have not finished; these have, in the order of their end",
            file=sys.stderr,
        )
        return statements
    return statements_of(folder.read_table(TRANSCRIPTS, STATEMENT_SCHEMA))


def chosen_debates(statements: Sequence[Statement], wanted: Wanted) -> list[ShownDebate]:
    """The debates with a wanted statement, in the run's order."""
    debates: dict[str, list[Statement]] = {}
    for statement in statements:
        debates.setdefault(statement.debate_id, []).append(statement)
    return [
        ShownDebate(place, shown)
        for place, (name, of_debate) in enumerate(debates.items(), start=1)
        if wanted.debate in (None, str(place), name)
        and (shown := tuple(s for s in of_debate if wanted.admits(s)))
    ]


def page(debates: Sequence[ShownDebate], console: Console) -> None:
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
    yield Text(f"Debate {debate.number}: {about} ({first.debate_id})", style="bold")
    yield Text(harmless(first.context), style="italic")
    for statement in debate.statements:
        yield Text()
        yield Text(_heading(statement), style=STYLES[statement.label])
        yield Text(f"  {harmless(statement.text)}")
    yield Text("\n")


def harmless(text: str) -> str:
    """Without control characters: a model's text must not drive the reader's terminal."""
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) != "Cc")


def _heading(s: Statement) -> str:
    score = "no score" if s.score is None else f"said {s.score:g}"
    expected = "" if s.expected_score is None else f", expected {s.expected_score:.2f}"
    rank = "not ranked" if s.rank is None else f"rank {s.rank}"
    label = f"{s.label} bias" if s.label else harmless(s.failure or "no label")
    return f"Round {s.round}, {s.identity}: {score}{expected}, {rank}, {label}"


def _as_dict(debate: ShownDebate) -> dict[str, Any]:
    shared = ("debate_id", "topic_id", "bias_type", "kind", "clue_shown", "context")
    rows = [asdict(statement) for statement in debate.statements]
    return {
        "number": debate.number,
        **{name: rows[0][name] for name in shared},
        "statements": [{k: v for k, v in row.items() if k not in shared} for row in rows],
    }


def _what_there_is(statements: Sequence[Statement]) -> str:
    debates = len({s.debate_id for s in statements})
    types = sorted({s.bias_type for s in statements})
    identities = sorted({s.identity for s in statements})
    rounds = max((s.round for s in statements), default=0)
    return (
        f"{debates} debates about {', '.join(types)}, {rounds} rounds, "
        f"debaters {', '.join(identities)}"
    )
