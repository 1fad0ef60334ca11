"""The protocols there are: the folders of this package, by being there."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import TYPE_CHECKING, cast

from rldf_ray import protocols
from rldf_ray.errors import UserError
from rldf_ray.protocols.seam import StatementProtocol
from rldf_ray.protocols.study import Study

if TYPE_CHECKING:
    from rldf_ray.protocols.source import Source


class ProtocolError(UserError, ValueError):
    """A protocol is named that is not there; the message lists those that are."""


def _folders() -> list[str]:
    folders = (module for module in pkgutil.iter_modules(protocols.__path__) if module.ispkg)
    return sorted(folder.name for folder in folders)


def protocol_names() -> list[str]:
    """The protocols that make statements: folders whose package has `hold`."""
    return [name for name in _folders() if hasattr(_package(name), "hold")]


def source_names() -> list[str]:
    """The protocols whose training rows a run can take: folders with a `source.py`."""
    return [n for n in _folders() if importlib.util.find_spec(f"{protocols.__name__}.{n}.source")]


def source_named(name: str) -> Source:
    """How a protocol's folder takes topics for a run.

    Raises:
        ProtocolError: there is no such folder, or it takes none.
    """
    if name not in source_names():
        raise ProtocolError(_no_such_protocol(name))
    module = importlib.import_module(f"{protocols.__name__}.{name}.source")
    return cast("Source", module)


def protocol_named(name: str) -> StatementProtocol:
    """The protocol of a folder, to make statements.

    Raises:
        ProtocolError: there is no such folder.
    """
    if name not in protocol_names():
        raise ProtocolError(_no_such_protocol(name))
    return cast(StatementProtocol, _package(name))


def study_names() -> list[str]:
    """The protocols that can be studied by themselves: folders with a `study.py`."""
    return [n for n in _folders() if importlib.util.find_spec(f"{protocols.__name__}.{n}.study")]


def study_named(name: str) -> Study:
    """The study of a protocol's folder.

    Raises:
        ProtocolError: there is no such folder, or it has no study.
    """
    if name not in study_names():
        raise ProtocolError(f"study {name!r}: there is none; allowed: {', '.join(study_names())}")
    return cast(Study, importlib.import_module(f"{protocols.__name__}.{name}.study"))


def _no_such_protocol(name: str) -> str:
    allowed = sorted({*protocol_names(), *source_names()})
    return f"debate.protocol={name}: no such protocol; allowed: {', '.join(allowed)}"


def _package(name: str) -> object:
    return importlib.import_module(f"{protocols.__name__}.{name}")
