"""Keys are hashed at rest, change without a restart, and limit what their owner may use."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.serve.exceptions import RayServeException

from rldf_ray.apps.serve.handles import SharedLimits
from rldf_ray.apps.serve.keys import KeyFileError, KeyRing, add_key, read_keys, remove_key
from rldf_ray.apps.serve.limits import RESERVED_S, Allowances, LimitsGoneError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_only_the_hash_is_written_and_only_for_the_owner(file: Path) -> None:
    key = add_key(file, "ann")
    assert key not in file.read_text(encoding="utf-8") and key.removeprefix(
        "rldf-"
    ) not in file.read_text(encoding="utf-8")
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
    ring, good = KeyRing(file, clock), file.read_text(encoding="utf-8")
    file.write_text(content, encoding="utf-8")
    clock.now += 2
    assert ring.find(key) is None
    with pytest.raises(KeyFileError, match=r"keys\.json"):
        read_keys(file)
    file.write_text(good, encoding="utf-8")
    clock.now += 2
    assert ring.find(key) is not None
    file.unlink()
    clock.now += 2
    assert ring.find(key) is None


def test_keys_made_and_taken_back_at_the_same_time_are_all_there_or_gone(file: Path) -> None:
    names = [f"name-{i}" for i in range(24)]
    with ThreadPoolExecutor(24) as pool:
        list(pool.map(lambda name: add_key(file, name), names))
        assert sorted(entry.name for entry in read_keys(file)) == sorted(names)
        list(pool.map(lambda name: remove_key(file, name), names[:20]))
    assert {entry.name for entry in read_keys(file)} == set(names[20:])


def test_the_file_is_its_owners_from_the_first_byte(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes, write = [], Path.write_text

    def writing(path: Path, text: str, encoding: str) -> int:
        modes.append(path.stat().st_mode & 0o777 if path.exists() else None)
        return write(path, text, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", writing)
    add_key(file, "ann")
    assert modes == [0o600]


def test_a_file_that_looks_the_same_from_outside_is_read_again(file: Path) -> None:
    clock = Clock()
    key = add_key(file, "ann")
    other = add_key(file.with_name("other.json"), "bob")
    ring, before = KeyRing(file, clock), file.stat()
    file.write_bytes(file.with_name("other.json").read_bytes())  # the same inode and size
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    clock.now += 2
    assert ring.find(key) is None and ring.find(other) is not None


def test_a_link_leads_to_the_same_file_afterwards(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(file)
    add_key(link, "ann")
    assert link.is_symlink() and [entry.name for entry in read_keys(file)] == ["ann"]


@pytest.mark.parametrize("name", ["", "a\nb", "a\x1b[31m", "x" * 201, "\ud800"])
def test_a_name_that_would_break_a_log_line_is_refused(file: Path, name: str) -> None:
    with pytest.raises(KeyFileError, match="name"):
        add_key(file, name)
    assert not file.exists()


def test_a_limit_that_is_no_number_is_refused(file: Path) -> None:
    with pytest.raises(KeyFileError, match="tokens_per_minute"):
        add_key(file, "ann", tokens_per_minute=float("nan"))


def test_what_is_wrong_in_the_file_is_not_repeated(file: Path) -> None:
    file.write_text('[{"name": "ann", "sha256": "rldf-secret"}]', encoding="utf-8")
    with pytest.raises(KeyFileError, match="sha256") as found:
        read_keys(file)
    assert "secret" not in str(found.value)


def test_a_key_nobody_has_cannot_be_removed(file: Path) -> None:
    add_key(file, "ann")
    with pytest.raises(KeyFileError, match="bob"):
        remove_key(file, "bob")


async def test_requests_are_granted_evenly_over_a_minute(file: Path) -> None:
    clock = Clock()
    add_key(file, "ann", requests_per_minute=60)
    (key,) = read_keys(file)
    allowances = Allowances(clock=clock)
    assert [await allowances.admit(key) for _ in range(60)] == [0.0] * 60
    assert await allowances.admit(key) == pytest.approx(1.0)
    clock.now += 1.0
    assert await allowances.admit(key) == 0.0
    assert await allowances.admit(key) > 0


async def test_tokens_are_counted_afterwards_and_the_debt_is_waited_off(file: Path) -> None:
    clock = Clock()
    add_key(file, "ann", tokens_per_minute=600)
    (key,) = read_keys(file)
    allowances = Allowances(clock=clock)
    assert await allowances.admit(key) == 0.0
    await allowances.settle(key, 900)
    assert await allowances.admit(key) == pytest.approx(30.1)
    clock.now += 30.2
    assert await allowances.admit(key) == 0.0


async def test_many_at_once_do_not_pass_together(file: Path) -> None:
    add_key(file, "ann", tokens_per_minute=50)
    (key,) = read_keys(file)
    allowances = Allowances(clock=Clock())
    waits = [await allowances.reserve(key, 40) for _ in range(60)]
    assert waits[:2] == [0.0, 0.0] and all(wait > 0 for wait in waits[2:])
    for _ in range(2):
        await allowances.settle(key, 5, 40)
    assert await allowances.reserve(key, 40) == 0.0


async def test_a_debt_is_waited_off_within_minutes(file: Path) -> None:
    clock = Clock()
    add_key(file, "ann", tokens_per_minute=5)
    (key,) = read_keys(file)
    allowances = Allowances(clock=clock)
    await allowances.settle(key, 40_000)
    wait_s = await allowances.admit(key)
    assert 60 < wait_s <= 11 * 60
    clock.now += wait_s + 0.1
    assert await allowances.admit(key) == 0.0


async def test_a_limit_below_one_a_minute_is_kept(file: Path) -> None:
    clock = Clock()
    add_key(file, "ann", requests_per_minute=0.5)
    (key,) = read_keys(file)
    allowances = Allowances(clock=clock)
    assert await allowances.admit(key) == 0.0
    assert await allowances.admit(key) == pytest.approx(120)
    clock.now += 119
    assert await allowances.admit(key) > 0
    clock.now += 2
    assert await allowances.admit(key) == 0.0


async def test_what_a_lost_replica_reserved_is_not_kept_for_ever(file: Path) -> None:
    clock = Clock()
    add_key(file, "ann", tokens_per_minute=50)
    (key,) = read_keys(file)
    allowances = Allowances(clock=clock)
    assert await allowances.reserve(key, 60) == 0.0
    assert await allowances.reserve(key, 60) > 0
    clock.now += RESERVED_S + 1
    assert await allowances.reserve(key, 60) == 0.0


class Handle:
    """A deployment's handle; its calls are answered here, or never."""

    def __init__(self, allowances: Allowances, answers: bool = True) -> None:
        self.allowances, self.answers = allowances, answers

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.allowances, name)

        class Call:
            def __init__(self, *given: Any) -> None:
                self.given = given

            def __await__(self) -> Any:
                return method(*self.given).__await__()

            def cancel(self) -> None: ...

        async def never() -> None:
            raise RayServeException("gone")

        if not self.answers:
            method = lambda *given: never()  # noqa: E731
        return SimpleNamespace(remote=Call)


async def test_replicas_share_a_limit(file: Path) -> None:
    add_key(file, "ann", requests_per_minute=1, tokens_per_minute=100)
    (key,) = read_keys(file)
    together = Allowances(clock=Clock())
    first, second = (SharedLimits(cast(Any, Handle(together))) for _ in range(2))
    assert await first.admit(key) == 0.0
    assert await second.admit(key) > 0
    assert await first.reserve(key, 100) == 0.0
    assert await second.reserve(key, 100) > 0
    await first.settle(key, 1, 100)
    await asyncio.sleep(0)
    assert await second.reserve(key, 99) == 0.0


async def test_limits_that_are_not_known_let_nobody_through(file: Path) -> None:
    add_key(file, "ann", requests_per_minute=1)
    (key,) = read_keys(file)
    limits = SharedLimits(cast(Any, Handle(Allowances(), answers=False)))
    with pytest.raises(LimitsGoneError):
        await limits.admit(key)


async def test_a_key_without_limits_needs_nobody_who_counts(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_key(file, "ann")
    add_key(file, "bob", requests_per_minute=1)
    ann, bob = read_keys(file)
    limits = SharedLimits(cast(Any, Handle(Allowances(), answers=False)))
    assert (await limits.admit(ann), await limits.reserve(ann, 10)) == (0.0, 0.0)
    assert await limits.reserve(bob, 10) == 0.0
    await limits.settle(ann, 10, 10)
    await asyncio.sleep(0)
    assert not caplog.records
