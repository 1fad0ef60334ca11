"""Who is asking, on the way of a request through the server."""

from __future__ import annotations

from dataclasses import dataclass, field

from rldf_ray.apps.serve.engines import Target
from rldf_ray.apps.serve.keys import Key


@dataclass
class Caller:
    """Who is asking, and what the answer has cost so far; travels in the request's state.

    Attributes:
        targets: where its calls of each model go, in the order in which they were first asked.
        prompt: tokens of the body, by its length.
    """

    key: Key | None = None
    targets: dict[str, Target] = field(default_factory=dict)
    tokens: int = 0
    prompt: int = 0
    reserved: int = 0
    _cut_short: bool = False

    def cut_short(self) -> None:
        """Count the prompt, once: an engine has read it, and will not tell what it took."""
        if not self._cut_short:
            self._cut_short = True
            self.tokens += self.prompt
