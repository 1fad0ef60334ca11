"""What a person sees: bars with rates and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as RichProgress,
)

PLAIN_LINE_EVERY_S = 15.0
FILE_WIDTH = 160


def table_console() -> Console:
    """Stdout for tables: as wide as the window; in a file or a pipe nothing has to fit one."""
    width = None if sys.stdout.isatty() else FILE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)


@dataclass(kw_only=True)
class Bar:
    """How far one stage is."""

    name: str
    total: int
    progress: RichProgress | None
    console: Console
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    _task: TaskID = field(default_factory=lambda: TaskID(0))
    _said: float = field(default_factory=time.monotonic)

    def advance(self, by: int = 1) -> None:
        self.update(self.done + by)

    def update(self, done: int, total: int | None = None) -> None:
        self.done, self.total = done, self.total if total is None else total
        rate = self.done / max(1e-6, time.monotonic() - self.started)
        if self.progress is not None:
            self.progress.update(self._task, completed=done, total=self.total, rate=f"{rate:.2f}/s")
        elif time.monotonic() - self._said > PLAIN_LINE_EVERY_S and rate > 0:
            self._said = time.monotonic()
            left = (self.total - self.done) / rate
            self.console.print(
                f"  {self.name}: {self.done}/{self.total}, {rate:.2f}/s, {left:.0f} s left"
            )


class Progress:
    """The terminal's account of a run, and nothing else's."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    @contextmanager
    def bar(self, name: str, total: int) -> Iterator[Bar]:
        """A bar for as long as the block lasts."""
        if not self.console.is_terminal:
            yield Bar(name=name, total=total, progress=None, console=self.console)
            return
        with RichProgress(
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        ) as progress:
            bar = Bar(name=name, total=total, progress=progress, console=self.console)
            bar._task = progress.add_task(name, total=total, rate="")
            yield bar
