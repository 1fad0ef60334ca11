"""The sections about topics, debates and the data they become."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from rldf_ray.plan.request_fields import unset
from rldf_ray.plan.section import Section, described
from rldf_ray.plan.speaker import Backend, check_speaker, part_model

Filter = Literal["empty", "cut_off", "refusal", "off_language", "near_duplicate"]


class Topics(Section):
    model: Backend = part_model("who writes topics")
    per_bias_type: int = described(2000, "topics for each bias type", source="paper 4.1", ge=1)
    seeds_per_bias_type: int | None = described(
        None, "how many of them come from the bias type's file at most; null is all it has", ge=0
    )
    judgement_share: float = described(0.5, "share of judgement topics", ge=0, le=1)
    similarity: float = described(
        0.85,
        "a topic at least this similar to an earlier one is dropped (token-sort ratio)",
        gt=0,
        le=1,
    )
    batch: int = described(5, "topics asked for in one request", ge=1, le=50)
    tries: int = described(4, "requests made for each batch still missing before giving up", ge=1)
    debate_share: float = described(0.5, "share of topics that are debated", gt=0, lt=1)
    ppo_share: float = described(
        0.3, "share of topics that are PPO prompts; the rest is held out", gt=0, lt=1
    )

    @model_validator(mode="after")
    def _leaves_held_out_topics(self) -> Topics:
        if self.debate_share + self.ppo_share >= 1:
            raise ValueError(
                f"debate_share + ppo_share is {self.debate_share + self.ppo_share:g}; "
                "it must stay below 1, the rest of the topics is held out for evaluation"
            )
        return self


class DebateSection(Section):
    protocol: str = described(
        "multirole",
        "how statements come about: a folder of rldf_ray/protocols (docs/extending.md)",
        source="paper 3.1 (multirole)",
    )
    settings: dict[str, Any] | None = described(
        None,
        "of a protocol that is not multirole: fields of its study's settings (`rldf study fields "
        "NAME`) whose models are parts of this plan: debate, referee or topics (docs/sources.md)",
        exclude_if=unset,
    )
    model: Backend = part_model("who plays the debaters")
    seats: tuple[str, ...] | None = described(
        None,
        "a model for each debater, in their order: as many as `debaters`, each 'vllm:MODEL' or "
        "'openai:MODEL'; null: one model plays all of them",
        exclude_if=unset,
    )
    layout: Literal["shared", "paper"] = described(
        "shared",
        "order of a debater's prompt: topic and transcript first and the role last, which engines "
        "reuse for all roles, or the role first",
        source="paper 3.1 (paper)",
    )
    examples: int = described(
        0,
        "statements of other debates, written for this project, shown to debaters on opinions; on "
        "scenes none is",
        ge=0,
        le=6,
    )
    unknown: Literal["own", "bbq"] = described(
        "own",
        "how debaters on a scene are to say that something is not known: fourteen wordings of this "
        "project's, or twelve that hold the ten of BBQ's answer options",
    )
    answers: Literal["written", "chosen", "chosen_with_reason"] = described(
        "written",
        "how a scene is answered: in the debater's own words; by choosing, sampled, one of the two "
        "groups or that it is not known; or so, with a reason of at most max_tokens after it",
    )
    debates: int = described(
        5000,
        "debate instances over all bias types; topics are debated in turn",
        source="paper 5, dataset size",
        ge=1,
    )
    debaters: int = described(3, "debaters in a debate", source="paper 4.1", ge=2, le=5)
    rounds: int = described(5, "rounds in a debate", source="paper 4.1", ge=1)
    order: Literal["simultaneous", "sequential"] = described(
        "simultaneous", "whether the debaters of a round see each other's statements of that round"
    )
    show_marks: bool = described(
        True,
        "whether debaters are shown the referee's scores and ranks of earlier rounds",
        source="paper 3.1 (true)",
    )
    max_tokens: int = described(256, "longest statement", unit="tokens", ge=8)
    temperature: float = described(1.0, "sampling temperature of debaters", ge=0, le=2)
    top_p: float = described(
        0.95,
        "nucleus threshold of what debaters write; of answers to choose from each may be drawn",
        gt=0,
        le=1,
    )
    in_flight: int = described(64, "debates under way at once", ge=1)

    @model_validator(mode="after")
    def _a_model_for_each_debater(self) -> DebateSection:
        if self.seats is None:
            return self
        if len(self.seats) != self.debaters:
            raise ValueError(
                f"seats: names {len(self.seats)} models, and debaters={self.debaters}: name one "
                "for each debater, or none (null)"
            )
        if self.model is not None:
            raise ValueError(
                f"seats: they name who plays each debater, and model={self.model} who plays all: "
                "leave one of the two out"
            )
        for model in self.seats:
            try:
                check_speaker(model)
            except ValueError as error:
                text = str(error).replace("null, ", "")
                raise ValueError(f"seats: {text} (found {model!r})") from None
        return self


class DataSection(Section):
    pairing: Literal["same_topic", "same_role"] = described(
        "same_topic", "which statements may form a pair", source="paper 4.1 (same_topic)"
    )
    min_gap: float = described(
        0.0, "least difference of scores within a pair", unit="score 0-10", ge=0, le=10
    )
    pairs_per_topic: int | None = described(
        None, "pairs kept of each topic, widest gap first; null is all", ge=1
    )
    max_pairs: int | None = described(
        None,
        "most pairs: opinions, scenes, scenes with clue in turn, in each prompts in turn, widest "
        "gap first; null is all",
        ge=1,
    )
    max_sft: int | None = described(
        None,
        "most SFT examples: bias types in turn, in each opinions, scenes, scenes with clue in "
        "turn; null is all low-bias",
        ge=1,
    )
    filters: tuple[Filter, ...] = described(
        ("empty", "cut_off", "refusal", "off_language", "near_duplicate"),
        "which statements are left out of sft and pairs: without a word, without a whole sentence, "
        "the model declining, another language than `language`, nearly an earlier one of the same "
        "label",
    )
    language: str = described(
        "en", "what the statements are written in, for off_language", unit="ISO 639-1"
    )
    similarity: float = described(
        0.7,
        "near_duplicate: least share of three-word runs in common with an earlier statement of "
        "the same label on the same prompt (Jaccard index)",
        gt=0,
        le=1,
    )
