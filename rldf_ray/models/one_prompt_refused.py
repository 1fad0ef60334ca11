"""A prompt that a model cannot read is one item's failure, and ends nothing else."""

from __future__ import annotations

import logging

from rldf_ray.models.base import (
    ChatModel,
    ChatRequest,
    Completion,
    PromptTooLongError,
    Usage,
)

log = logging.getLogger(__name__)


class OnePromptRefused:
    """Answers as `model` does; a prompt that is too long has no text, and a `refusal` says why.

    Items differ in length, and the longest may be one of thousands. It is asked again whenever the
    work goes on, as an endpoint may have made room for it.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._warned = False

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        try:
            return await self._model.complete(request)
        except PromptTooLongError as error:
            if not self._warned:
                self._warned = True
                log.warning("%s; such items count as failed, and the others go on", error)
            none = Completion(
                text="",
                finish_reason="length",
                usage=Usage(),
                model=self.name,
                revision=self.name,
                refusal=str(error),
            )
            return (none,) * request.n
