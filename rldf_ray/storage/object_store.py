"""Whole objects under one address of a bucket: s3://, gs://, or any scheme fsspec knows.

An object is there whole or not at all; nothing is renamed and nothing is appended to. One that
could not be read to its end is deleted, with what had its name before. (Under file:// a program
that is killed leaves what it has written of one.)
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from rldf_ray.errors import UserError
from rldf_ray.storage.own_thread import in_own_thread

# By default three seconds without a byte end a request; a store or a node that is busy is slower.
REQUEST_TIMEOUT_S = 60.0
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*")


class ObjectStoreError(UserError):
    """The store does not do what was asked; the message says what to check."""


@dataclass(frozen=True)
class ObjectInfo:
    """An object's size in bytes, and when it was written, in whole seconds since 1970.

    Whole seconds, as listing a bucket and asking for one object differ in what is beyond them.
    """

    size: int
    written_s: int


def is_address(where: object) -> bool:
    """Whether a run is named by an address of a store, not by a folder."""
    return "://" in str(where)


def local_path(given: str | Path) -> Path:
    """A path on this machine.

    Raises:
        ObjectStoreError: it is an address, or what becomes of one that is made a path.
    """
    scheme, colon, rest = str(given).partition(":/")
    # One letter is a drive.
    if colon and len(scheme) > 1 and SCHEME.fullmatch(scheme):
        raise ObjectStoreError(
            f"{scheme}://{rest.lstrip('/')} is an address, and only a folder or a file of this "
            "machine is taken here: copy what is there to a folder, or write into one and upload it"
        )
    return Path(given)


def normal_form(address: str) -> PurePosixPath:
    """The scheme and the path of an address as one relative path, which never leads upwards.

    Options are left out, and so are slashes and dots that name nothing.

    Raises:
        ObjectStoreError: it has no scheme, names nothing, or has a part "..".
    """
    scheme, _, rest = address.partition("://")
    parts = [part for part in rest.partition("?")[0].split("/") if part not in ("", ".")]
    if not SCHEME.fullmatch(scheme) or not parts or leads_upwards(unquote("/".join(parts))):
        raise ObjectStoreError(
            f"{address!r} is no address of a run; allowed: SCHEME://BUCKET/PATH without a part '..'"
        )
    return PurePosixPath(scheme.lower(), *parts)


def leads_upwards(name: str) -> bool:
    """Whether an object of this name would lie outside the folder that it is put into."""
    return name.startswith("/") or ".." in name.split("/")


class ObjectStore:
    """The objects whose names begin with `address`, named by what follows it.

    Args:
        address: SCHEME://BUCKET/PATH, for s3 with pyarrow's options (?region=..., &endpoint_...).

    Raises:
        ObjectStoreError: no such kind of store, its package is not installed, or the address
            leads upwards.
    """

    def __init__(self, address: str) -> None:
        normal_form(address)
        self.address = address.rstrip("/")
        with _explained(self.address):
            self._fs, self._root = _file_system(self.address)

    def address_of(self, name: str) -> str:
        """The address of one object or of all below it."""
        base, mark, options = self.address.partition("?")
        return f"{base.rstrip('/')}/{name}{mark}{options}".rstrip("/")

    def list(self, prefix: str = "") -> dict[str, ObjectInfo]:
        """Every object whose name is `prefix` or lies below it."""
        below = self._at(prefix)
        with _explained(self.address):
            infos = [self._fs.get_file_info(below)] if prefix else []
            # A folder of a disk can be listed, a file of it cannot.
            if not any(info.type == pafs.FileType.File for info in infos):
                infos = self._fs.get_file_info(
                    pafs.FileSelector(below, recursive=True, allow_not_found=True)
                )
        objects = {
            info.path[len(self._root) + 1 :]: _info_of(info)
            for info in infos
            if info.type == pafs.FileType.File
        }
        for name in objects:
            if leads_upwards(name):
                raise ObjectStoreError(
                    f"{self.address}: the object {name!r} would be fetched to another folder: "
                    "delete it, and find out who wrote it"
                )
        return objects

    def stat(self, name: str) -> ObjectInfo | None:
        with _explained(self.address):
            info = self._fs.get_file_info(self._at(name))
        return _info_of(info) if info.type == pafs.FileType.File else None

    def read(self, name: str) -> bytes:
        """The whole object, empty if there is none."""
        if self.stat(name) is None:
            return b""
        with _explained(self.address), self._fs.open_input_stream(self._at(name)) as stream:
            content: bytes = stream.read()
        return content

    def write(self, name: str, content: bytes) -> None:
        with _explained(self.address):
            self._put(name, io.BytesIO(content))

    def upload(self, source: Path, name: str) -> ObjectInfo:
        """A copy of a local file; an earlier object of this name is there until it is whole.

        Raises:
            FileNotFoundError: there is no such file.
        """
        file = source.open("rb")
        with _explained(self.address):
            self._put(name, file)
            return _info_of(self._fs.get_file_info(self._at(name)))

    def download(self, name: str, target: Path) -> None:
        with (
            _explained(self.address),
            self._fs.open_input_stream(self._at(name)) as stream,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(stream, file, 2**23)

    def delete(self, name: str) -> None:
        """It is no error if there is none."""
        if self.stat(name) is not None:
            with _explained(self.address):
                self._fs.delete_file(self._at(name))

    def _put(self, name: str, content: BinaryIO) -> None:
        """Copy `content` to the object `name`, and close it.

        A stream of pyarrow makes an object of whatever it was given when it closes, be it the half.
        """

        def copy() -> None:
            with content:
                stream = self._new(name)
                try:
                    shutil.copyfileobj(content, stream, 2**23)
                except BaseException:
                    # What the store refused does not close, and is no object.
                    with suppress(Exception):
                        stream.close()
                        self._fs.delete_file(self._at(name))
                    raise
                stream.close()

        in_own_thread(copy)

    def _new(self, name: str) -> Any:
        path = self._at(name)
        if isinstance(self._fs, pafs.LocalFileSystem):
            self._fs.create_dir(str(Path(path).parent), recursive=True)
        return self._fs.open_output_stream(path)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root


def _file_system(address: str) -> tuple[Any, str]:
    try:
        system, path = pafs.FileSystem.from_uri(address)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if "nrecognized filesystem type" not in str(error):
            raise
        import fsspec

        other, path = fsspec.core.url_to_fs(address)
        system = pafs.PyFileSystem(pafs.FSSpecHandler(other))
    if isinstance(system, pafs.S3FileSystem):
        # An address has no option for it, and what pickle is given is all there is to build one of.
        build, (options,) = system.__reduce__()
        system = build({**options, "request_timeout": REQUEST_TIMEOUT_S})
    return system, path.rstrip("/")


def _info_of(entry: Any) -> ObjectInfo:
    written = entry.mtime
    return ObjectInfo(entry.size, int(written.timestamp()) if written is not None else 0)


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """A store's own words, and what to do about them."""
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        said = " ".join(str(error).split())
        raise ObjectStoreError(f"{address}: {said[:500]}; {_advice(address, said)}") from error


def _advice(address: str, said: str) -> str:
    kind, _, rest = address.partition("://")
    bucket = rest.partition("/")[0].partition("?")[0]
    low = said.lower()
    if "no_such_bucket" in low or "nosuchbucket" in low or "bucket does not exist" in low:
        return f"make the bucket {bucket!r} first, or correct its name"
    if any(word in low for word in ("access_denied", "access denied", "credential", "forbidden")):
        how = {
            "s3": "AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of "
            "the machine",
            "gs": "GOOGLE_APPLICATION_CREDENTIALS, or the machine's service account",
        }.get(kind, "the variables its fsspec package reads")
        return f"credentials come from {how}; they must be allowed to list, read, write and delete"
    if "protocol not known" in low or "install" in low:
        return "allowed: s3://, gs://, or a scheme whose fsspec package is installed"
    return "check the address, the region and the network (AWS_ENDPOINT_URL for other S3 stores)"
