"""Text files that people give: UTF-8, gzip or plain; an error names the file and the place."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from rldf_ray.errors import UserError

GZIP = b"\x1f\x8b"


class TextError(UserError, ValueError):
    """A file is no UTF-8 text; the message names it, and says where it is none and what to do."""


def given_text(path: Path) -> str:
    """The whole text of a file, gzip or plain, whatever its name says; no byte order mark.

    Raises:
        OSError: the file cannot be read.
        TextError: it is a broken gzip file, or no UTF-8 text.
    """
    data = path.read_bytes()
    if path.suffix == ".gz" or data[:2] == GZIP:
        try:
            data = gzip.decompress(data)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TextError(
                f"{path}: broken gzip file ({error}); copy it again, or compress it again"
            ) from error
    # UTF-16 without its mark is UTF-8 with a NUL beside each letter.
    place = data.find(0)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    if place >= 0:
        raise TextError(f"{path}: byte {place} is NUL, which no text holds; save it as UTF-8")
    return text
