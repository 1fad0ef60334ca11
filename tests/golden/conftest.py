"""What the comparison's own tests have: a machine that computes nothing."""

from __future__ import annotations

from tests.comparison.conftest import machine

__all__ = ["machine"]
