"""A home that nobody has is no reason for a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.plan import Speaker
from rldf_ray.storage.home_path import home_path


def test_a_home_is_put_in_place_of_its_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert home_path("~/model") == Path("/somewhere/model")
    assert home_path("org/model") == Path("org/model")


def test_the_home_of_nobody_is_a_name_as_any_other() -> None:
    name = "~no-such-user-here/model"
    assert home_path(name) == Path(name)
    assert Speaker("vllm", name).weights
