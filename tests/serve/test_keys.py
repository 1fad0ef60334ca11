"""Keys are hashed at rest, change without a restart, and limit what their owner may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.keys import KeyFileError, KeyRing, add_key, read_keys, remove_key
from serve.limits import Allowances


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_only_the_hash_is_written_and_only_for_the_owner(file: Path) -> None:
    key = add_key(file, "ann")
    assert key not in file.read_text() and key.removeprefix("rldf-") not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    ring = KeyRing(file)
    found = ring.find(key)
    assert found is not None and found.name == "ann"
    assert ring.find(key + "x") is None and ring.find("") is None
    assert ring.find(found.sha256) is None


def test_keys_change_while_the_server_runs(file: Path) -> None:
    clock = Clock()
    old = add_key(file, "ann")
    ring = KeyRing(file, clock)
    new = add_key(file, "ann")
    other = add_key(file, "bob")
    clock.now += 2
    assert ring.find(old) is None
    assert ring.find(new) is not None and ring.find(other) is not None
    remove_key(file, "bob")
    clock.now += 2
    assert ring.find(other) is None and ring.find(new) is not None


@pytest.mark.parametrize("content", ["", "[{}]", "{", '[{"name": "a", "sha256": "A"}]'])
def test_a_wrong_file_lets_nobody_in_until_it_is_right_again(file: Path, content: str) -> None:
    clock = Clock()
    key = add_key(file, "ann")
    ring, good = KeyRing(file, clock), file.read_text()
    file.write_text(content)
    clock.now += 2
    assert ring.find(key) is None
    with pytest.raises(KeyFileError, match=r"keys\.json"):
        read_keys(file)
    file.write_text(good)
    clock.now += 2
    assert ring.find(key) is not None
    file.unlink()
    clock.now += 2
    assert ring.find(key) is None


def test_a_key_nobody_has_cannot_be_removed(file: Path) -> None:
    add_key(file, "ann")
    with pytest.raises(KeyFileError, match="bob"):
        remove_key(file, "bob")


def test_requests_are_granted_evenly_over_a_minute(file: Path) -> None:
    clock = Clock()
    add_key(file, "ann", requests_per_minute=60)
    (key,) = read_keys(file)
    allowances = Allowances(clock=clock)
    assert [allowances.admit(key) for _ in range(60)] == [0.0] * 60
    assert allowances.admit(key) == pytest.approx(1.0)
    clock.now += 1.0
    assert allowances.admit(key) == 0.0
    assert allowances.admit(key) > 0


def test_tokens_are_counted_afterwards_and_the_debt_is_waited_off(file: Path) -> None:
    clock = Clock()
    add_key(file, "ann", tokens_per_minute=600)
    (key,) = read_keys(file)
    allowances = Allowances(clock=clock)
    assert allowances.admit(key) == 0.0
    allowances.spend(key, 900)
    assert allowances.admit(key) == pytest.approx(30.1)
    clock.now += 30.2
    assert allowances.admit(key) == 0.0


def test_replicas_share_a_limit(file: Path) -> None:
    add_key(file, "ann", requests_per_minute=10)
    (key,) = read_keys(file)
    allowances = Allowances(share=0.5, clock=Clock())
    assert [allowances.admit(key) == 0.0 for _ in range(6)] == [True] * 5 + [False]
