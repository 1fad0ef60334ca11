"""The plan itself: all sections together, and what has to agree between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from rldf_ray.plan.agreement import check_answers, check_batches, check_ppo
from rldf_ray.plan.counted import (
    COUNTED_BEFORE,
    RUNTIME_FIELDS,
    counted,
    without_added_fields,
)
from rldf_ray.plan.debating import DataSection, DebateSection, Topics
from rldf_ray.plan.endpoint import Endpoint
from rldf_ray.plan.engines import EnginesSection
from rldf_ray.plan.evaluating import EvaluateSection
from rldf_ray.plan.preference import DPOSection, KTOSection
from rldf_ray.plan.prompts import PROMPTS, OwnPrompts
from rldf_ray.plan.refereeing import RefereeSection
from rldf_ray.plan.request_fields import TemplateValues, unset
from rldf_ray.plan.section import Section, described
from rldf_ray.plan.speaker import TRAINED, Backend, Speaker
from rldf_ray.plan.training import PPOSection, RewardSection, SFTSection, TrainSection
from rldf_ray.prompts.own import PromptError, check_prompts
from rldf_ray.storage.digest import digest
from rldf_ray.storage.yaml_text import yaml_text

Part = Literal["topics", "debate", "referee"]
PARTS: tuple[Part, ...] = ("topics", "debate", "referee")
CRITIC, POOL = "critic", "pool:"
"""Parts of a referee that debates, or of one above a pool (POOL and a member)."""
SEAT = "seat:"
"""Part of one debater (SEAT and its place from 0), where each has a model of its own."""


class Plan(Section):
    """Everything a run depends on. Defaults are the paper's where it gives a value."""

    name: str = described("run", "what reports call this run")
    seed: int = described(0, "root of every seed in the run", ge=0, le=2**31 - 1)
    bias_types: tuple[str, ...] = described(
        ("age", "nationality", "institution", "beauty", "profession"),
        "bias types, each a file in rldf_ray/topics/bias_types or a path to one of yours",
        source="paper 4.1",
        min_length=1,
    )
    model: str = described(
        "embedded", "the model to be debiased: 'embedded', a Hugging Face folder or a hub id"
    )
    teacher: Backend = described(
        None,
        "who debates, and referees if prompted: null is the model itself (self-reflection); "
        "'vllm:MODEL' or 'openai:MODEL' is a stronger one (teacher-student); 'scripted:SECONDS' "
        "is no model at all: made-up sentences after a delay, to try a setup",
        source="paper 3.1",
    )
    chat_template_kwargs: TemplateValues = described(
        None,
        "values for the chat templates of `model` and of models on engines, as "
        "{enable_thinking: false}; trained models keep them as their template's defaults",
        exclude_if=unset,
    )
    prompts: OwnPrompts = described(None, PROMPTS, exclude_if=unset)
    endpoint: Endpoint = Field(default_factory=Endpoint)
    topics: Topics = Field(default_factory=Topics)
    debate: DebateSection = Field(default_factory=DebateSection)
    referee: RefereeSection = Field(default_factory=RefereeSection)
    data: DataSection = Field(default_factory=DataSection)
    sft: SFTSection = Field(default_factory=SFTSection)
    reward: RewardSection = Field(default_factory=RewardSection)
    ppo: PPOSection = Field(default_factory=PPOSection)
    dpo: DPOSection = Field(default_factory=DPOSection)
    kto: KTOSection = Field(default_factory=KTOSection)
    train: TrainSection = Field(default_factory=TrainSection)
    engines: EnginesSection = Field(default_factory=EnginesSection)
    evaluate: EvaluateSection = Field(default_factory=EvaluateSection)

    @field_validator("bias_types")
    @classmethod
    def _no_bias_type_twice(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a bias type is named twice")
        names = Counter(PurePath(name).stem for name in value)
        twice = sorted(name for name, number in names.items() if number > 1)
        # A run is read whatever its ids are.
        if twice and not (info.context or {}).get("saved"):
            raise ValueError(
                f"{', '.join(twice)}: the name of two bias types, whose topics would have the same "
                "ids; allowed: another name for your file"
            )
        return value

    @model_validator(mode="after")
    def _prompts_are_filled_in_as_shipped_ones(self, info: ValidationInfo) -> Plan:
        # A run is read whatever has become of the shipped ones since it was begun.
        if self.prompts is not None and not (info.context or {}).get("saved"):
            try:
                check_prompts(self.prompts, self.prompt_scopes())
            except PromptError as error:
                raise ValueError(f"prompts: {error}") from None
        return self

    @model_validator(mode="after")
    def _only_choices_are_matched(self) -> Plan:
        if self.referee.judgements != "matched":
            return self
        if self.debate.answers == "written":
            raise ValueError(
                "referee.judgements=matched with debate.answers=written: only answers that are "
                "chosen can be matched word for word; set debate.answers=chosen, or "
                "referee.judgements=checked"
            )
        if self.referee.fitted and self.topics.judgement_share == 1:
            raise ValueError(
                "referee.judgements=matched with topics.judgement_share=1 leaves nothing to a "
                f"referee that is fitted: set referee.kind=prompted (found {self.referee.kind})"
            )
        return self

    @model_validator(mode="after")
    def _sections_agree(self, info: ValidationInfo) -> Plan:
        check_batches(self)
        # A run is read whatever became of it.
        if not (info.context or {}).get("saved"):
            check_answers(self)
            check_ppo(self)
        return self

    def prompt_scopes(self) -> tuple[str, ...]:
        """The folders of `rldf_ray` whose prompts topics, debates and referee are sent."""
        return ("topics", "referee", f"protocols/{self.debate.protocol}", "protocols/judges")

    def speaker_of(self, part: str) -> Speaker:
        """Who plays `part`: 'vllm:MODEL', 'openai:MODEL', 'scripted:SECONDS' or 'trained:MODEL'.

        The last is a referee only, fitted from MODEL in the run. Parts are `PARTS`, and those of
        `debate_parts` and `referee_parts`.
        """
        if part.startswith(SEAT):
            assert self.debate.seats is not None
            return Speaker.parse(self.debate.seats[int(part.removeprefix(SEAT))])
        if part.startswith(POOL):
            member = part.removeprefix(POOL)
            return self.fitted_speaker() if member == TRAINED else Speaker.parse(member)
        if part == CRITIC:
            critic = self.referee.critic
            return self.speaker_of("referee") if critic is None else Speaker.parse(critic)
        if part == "referee" and self.referee.kind == "trained":
            return self.fitted_speaker()
        own = {
            "topics": self.topics.model,
            "debate": self.debate.model,
            "referee": self.referee.model,
        }
        named = own[part] or self.teacher
        return Speaker("vllm", self.model) if named is None else Speaker.parse(named)

    def speakers(self) -> tuple[Speaker, ...]:
        """The models that play the parts, each once."""
        parts = ("topics", *self.debate_parts(), "referee", *self.referee_parts())
        return tuple(dict.fromkeys(self.speaker_of(part) for part in parts))

    def debate_parts(self) -> tuple[str, ...]:
        """Who debates: one part for all debaters, or one for each seat in their order."""
        if self.debate.seats is None:
            return ("debate",)
        return tuple(f"{SEAT}{seat}" for seat in range(self.debate.debaters))

    def debaters(self) -> tuple[Speaker, ...]:
        """The models of the debaters, in the order of their seats."""
        parts = self.debate_parts()
        return tuple(self.speaker_of(parts[i % len(parts)]) for i in range(self.debate.debaters))

    def referee_parts(self) -> tuple[str, ...]:
        """Who referees besides the referee's own model: a critic, or the members of a pool."""
        if self.referee.kind == "debate":
            return (CRITIC,)
        return tuple(f"{POOL}{member}" for member in self.referee.pool or ())

    def fitted_speaker(self) -> Speaker:
        """The reward model that a run fits, as a referee or in a pool."""
        return Speaker(TRAINED, self.referee.fit.model or self.model)

    def request_fields(self, speaker: Speaker) -> Mapping[str, Any]:
        """What the plan adds to all requests to a speaker; it is part of what is requested."""
        if speaker.paid:
            return self.endpoint.request_fields()
        if speaker.local and self.chat_template_kwargs is not None:
            return {"chat_template_kwargs": self.chat_template_kwargs}
        return {}

    def digest(self) -> str:
        """A hash of everything that shapes the results; `RUNTIME_FIELDS` do not."""
        return self._digest(COUNTED_BEFORE)

    def earlier_digest(self) -> str:
        """What `digest` was as long as it told plans apart by `COUNTED_BEFORE`."""
        return self._digest({})

    def _digest(self, uncounted: Mapping[str, object]) -> str:
        values = counted(
            self.model_dump(mode="json"),
            runtime=RUNTIME_FIELDS,
            before=COUNTED_BEFORE,
            uncounted=uncounted,
        )
        return digest(without_added_fields(values))

    def to_yaml(self) -> str:
        return yaml_text(self.model_dump(mode="json"))
