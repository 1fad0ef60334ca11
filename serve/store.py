"""The model store: every published version is kept, one small file says which are served.

    STORE/NAME/versions/v0001/...  a model or adapter, with MANIFEST.json: SHA-256 of its files
    STORE/NAME/traffic.json        {"current": "v0001", "next": "v0002", "percent": 10}

Both the versions and the pointer are written beside their place and moved into it, so a reader
sees the old state or the new one, never a half.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from rldf_ray.errors import UserError
from rldf_ray.storage.digest import file_digest
from rldf_ray.storage.folders import foreign_file
from rldf_ray.storage.run_folder import RunFolder

MANIFEST = "MANIFEST.json"
# So many versions may be made current while none of them comes up.
MOST_BEFORE = 4
NAME = re.compile("[A-Za-z0-9_-]+")
VERSION = re.compile("v[0-9]{4,}")
Version = Annotated[str, msgspec.Meta(pattern=f"^{VERSION.pattern}$")]


class StoreError(UserError):
    """The store has not what is asked for, or it is damaged; the message says where."""


@dataclass(frozen=True)
class Manifest:
    """SHA-256 of every file of a version, by relative path."""

    files: dict[str, str]


@dataclass(frozen=True)
class Traffic:
    """Which versions answer: `percent` of the requests go to `next`, the others to `current`.

    `before` were current, the last one first. Who makes a version current does not know whether
    the one before it came up; for as long as `current` is not, the first of them that is answers.
    """

    current: Version
    next: Version | None = None
    percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    before: tuple[Version, ...] = ()

    def version(self, draw: float) -> str:
        """The version for a request that drew `draw` from [0, 100)."""
        return self.next if self.next is not None and draw < self.percent else self.current

    @property
    def versions(self) -> tuple[str, ...]:
        """All of them, the current one first."""
        return (self.current, *(() if self.next is None else (self.next,)), *self.before)


@dataclass(frozen=True)
class _OneBefore:
    """`Traffic` as stores have it that only know the last of `before`."""

    current: Version
    next: Version | None = None
    percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    before: Version | None = None


@dataclass(frozen=True)
class ModelStore:
    """The versions of one model name."""

    root: Path
    name: str

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise StoreError(
                f"{self.name!r} is no name for a model in the store: use letters, digits, - and _"
            )

    @property
    def _folder(self) -> RunFolder:
        return RunFolder(self.root / self.name)

    def versions(self) -> list[str]:
        """Published versions, oldest first."""
        return [name for name in self._taken() if (self._versions / name).is_dir()]

    def _taken(self) -> list[str]:
        """Names of versions that are in use, be it for a version or not, and nothing else."""
        found = (path.name for path in self._versions.glob("v*"))
        return sorted(filter(VERSION.fullmatch, found), key=lambda name: int(name[1:]))

    @property
    def _versions(self) -> Path:
        return self.root / self.name / "versions"

    def folder(self, version: str) -> Path:
        """Where `version` lies.

        Raises:
            StoreError: there is no such version.
        """
        path = self._versions / version
        if version not in self.versions():
            known = ", ".join(self.versions()) or "none"
            raise StoreError(
                f"{self.root} has no version {version!r} of {self.name}: it has {known}"
            )
        return path

    def publish(self, source: Path) -> str:
        """Copy a model or adapter folder in as the next version; the first becomes current.

        Raises:
            StoreError: `source` is neither a model nor an adapter, or has a file that is none.
        """
        if not any((source / file).exists() for file in ("config.json", "adapter_config.json")):
            raise StoreError(f"{source} is no model folder: no config.json, no adapter_config.json")
        if why := foreign_file(source):
            raise StoreError(why)
        versions = self._versions
        versions.mkdir(parents=True, exist_ok=True)
        # Not `whole_folder`: the number is free only once the finished folder has taken it.
        scratch = Path(tempfile.mkdtemp(dir=versions, prefix=".publishing-"))
        try:
            shutil.copytree(source, scratch, dirs_exist_ok=True)
            (scratch / MANIFEST).unlink(missing_ok=True)
            RunFolder(scratch).write_json(MANIFEST, {"files": digests(scratch)})
            scratch.chmod(0o755)
            version = self._claim(scratch, versions)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if self.traffic() is None:
            self.direct(Traffic(version))
        return version

    def _claim(self, scratch: Path, versions: Path) -> str:
        """Move a finished copy to the next free number; two publishers get two numbers."""
        while True:
            number = 1 + max((int(name[1:]) for name in self._taken()), default=0)
            try:
                scratch.rename(versions / f"v{number:04d}")
            except OSError:
                if not (versions / f"v{number:04d}").exists():
                    raise
                continue
            _sync(versions)
            return f"v{number:04d}"

    def traffic(self) -> Traffic | None:
        """Which versions are to answer; None before the first is published.

        Raises:
            StoreError: the file that says so cannot be read.
        """
        path = self.root / self.name / "traffic.json"
        try:
            return _traffic(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path} does not say which versions answer ({error}): remove it, and say it with "
                "`rldf serve rollout VERSION --percent 100`"
            ) from error

    def direct(self, traffic: Traffic) -> None:
        """Set which versions are to answer, for every server on this store.

        Raises:
            StoreError: a version is not there.
        """
        for version in traffic.versions:
            self.folder(version)
        self._folder.write_json("traffic.json", asdict(traffic))

    def rollout(self, version: str, percent: float) -> Traffic:
        """Give `version` that share of the requests: 100 makes it current, 0 takes it back.

        Raises:
            StoreError: no such version, nothing published, or a damaged version.
        """
        now = self.traffic()
        if now is None and percent >= 100 and self.versions():
            now = Traffic(version)  # the file was removed, or its publisher ended before writing it
        if now is None:
            raise StoreError(f"{self.root} has no {self.name} yet: publish one first")
        verify(self.folder(version))
        if version == now.current:
            new = replace(now, next=None, percent=0.0)
        elif percent >= 100:
            new = Traffic(version, before=(now.current, *now.before))
        elif percent > 0:
            new = replace(now, next=version, percent=percent)
        elif version == now.next:
            new = replace(now, next=None, percent=0.0)
        else:
            new = now
        new = replace(new, before=self._kept(new))
        self.direct(new)
        return new

    def _kept(self, traffic: Traffic) -> tuple[str, ...]:
        """Those of `before` that are there and named once, the last few of them."""
        there = set(self.versions()) - {traffic.current, traffic.next}
        return tuple(v for v in dict.fromkeys(traffic.before) if v in there)[:MOST_BEFORE]


def _traffic(content: bytes) -> Traffic:
    """
    Raises:
        msgspec.DecodeError: it says something else.
    """
    try:
        return msgspec.json.decode(content, type=Traffic)
    except msgspec.ValidationError:
        one = msgspec.json.decode(content, type=_OneBefore)
        before = () if one.before is None else (one.before,)
        return Traffic(one.current, one.next, one.percent, before)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder` but its manifest, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {str(path.relative_to(folder)): file_digest(path) for path in files}


def verify(folder: Path) -> None:
    """Check a published folder against its manifest; a folder without one is nobody's promise.

    Raises:
        StoreError: a file is missing, more or different, or the manifest cannot be read.
    """
    path = folder / MANIFEST
    if not path.exists():
        return
    try:
        expected = msgspec.json.decode(path.read_bytes(), type=Manifest).files
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read ({error}): publish the folder again") from error
    found = digests(folder)
    wrong = sorted(
        file for file in expected.keys() | found.keys() if expected.get(file) != found.get(file)
    )
    if wrong:
        raise StoreError(
            f"{folder} is not what was published (differs: {', '.join(wrong)}): publish it again"
        )


def _sync(folder: Path) -> None:
    """A rename is on disk once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
