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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.plan.section import Section
from rldf_ray.storage.file_lock import file_lock
from rldf_ray.storage.whole_files import whole_file

PREFIX = "rldf-"
LOOK_EVERY_S = 1.0

log = logging.getLogger("rldf.serve")


class KeyFileError(UserError):
    """The key file cannot be used; the message names it and what is wrong."""


def _printable(name: str) -> str:
    """A name ends in log lines, which it must not be able to break."""
    if not name.isprintable():
        raise ValueError("no control characters or line breaks, please")
    return name


class Key(Section):
    """One entry of the key file; limits of null are no limits."""

    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
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
        return _parsed(path.read_bytes())
    except (OSError, KeyFileError) as error:
        raise KeyFileError(f"key file {path}: {error}") from error


def _parsed(content: bytes | str) -> list[Key]:
    """The entries in what a key file holds; text is the reason why nothing could be read.

    Raises:
        KeyFileError: it holds something else; the message repeats nothing of it.
    """
    if isinstance(content, str):
        raise KeyFileError(content)
    try:
        return _entries.validate_json(content)
    except ValidationError as error:
        raise KeyFileError(_first(error)) from None


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors(include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def add_key(
    path: Path,
    name: str,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
) -> str:
    """Make a key for `name`, replacing one it had, and return it; only its hash is kept.

    Raises:
        KeyFileError: the name or a limit is not allowed, or the file cannot be written.
    """
    key = PREFIX + secrets.token_urlsafe(32)
    try:
        entry = Key(
            name=name,
            sha256=hashed(key),
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
        )
    except ValidationError as error:
        raise KeyFileError(f"no key was made for {name!r}: {_first(error)}") from error
    with _changing(path) as entries:
        entries[:] = [other for other in entries if other.name != name] + [entry]
    return key


def remove_key(path: Path, name: str) -> None:
    """Take a key back.

    Raises:
        KeyFileError: nobody of that name has one, or the file cannot be written.
    """
    if not path.exists():
        raise KeyFileError(f"key file {path} does not exist")
    with _changing(path) as entries:
        if name not in {entry.name for entry in entries}:
            raise KeyFileError(f"key file {path} has no key of {name!r}")
        entries[:] = [entry for entry in entries if entry.name != name]


@contextmanager
def _changing(path: Path) -> Iterator[list[Key]]:
    """The entries of the file, which has whatever the block makes of them at its end.

    One at a time: of two that read the same entries, the later would undo what the earlier did,
    and a key that was taken back would be there again. A block that raises changes nothing.
    """
    path = path.resolve()  # what a link leads to is replaced, not the link
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(path.parent / f".{path.name}.lock", wait=True):
            entries = read_keys(path) if path.exists() else []
            yield entries
            _write(path, entries)
    except OSError as error:
        raise KeyFileError(f"key file {path} was not changed: {error}") from error


def _write(path: Path, entries: list[Key]) -> None:
    text = json.dumps([entry.model_dump() for entry in entries], indent=2) + "\n"
    with whole_file(path) as scratch:
        scratch.touch(mode=0o600)  # before there is anything to read in it
        scratch.write_text(text, encoding="utf-8")


class KeyRing:
    """The keys of a file that may change at any time; a look at the file every second at most.

    While the file is missing or wrong nobody gets in: a key that was taken back must not live on
    because of a slip of the hand.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._looked = -LOOK_EVERY_S
        self._content: bytes | str | None = None
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
        # The whole of it: its date, size and number may be those of another that it replaced.
        try:
            content: bytes | str = self._path.read_bytes()
        except OSError as error:
            content = str(error)
        if content == self._content:
            return
        self._content = content
        try:
            self._keys = _parsed(content)
        except KeyFileError as error:
            self._keys = []
            log.error("no key is accepted: key file %s: %s", self._path, error)
