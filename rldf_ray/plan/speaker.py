"""Who speaks: a backend and the model it serves, read once from a plan's 'vllm:MODEL'."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Speaker:
    """A model and the backend that serves it.

    Attributes:
        backend: 'vllm', 'openai', 'scripted' or 'trained'; empty where a text names none.
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
    def weights(self) -> str:
        """The model, whatever serves it; a local folder goes by one name however it is written."""
        folder = Path(self.model).expanduser()
        return str(folder.resolve()) if folder.is_dir() else self.model

    @property
    def paid(self) -> bool:
        """Whether an endpoint answers, which may charge for it."""
        return self.backend == "openai"

    @property
    def local(self) -> bool:
        """Whether its weights are loaded here, so that it computes on this machine's cores."""
        return self.backend in ("vllm", TRAINED)

    @property
    def on_engines(self) -> bool:
        """Whether it takes the plan's engines: `engines.count` of them."""
        return self.backend in ("vllm", "scripted")


TRAINED = "trained"
