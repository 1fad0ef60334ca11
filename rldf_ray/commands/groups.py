"""A command group that can be called without naming a command."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class DefaultCommandGroup(TyperGroup):
    """A group whose first command runs where the first word names none of its commands.

    With `app = typer.Typer(cls=DefaultCommandGroup, no_args_is_help=True)` and its commands added
    in the order `build`, `export`: `rldf data RUN --redo` means `rldf data build RUN --redo`, and
    `rldf data export RUN` stays what it is. A folder that has a command's name is written as
    `./export`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the first command's name before words that begin with no command."""
        known = {*self.commands, *ctx.help_option_names}
        if args and args[0] not in known:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)
