"""Settings that every test shares."""

from __future__ import annotations

from hypothesis import settings

# An example takes as long as the machine is busy; pytest's own limit ends what hangs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
