"""Who speaks: a backend and the model it serves, read once from a plan's 'vllm:MODEL'."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Annotated, Any, cast

from pydantic import AfterValidator

from rldf_ray.plan.section import described
from rldf_ray.storage.home_path import home_path

# Loaded by name, as plans stand below engines: a backend's facts are light, what computes is not.
BACKENDS = "rldf_ray.engines.backends"
TRAINED = "trained"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFacts:
    """What plans, placements and checks have to know of a backend.

    Attributes:
        form: what stands after the colon, as messages name it.
        paid: an endpoint answers, which may charge for it.
        local: the model's weights are loaded here, so that it computes on this machine's cores.
        on_engines: it takes the plan's engines, `engines.count` of them.
        named_in_plans: a field of a plan may name it.
    """

    form: str
    paid: bool
    local: bool
    on_engines: bool
    named_in_plans: bool = True


@dataclass(frozen=True, slots=True)
class Speaker:
    """A model and the backend that serves it.

    Attributes:
        backend: a file in `engines/backends`; empty where a text names none.
        model: what stands after the colon, as the backend understands it.
    """

    backend: str
    model: str

    @classmethod
    def parse(cls, text: str) -> Speaker:
        backend, colon, model = text.partition(":")
        return cls(backend, model) if colon else cls("", text)

    def __str__(self) -> str:
        """The text it was read from; records, digests and journals hold it."""
        return f"{self.backend}:{self.model}" if self.backend else self.model

    @property
    def name(self) -> str:
        """What local models' answers are recorded under: of vLLM's the model, else the text."""
        return self.model if self.backend == "vllm" else str(self)

    @property
    def weights(self) -> str:
        """The model, whatever serves it; a local folder goes by one name however it is written."""
        folder = home_path(self.model)
        return str(folder.resolve()) if folder.is_dir() else self.model

    @property
    def paid(self) -> bool:
        """Whether an endpoint answers, which may charge for it."""
        return backend_facts(self.backend).paid

    @property
    def local(self) -> bool:
        """Whether its weights are loaded here, so that it computes on this machine's cores."""
        return backend_facts(self.backend).local

    @property
    def on_engines(self) -> bool:
        """Whether it takes the plan's engines: `engines.count` of them."""
        return backend_facts(self.backend).on_engines


def backend_names() -> tuple[str, ...]:
    """The backends there are, listed without importing them."""
    folders = importlib.import_module(BACKENDS).__path__
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folders)))


def backend_facts(name: str) -> BackendFacts:
    return cast(BackendFacts, _backend(name).FACTS)


def named_backends() -> tuple[str, ...]:
    """The backends that a field of a plan may name."""
    return tuple(name for name in backend_names() if backend_facts(name).named_in_plans)


def check_speaker(text: str) -> None:
    """Refuse what no plan may name.

    Raises:
        ValueError: with what is allowed.
    """
    speaker = Speaker.parse(text)
    if speaker.backend not in named_backends():
        *forms, last = (f"'{name}:{backend_facts(name).form}'" for name in named_backends())
        raise ValueError(f"allowed: null, {', '.join(forms)} or {last}")
    _backend(speaker.backend).check(speaker.model)


def check_model(backend: str, model: str) -> None:
    """What most backends want after the colon."""
    if not model:
        raise ValueError(f"after '{backend}:' comes a model")


def _backend(name: str) -> Any:
    return importlib.import_module(f"{BACKENDS}.{name}")


def part_model(part: str) -> Any:
    """The field that gives a part of the debate a model of its own."""
    return described(None, f"{part}: 'vllm:MODEL', 'openai:MODEL'; null is the teacher")


def _names_a_backend(value: str | None) -> str | None:
    if value is not None:
        check_speaker(value)
    return value


Backend = Annotated[str | None, AfterValidator(_names_a_backend)]
