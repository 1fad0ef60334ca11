"""The plan of a study: which models take part, on what, and the study's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from rldf_ray.plan.counted import STUDY_COUNTED_BEFORE, STUDY_RUNTIME_FIELDS, counted
from rldf_ray.plan.endpoint import Endpoint
from rldf_ray.plan.engines import EnginesSection
from rldf_ray.plan.prompts import PROMPTS, OwnPrompts
from rldf_ray.plan.request_fields import TemplateValues, unset
from rldf_ray.plan.section import Section, described
from rldf_ray.plan.speaker import Speaker, check_speaker
from rldf_ray.storage.digest import digest
from rldf_ray.storage.yaml_text import yaml_text


class StudyPlan(Section):
    """Everything a study depends on. `settings` are of the protocol that is studied."""

    name: str = described("study", "what reports call this study")
    seed: int = described(1234, "root of every seed in the study", ge=0, le=2**31 - 1)
    models: dict[str, str] = described(
        {}, "who takes part: a name, and 'vllm:MODEL', 'openai:MODEL' or another backend's"
    )
    in_flight: int = described(64, "items held at once", ge=1)
    take_turns: bool | None = described(
        None,
        "local models are loaded one at a time; null: where memory or GPUs do not do for all",
    )
    chat_template_kwargs: TemplateValues = described(
        None, "values for the chat templates of models on engines", exclude_if=unset
    )
    prompts: OwnPrompts = described(None, PROMPTS, exclude_if=unset)
    endpoint: Endpoint = Field(default_factory=Endpoint)
    engines: EnginesSection = Field(default_factory=EnginesSection)
    settings: dict[str, Any] = described({}, "the study's own; `rldf study fields NAME` lists them")

    @field_validator("models")
    @classmethod
    def _known_backends(cls, value: dict[str, str]) -> dict[str, str]:
        if not value:
            raise ValueError("name the models that take part, as {a: 'vllm:MODEL'}")
        for name, model in value.items():
            if not name or any(sign in name for sign in "/+"):
                raise ValueError(
                    f"{name!r} is no name for a model: it holds '/' or '+', or nothing"
                )
            try:
                check_speaker(model)
            except ValueError as error:
                raise ValueError(f"{name}: {error} (found {model!r})") from None
        return value

    def speaker_of(self, part: str) -> Speaker:
        """Who a name in `models` stands for."""
        return Speaker.parse(self.models[part])

    def speakers(self) -> tuple[Speaker, ...]:
        """The models that take part, each once."""
        return tuple(dict.fromkeys(map(Speaker.parse, self.models.values())))

    def request_fields(self, speaker: Speaker) -> Mapping[str, Any]:
        """What the plan adds to all requests to a speaker; it is part of what is requested."""
        if speaker.paid:
            return self.endpoint.request_fields()
        if speaker.local and self.chat_template_kwargs is not None:
            return {"chat_template_kwargs": self.chat_template_kwargs}
        return {}

    def digest(self) -> str:
        """A hash of everything that shapes the results; `STUDY_RUNTIME_FIELDS` do not."""
        return self._digest(STUDY_COUNTED_BEFORE)

    def earlier_digest(self) -> str:
        """What `digest` was as long as it told plans apart by `STUDY_COUNTED_BEFORE`."""
        return self._digest({})

    def _digest(self, uncounted: Mapping[str, object]) -> str:
        return digest(
            counted(
                self.model_dump(mode="json"),
                runtime=STUDY_RUNTIME_FIELDS,
                before=STUDY_COUNTED_BEFORE,
                uncounted=uncounted,
            )
        )

    def to_yaml(self) -> str:
        return yaml_text(self.model_dump(mode="json"))
