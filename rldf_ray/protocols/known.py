"""The protocols there are: the folders of this package, by being there."""

from __future__ import annotations

import importlib
import pkgutil
from typing import cast

from rldf_ray import protocols
from rldf_ray.errors import UserError
from rldf_ray.protocols.seam import StatementProtocol


class ProtocolError(UserError, ValueError):
    """A plan names a protocol that is not there; the message lists those that are."""


def protocol_names() -> list[str]:
    """Names of all protocols, which are those of their folders; none is imported."""
    folders = (module for module in pkgutil.iter_modules(protocols.__path__) if module.ispkg)
    return sorted(folder.name for folder in folders)


def protocol_named(name: str) -> StatementProtocol:
    """The protocol of a folder.

    Raises:
        ProtocolError: there is no such folder.
    """
    if name not in protocol_names():
        raise ProtocolError(
            f"debate.protocol={name}: no such protocol; allowed: {', '.join(protocol_names())}"
        )
    return cast(StatementProtocol, importlib.import_module(f"{protocols.__name__}.{name}"))
