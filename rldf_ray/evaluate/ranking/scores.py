"""Scores of a question's options, which whoever reads a run needs without the models."""

from __future__ import annotations

from collections.abc import Sequence

Scores = tuple[float, ...]
"""The log-likelihood of every option in nats: a mean over its tokens, or their sum."""


def best_option(scores: Sequence[float]) -> int:
    """The most likely option; the first of equals."""
    return max(range(len(scores)), key=lambda i: scores[i])
