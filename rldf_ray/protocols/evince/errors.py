"""What a model replied and cannot be used: it fails one dialogue or baseline, and no other."""

from __future__ import annotations

from rldf_ray.errors import UserError


class ReplyError(UserError):
    """A reply is not what was asked for; the message says why."""


class TurnError(ReplyError):
    """A text is no turn, or holds no distribution."""


class ScoreError(ReplyError):
    """A judge's reply is no score; the message holds the reply."""


class CaseError(ReplyError):
    """A text is no case for the editor; the message says why."""


class DistributionError(ReplyError):
    """A reply came without the probabilities that the plan takes distributions from."""
