"""What a person sees: bars with rates and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

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
from rich.text import Text

PLAIN_LINE_EVERY_S = 15.0
FILE_WIDTH = 160


# What moves the cursor, names the window or erases: C0, delete and C1, but for line and tab.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
# What makes letters stand in another order than they are in, and so another text than there is.
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_HARMLESS: dict[int, str | None] = {
    **{code: None for code in _CONTROLS if chr(code) not in "\n\t"},
    **{code: f"<U+{code:04X}>" for code in _DIRECTIONS},
}


def harmless(text: str) -> str:
    """What a terminal may be handed of a text that is a model's or a file's.

    Without control characters, which a terminal obeys; characters that change the direction of
    writing are spelt out.
    """
    return text.translate(_HARMLESS)


def write(text: str, *, to_stderr: bool = False) -> None:
    """Print lines of which some may be somebody else's."""
    print(harmless(text), file=sys.stderr if to_stderr else sys.stdout)


class TextConsole(Console):
    """A console to which texts are texts: no markup, no controls, whoever wrote them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **settings})

    def render_str(self, text: str, **settings: Any) -> Text:
        # What is printed comes by here, and the cells, heads and titles of tables.
        return super().render_str(harmless(text), **settings)


def table_console() -> Console:
    """Stdout for tables: as wide as the window; in a file or a pipe nothing has to fit one."""
    width = None if sys.stdout.isatty() else FILE_WIDTH
    return TextConsole(file=sys.stdout, width=width, soft_wrap=True)


def tolerate_narrow_streams() -> None:
    """Where the locale's encoding has no such character, its code is printed in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
        self.console = console or TextConsole(soft_wrap=True)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    @classmethod
    def beside(cls, as_json: bool) -> Progress:
        """On stdout, or on stderr where stdout is to hold JSON and nothing else."""
        return cls(TextConsole(stderr=as_json, soft_wrap=True))

    @contextmanager
    def bar(self, name: str, total: int) -> Iterator[Bar]:
        """A bar for as long as the block lasts."""
        if not self.console.is_terminal:
            yield Bar(name=name, total=total, progress=None, console=self.console)
            return
        with RichProgress(
            TextColumn("  {task.description}", markup=False),
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
            bar._task = progress.add_task(harmless(name), total=total, rate="")
            yield bar
