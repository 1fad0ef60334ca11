"""Who referees: the run's trained referee where there is one, else a served model, prompted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.engines import EngineFailedError, EngineGoneError, EngineRefusedError
from rldf_ray.models.base import ChatModel, ChatRequest, Completion, ModelError, Usage
from rldf_ray.referee.platt import Calibration
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.trained import TrainedReferee
from rldf_ray.referee.verdict import Referee

TRAINED = "trained"


class Rewards(Protocol):
    """The trained referee's model, wherever it runs."""

    async def reward(self, prompt: Sequence[dict[str, str]], text: str) -> tuple[float | None, int]:
        """The reward of `text` after `prompt`, None where there is no room for it; tokens read.

        Raises:
            EngineGoneError: the model is gone.
            EngineFailedError: it lives, and cannot score the text.
            EngineRefusedError: its chat template does not write the text as it is.
        """
        ...


@dataclass(frozen=True)
class TrainedModel:
    """The trained referee's model behind the interface that referees speak with.

    Attributes:
        caller: who pays for the tokens that it reads.
    """

    rewards: Rewards
    revision: str
    timeout_s: float
    caller: Caller | None = None
    name: str = TRAINED

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """The reward of the last message, as text.

        Raises:
            ModelError: the model is gone, failed, took too long, or cannot read the message.
        """
        caller = self.caller or Caller()
        *prompt, last = [{"role": m.role, "content": m.content} for m in request.messages]
        try:
            async with asyncio.timeout(self.timeout_s):
                reward, tokens = await self.rewards.reward(prompt, last["content"])
        except (EngineGoneError, EngineRefusedError) as error:
            raise ModelError(str(error)) from error
        except EngineFailedError as error:
            caller.cut_short()
            raise ModelError(str(error)) from error
        except TimeoutError as error:
            caller.cut_short()
            raise ModelError("the trained referee gave no answer in time") from error
        caller.tokens += tokens
        text = "" if reward is None else repr(reward)
        return (
            Completion(
                text=text,
                finish_reason="stop",
                usage=Usage(prompt=tokens),
                model=self.name,
                revision=self.revision,
            ),
        )


def trained_referee(folder: Path, rewards: Rewards, timeout_s: float) -> TrainedReferee:
    """The referee of a run folder's `referee/`: its model's rewards, calibrated as they were."""
    fitted: dict[str, Any] = json.loads((folder / "calibration.json").read_text(encoding="utf-8"))
    calibration = Calibration(fitted["slope"], fitted["intercept"], fitted["statements"])
    return TrainedReferee(TrainedModel(rewards, fitted["revision"], timeout_s), calibration)


@dataclass(frozen=True)
class Judge:
    """A referee, and what answers call its model."""

    referee: Referee
    model: str

    @classmethod
    def of(
        cls, trained: TrainedReferee | None, prompted: ChatModel, seed: int, caller: Caller
    ) -> Judge:
        """The trained one where there is one, at the caller's expense as the prompted one is."""
        if trained is None:
            return cls(PromptedReferee(prompted, seed), prompted.name)
        if isinstance(trained.model, TrainedModel):
            trained = replace(trained, model=replace(trained.model, caller=caller))
        return cls(trained, trained.model.name)
