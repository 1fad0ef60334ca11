"""The sections about the referee: who it is, what it is fitted to, how scores become labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from rldf_ray.plan.request_fields import unset
from rldf_ray.plan.section import Section, described
from rldf_ray.plan.speaker import TRAINED, Backend, check_speaker, part_model

ROUNDS, EVALUATION_TOKENS = 1, 96
"""What null stands for in `referee.rounds` and `referee.evaluation_tokens`."""


class RefereeFitSection(Section):
    model: str | None = described(
        None, "the trained referee starts from it: a Hugging Face folder or hub id; null is `model`"
    )
    bias_types: tuple[str, ...] | None = described(
        None,
        "whose labelled statements it is fitted to and audited on; null is the plan's bias types",
        min_length=1,
        exclude_if=unset,
    )
    layers: int | None = described(
        None,
        "lowest transformer layers that are kept; null is half of them, as the upper ones turn to "
        "the next word",
        ge=1,
    )
    trained_layers: int = described(
        0,
        "uppermost of the kept layers that learn, beside norm and score head; they want a learning "
        "rate near 1e-4",
        ge=0,
    )
    learning_rate: float = described(1e-2, "peak learning rate", gt=0)
    batch_size: int = described(16, "pairs an optimizer step", ge=1)
    micro_batch: int = described(16, "pairs a forward pass of one worker", ge=1)
    epochs: float = described(5.0, "passes over the pairs", gt=0)
    centre: float = described(
        0.01,
        "weight of (R(fair) + R(biased))^2 in the loss, without which rewards in two contexts do "
        "not compare",
        source="Eisenstein et al. 2023, eq. 2",
        ge=0,
    )
    max_length: int = described(
        512, "longest context and statement, the statement cut on the right", unit="tokens", ge=16
    )
    held_out_share: float = described(
        0.2,
        "share of the topics that its scores are calibrated on instead of trained on",
        source="Platt 1999",
        gt=0,
        lt=1,
    )

    @field_validator("bias_types")
    @classmethod
    def _none_twice(
        cls, value: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        twice = sorted({name for name in value or () if (value or ()).count(name) > 1})
        # A run is read whatever it was fitted to.
        if twice and not (info.context or {}).get("saved"):
            raise ValueError(f"{', '.join(twice)}: named twice; each counts once, so name it once")
        return value


class RefereeSection(Section):
    kind: Literal["prompted", "trained", "debate", "meta"] = described(
        "prompted",
        "a language model that is asked; a reward model that the run fits to labelled statements; "
        "a judge who debates each statement with a critic; a judge above a pool (docs/referee.md)",
    )
    model: Backend = part_model("who referees, or judges in debate or above a pool")
    critic: Backend = described(
        None,
        "kind=debate: who attacks the judge's evaluations, as 'vllm:MODEL'; null is the judge",
        exclude_if=unset,
    )
    rounds: int | None = described(
        None, "kind=debate: rounds of critic and judge; null is 1", ge=1, exclude_if=unset
    )
    pool: tuple[str, ...] | None = described(
        None,
        "kind=meta: two to nine referees, each 'vllm:MODEL', 'openai:MODEL' or 'trained', the "
        "model that the run fits",
        exclude_if=unset,
    )
    mode: Literal["select", "conclude"] | None = described(
        None,
        "kind=meta: the judge names the best referee, whose score counts, or scores anew; null is "
        "conclude",
        exclude_if=unset,
    )
    evaluation_tokens: int | None = described(
        None,
        "kind=debate, meta: longest evaluation before a score; null is 96",
        unit="tokens",
        ge=8,
        exclude_if=unset,
    )
    fit: RefereeFitSection = Field(default_factory=RefereeFitSection)
    judgements: Literal["scored", "checked", "matched"] = described(
        "scored",
        "statements on a scene: scored as all others; checked against what the topic's record says "
        "can be concluded; or, where answers are chosen, matched with it without asking anybody "
        "(docs/referee.md)",
    )
    label_source: Literal["said", "expected"] = described(
        "said",
        "which score labels a statement: the one said, or the referee's expectation",
        source="paper 3.1 (said)",
    )
    threshold_kind: Literal["absolute", "relative"] = described(
        "absolute",
        "high bias is above `threshold`, or above the mean of its round",
        source="paper 3.1 (absolute)",
    )
    threshold: float = described(
        3.0,
        "absolute: a score above it is high bias",
        unit="score 0-10",
        source="paper 3.1",
        ge=0,
        le=10,
    )
    audit_pairs: int | None = described(
        None,
        "held-out labelled pairs of each bias type in the audit, a seeded sample; null is all",
        ge=1,
    )
    min_auc: float | None = described(
        None,
        "least AUC the audit must find on each kind of topic that is debated; null asks for none",
        ge=0,
        le=1,
    )
    below_min_auc: Literal["stop", "warn"] = described(
        "stop", "what a run does whose referee's AUC is below `min_auc`"
    )

    @model_validator(mode="after")
    def _a_trained_one_is_not_asked(self) -> RefereeSection:
        if self.kind == "trained" and self.model is not None:
            raise ValueError(
                f"kind=trained with model={self.model}: a trained referee is no speaker; name what "
                "it starts from in referee.fit.model, or set kind=prompted"
            )
        if self.kind != "prompted" and self.judgements == "checked":
            raise ValueError(
                f"judgements=checked with kind={self.kind}: only a prompted referee is asked "
                "whether a statement is right; set kind=prompted or judgements=scored"
            )
        return self

    @model_validator(mode="after")
    def _only_its_own_fields(self) -> RefereeSection:
        of_kind = {"debate": ("critic", "rounds"), "meta": ("pool", "mode")}
        for kind, names in of_kind.items():
            for name in names:
                if kind != self.kind and getattr(self, name) is not None:
                    raise ValueError(f"{name} is for kind={kind}, and kind is {self.kind}")
        if self.kind not in of_kind and self.evaluation_tokens is not None:
            raise ValueError(f"evaluation_tokens is for kind=debate or meta, not {self.kind}")
        if self.kind == "meta":
            pool = self.pool or ()
            if not 2 <= len(pool) <= 9 or len(set(pool)) < len(pool):
                raise ValueError(f"pool: {list(pool)} is not two to nine different referees")
            for member in pool:
                if member != TRAINED:
                    check_speaker(member)
        return self

    @property
    def fitted(self) -> bool:
        """Whether the run fits a reward model: as the referee, or as one of its pool."""
        return self.kind == "trained" or TRAINED in (self.pool or ())
