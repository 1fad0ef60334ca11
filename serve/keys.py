"""API keys: a file of hashes, reread when it changes.

A key is 256 random bits, so one SHA-256 of it is as hard to turn back as the key is to guess; a
slow hash (argon2, scrypt) protects passwords people choose, and here it would only let strangers
spend our processor by sending wrong keys.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.plan.section import Section
from rldf_ray.storage.run_folder import RunFolder

PREFIX = "rldf-"
LOOK_EVERY_S = 1.0

log = logging.getLogger("rldf.serve")


class KeyFileError(UserError):
    """The key file cannot be used; the message names it and what is wrong."""


class Key(Section):
    """One entry of the key file; limits of null are no limits."""

    name: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    requests_per_minute: float | None = Field(None, gt=0)
    tokens_per_minute: float | None = Field(None, gt=0)


_entries = TypeAdapter(list[Key])


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def read_keys(path: Path) -> list[Key]:
    """The entries of a key file.

    Raises:
        KeyFileError: the file is missing or wrong.
    """
    try:
        return _entries.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise KeyFileError(f"key file {path}: {error}") from error


def add_key(
    path: Path,
    name: str,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
) -> str:
    """Make a key for `name`, replacing one it had, and return it; only its hash is kept."""
    key = PREFIX + secrets.token_urlsafe(32)
    entries = [entry for entry in _existing(path) if entry.name != name]
    entries.append(
        Key(
            name=name,
            sha256=hashed(key),
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
        )
    )
    _write(path, entries)
    return key


def remove_key(path: Path, name: str) -> None:
    """Take a key back.

    Raises:
        KeyFileError: nobody of that name has one.
    """
    entries = read_keys(path)
    if name not in {entry.name for entry in entries}:
        raise KeyFileError(f"key file {path} has no key of {name!r}")
    _write(path, [entry for entry in entries if entry.name != name])


def _existing(path: Path) -> list[Key]:
    return read_keys(path) if path.exists() else []


def _write(path: Path, entries: list[Key]) -> None:
    text = json.dumps([entry.model_dump() for entry in entries], indent=2) + "\n"
    RunFolder(path.parent).write_text(path.name, text).chmod(0o600)


class KeyRing:
    """The keys of a file that may change at any time; a look at the file every second at most.

    While the file is missing or wrong nobody gets in: a key that was taken back must not live on
    because of a slip of the hand.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._looked = -LOOK_EVERY_S
        self._stamp: tuple[int, int, int] | None = None
        self._keys: list[Key] = []
        self._look()

    def find(self, key: str) -> Key | None:
        """Whose key it is. Every hash is compared, in constant time."""
        self._look()
        given = hashed(key)
        found = None
        for entry in self._keys:
            if hmac.compare_digest(entry.sha256, given):
                found = entry
        return found

    def _look(self) -> None:
        if self._clock() - self._looked < LOOK_EVERY_S:
            return
        self._looked = self._clock()
        stamp = _stamp(self._path)
        if stamp == self._stamp and stamp is not None:
            return
        self._stamp = stamp
        try:
            self._keys = read_keys(self._path)
        except KeyFileError as error:
            self._keys = []
            log.error("no key is accepted: %s", error)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
