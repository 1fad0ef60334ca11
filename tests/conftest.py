"""Settings that every test shares."""

from __future__ import annotations

import pytest
from hypothesis import settings

# An example takes as long as the machine is busy; pytest's own limit ends what hangs.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# Real runs, engines and servers take minutes on a quiet machine, and four times that on a busy one.
# The limit counts the fixtures that a test is the first to ask for.
REAL = ("e2e", "slow", "cluster", "browser", "gpu")
REAL_LIMIT_S = 2400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        real = any(item.get_closest_marker(name) for name in REAL)
        if real and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(REAL_LIMIT_S))
    # The real run takes as long as all others: whoever shares the work out begins with it.
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)
