"""The Python blocks of docs/python.md, which tests run as they are written."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block_with(call: str) -> str:
    """The one block that has this call."""
    (block,) = (block for block in BLOCKS if call in block)
    return block
