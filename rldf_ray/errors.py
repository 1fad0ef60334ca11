"""The one base of every error that a user is expected to meet."""

from __future__ import annotations

from typing import ClassVar


class UserError(Exception):
    """What went wrong and what to do about it; the message is the whole story.

    The command line prints it after `heading`, without a traceback, and ends with `exit_status`.
    """

    exit_status: ClassVar[int] = 1
    heading: ClassVar[str] = "error"
