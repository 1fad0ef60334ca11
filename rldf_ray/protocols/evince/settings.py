"""What a study of EVINCE is given (Chang 2024); `source` says where a field is from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from rldf_ray.plan.section import Section, described
from rldf_ray.protocols.evince.scale import kept_scale

Arm = Literal[
    "main", "untold", "swapped", "same_stance", "schedule", "held_high", "held_low", "duality"
]
Baseline = Literal["one_shot", "mean_of_two", "self_consistency"]
Reader = str


class Steering(Section):
    controller: Literal["measured", "schedule", "decay", "printed"] = described(
        "measured",
        "what lowers contentiousness: the divergences, each over its largest value so far; the "
        "paper's levels; a division by 1.2; or the paper's formula with its maxima",
        source="paper, Table 9 (schedule), appendix F (printed); choice (measured)",
    )
    start: float = described(
        0.9, "contentiousness of the first round", source="paper, Figure 1", ge=0, le=1
    )
    levels: tuple[float, ...] = described(
        (0.9, 0.7, 0.3, 0.1), "of `schedule`; the last one stays", source="paper, Table 9"
    )
    weights: tuple[float, float, float] = described(
        (1 / 3, 1 / 3, 1 / 3), "of KL, JSD and WD", source="paper, appendix F"
    )
    lowest: float = described(0.1, "contentiousness never falls below it", ge=0, le=1)
    highest: float = described(0.9, "contentiousness never rises above it", ge=0, le=1)
    may_rise: bool = described(False, "contentiousness may rise again")

    @model_validator(mode="after")
    def _within(self) -> Steering:
        if not self.levels or not all(0 <= level <= 1 for level in self.levels):
            raise ValueError("levels: one or more, each from 0 to 1")
        if min(self.weights) < 0 or sum(self.weights) <= 0:
            raise ValueError("weights: none below 0, and not all 0")
        if self.lowest > self.highest:
            raise ValueError("lowest: is above highest")
        return self


class Stopping(Section):
    """All conditions must hold in `rounds_running` rounds; null switches one off."""

    wd: float | None = described(0.03, "WD over the scale's width is below it", ge=0)
    jsd: float | None = described(0.01, "JSD is below it", unit="bits", ge=0)
    ce: float | None = described(0.1, "cross entropy changed by less", unit="bits", ge=0)
    moved: float | None = described(0.1, "neither distribution moved farther (Euclidean)", ge=0)
    repeated: float | None = described(
        0.85, "both sides repeat more than this share of their last arguments", ge=0, le=1
    )
    crit: float | None = described(0.5, "both sides' reasons are at least this good", ge=0, le=1)
    nmi: float | None = described(None, "coupling NMI is above it", ge=0, le=1)
    rounds_running: int = described(2, "rounds in which all must hold", source="paper 3.2.3", ge=1)
    agreed: bool = described(True, "equal distributions and good reasons end at once")
    no_progress: bool = described(True, "two unchanged rounds at the lowest level end it")
    max_rounds: int = described(6, "rounds at most", ge=1)


class CritSection(Section):
    form: Literal["reasons", "rubric", "off"] = described(
        "reasons",
        "each argument by itself against rivals, a rubric for the whole turn, or none",
        source="paper 3.2.3 (the criteria); choice",
    )
    judges: int = described(3, "judgements averaged, of `rubric`", ge=1)
    temperature: float = described(0.3, "of `rubric`'s judgements", ge=0)
    weak: float = described(0.5, "an argument that scores less is flagged", ge=0, le=1)
    weights: Literal["last", "mean"] = described(
        "last", "whose quality weighs the mixture: the last round's, or the mean of all rounds"
    )


class EvinceSettings(Section):
    """A study of labels that two models dispute."""

    data: str = described(
        "",
        "texts with given labels: a JSONL or CSV file, a reader's own form, or `examples` "
        "(docs/evince.md)",
    )
    reader: Reader = described("plain", "how `data` is read: plain, biaslab, budak or mbic")
    items: int | None = described(None, "items at most, a seeded sample; null is all", ge=1)
    scale: str | dict[str, Any] = described(
        "toward",
        "a label scale by name, or a YAML file of one's own, which the plan of the study's folder "
        "holds whole",
    )
    targets: tuple[str, ...] = described(
        (), "who or what the label is about; each text is debated once for each"
    )
    text_tokens: int = described(
        3000, "longest text; a longer one is cut at a sentence and marked", unit="tokens", ge=50
    )
    a: str = described("a", "the model in the seat of A, by its name in `models`")
    b: str = described("b", "the model in the seat of B")
    judge: str = described("judge", "the model that rates reasons, and never takes part")
    arms: tuple[Arm, ...] = described(
        ("main",),
        "dialogues that are held about each item: as planned, and what it is held against; in "
        "`untold` no side is told a given label",
    )
    baselines: tuple[Baseline, ...] = described(
        ("one_shot",), "labels of A's model without a dialogue; self-consistency at equal tokens"
    )
    baseline_temperature: float = described(
        0.7, "of the answers of mean_of_two and self_consistency", ge=0
    )
    given: Literal["both", "first", "none"] = described(
        "both", "given labels that are defended: A the first and B the second, or the first alone"
    )
    rates: Literal["item", "positions"] = described(
        "item",
        "what is rated: the text, or both sides' positions on it",
        source="paper 4.1 (item) and 4.2 (positions)",
    )
    positions: tuple[str, str] = described(
        ("", ""), "of `rates: positions`: what A and what B stands for"
    )
    initial: Literal["natural", "duality"] = described(
        "natural",
        "stances only, or A commits to few labels and B weighs all",
        source="paper 3.2.1 (duality); choice (natural)",
    )
    order: Literal["strict", "simultaneous"] = described(
        "strict", "B answers A's turn of the same round, or neither sees it", source="choice"
    )
    distribution: Literal["said", "token", "sampled"] = described(
        "said",
        "a side's distribution: the percentages it writes, the probabilities of the labels as its "
        "next words, or the labels of several short answers",
        source="paper, Figure 1 (said); choice (token, sampled)",
    )
    samples: int = described(16, "of `sampled`", ge=2)
    steering: Steering = Field(default_factory=Steering)
    stop: Stopping = Field(default_factory=Stopping)
    crit: CritSection = Field(default_factory=CritSection)
    repeated: Literal["judge", "text"] = described(
        "judge",
        "what measures repetition: the judge, or shared words",
        source="paper 3.2.2 (judge); choice (text)",
    )
    remediation: bool = described(True, "A's model writes the justification and what to do")
    max_arguments: int = described(3, "in a turn", source="choice", ge=1, le=5)
    max_tokens: int = described(700, "longest turn", unit="tokens", ge=64)
    temperature: float = described(0.1, "of both sides", source="paper 4", ge=0)
    first_temperature: float | None = described(
        None, "of both sides in round 1; null: the same", ge=0
    )

    @field_validator("scale")
    @classmethod
    def _kept(cls, value: str | dict[str, Any]) -> str | dict[str, Any]:
        return kept_scale(value)

    @model_validator(mode="after")
    def _whole(self) -> EvinceSettings:
        if "main" not in self.arms:
            raise ValueError("arms: 'main' is missing, which all others are held against")
        if self.rates == "positions" and not all(self.positions):
            raise ValueError("positions: rates=positions needs both of them")
        of_stances = {"untold", "swapped", "same_stance"}
        if self.rates == "positions" and of_stances & set(self.arms):
            raise ValueError(
                "arms: rates=positions has no stances for untold, swapped and same_stance"
            )
        if self.order == "simultaneous" and (self.initial == "duality" or "duality" in self.arms):
            raise ValueError("order: duality needs strict, as B is asked again after A")
        if self.crit.form == "off" and self.stop.crit is not None:
            raise ValueError("stop.crit: crit.form=off leaves nothing to stop by; set it to null")
        return self

    def models(self) -> tuple[str, ...]:
        """All models it names."""
        return tuple(dict.fromkeys((self.a, self.b, self.judge)))
