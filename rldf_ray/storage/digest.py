"""Digests that stay the same over machines and versions."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def digest(*parts: object) -> str:
    """A hash of JSON-able values; equal values give equal hashes on every machine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_digest(text: str) -> str:
    """SHA-256 of a text as UTF-8, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
