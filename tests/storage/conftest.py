from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.s3_server import Buckets, as_environment, s3_server


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT is a KeyboardInterrupt, also where the tests run in the background, without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Buckets]:
    """A store with the bucket `bucket`, and an empty cache."""
    with s3_server("bucket") as (url, buckets):
        for name, value in as_environment(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "here"))
        yield buckets
