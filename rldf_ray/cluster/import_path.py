"""Where a process of this machine, started by Ray or by us, finds the package."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])


def import_path() -> str:
    """PYTHONPATH for such a process: the caller's, after the checkout where one is used.

    An installed package is found without; its folder, in front of the standard library, would let
    any package there take the place of one of its modules.
    """
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    installed = ROOT in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return os.pathsep.join(given if installed or ROOT in given else [ROOT, *given])
