"""What a study of judges is given (Ma et al. 2025); `source` says where a field is from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rldf_ray.plan.section import Section, described
from rldf_ray.protocols.judges.views import Condition, Place


class BandwagonSection(Section):
    percent: int = described(90, "of people who are said to prefer an answer", ge=0, le=100)
    target: Literal["slot2", "slot1", "clean_loser"] = described(
        "slot2",
        "the answer they are said to prefer: the one in a slot, or the one that the judge, alone "
        "and without the line, holds the worse",
        source="the paper's code (slot2)",
    )
    place: Place = described(
        "system_head",
        "where the line stands",
        source="the paper's code (system_head); paper, appendix G.2 (after_question)",
    )


class VerbositySection(Section):
    generator: str | None = described(
        None,
        "the model, by its name in `models`, that writes long twins for items without one; null "
        "leaves those items out of this condition",
    )
    max_tokens: int = described(1024, "longest twin", unit="tokens", ge=16)
    temperature: float = described(0.7, "of the generator", ge=0)
    min_ratio: float = described(1.2, "shortest twin accepted, over the answer's length", ge=1)
    max_ratio: float = described(4.0, "longest twin accepted, over the answer's length", ge=1)


class MetaSection(Section):
    pools: dict[str, tuple[tuple[str, ...], ...]] = described(
        {}, "models that judge above a pool, each with the pools whose judgements it is given"
    )
    modes: tuple[Literal["select", "conclude"], ...] = described(
        ("select", "conclude"), "naming the best referee, or scoring anew"
    )
    order: Literal["per_item_paired", "per_item_independent"] = described(
        "per_item_paired",
        "a pool is shuffled for each item, in the same way in all conditions and reruns, or in "
        "each anew",
        source="paper 3.3 (shuffled); choice (per_item_paired)",
    )


class JudgesSettings(Section):
    """A study of how biased judges are: alone, in debate, and above a pool."""

    data: str = described(
        "", "a JSONL file (.gz too): question, answer1, answer2; see docs/judges.md for the rest"
    )
    items_per_category: int | None = described(
        None, "items of each category, a seeded sample; null is all", ge=1
    )
    judges: tuple[str, ...] = described((), "models, by their names in `models`, that judge alone")
    debates: tuple[tuple[str, str], ...] = described((), "pairs of a judge and a critic")
    meta: MetaSection = Field(default_factory=MetaSection)
    plain: bool = described(
        False, "also single judges whose prompt speaks of no other referees", source="choice"
    )
    conditions: tuple[Condition, ...] = described(
        ("clean", "rerun", "position", "verbosity", "bandwagon", "cot"), "what is shown, and how"
    )
    reruns: int = described(1, "reruns of the clean items, with other seeds", ge=1)
    rounds: int = described(3, "of a debate, after the judge's opening", source="paper 4.2", ge=1)
    critic_view: Literal["last_judge", "full"] = described(
        "last_judge",
        "what a critic sees: the judge's latest text, or all",
        source="the paper's code (last_judge); paper 3.2 (full)",
    )
    bandwagon: BandwagonSection = Field(default_factory=BandwagonSection)
    verbosity: VerbositySection = Field(default_factory=VerbositySection)
    form: Literal["lines", "json"] = described(
        "lines",
        "how judges write verdicts: as last lines of a free text, or as JSON by guided decoding, "
        "evaluation first, for models that do not keep to lines",
        source="paper, appendix F (lines); choice (json)",
    )
    temperature: float = described(0.01, "of everybody", source="paper, appendix I", ge=0)
    max_tokens: int = described(512, "longest evaluation", unit="tokens", ge=16)
    reask: int = described(1, "times that a text without a verdict is asked for again", ge=0)

    @model_validator(mode="after")
    def _whole(self) -> JudgesSettings:
        if "clean" not in self.conditions:
            raise ValueError("conditions: 'clean' is missing, which all others are held against")
        if not (self.judges or self.debates or self.meta.pools):
            raise ValueError("judges: nobody judges; name judges, debates or meta.pools")
        for _, pool in self.above_pools():
            if not 2 <= len(pool) <= 9 or len(set(pool)) < len(pool):
                raise ValueError(f"meta.pools: {list(pool)} is not 2 to 9 different models")
        return self

    @property
    def alone(self) -> tuple[str, ...]:
        """Whose openings there are: single judges, of debates, above pools and in them."""
        debating = (judge for judge, _ in self.debates)
        pooled = (member for _, pool in self.above_pools() for member in pool)
        return tuple(dict.fromkeys((*self.judges, *debating, *self.meta.pools, *pooled)))

    def above_pools(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every meta-judge with each of its pools."""
        return [(judge, pool) for judge, pools in self.meta.pools.items() for pool in pools]

    def models(self) -> tuple[str, ...]:
        """All models it names."""
        named = [*self.alone, *(critic for _, critic in self.debates)]
        named += [self.verbosity.generator] if self.verbosity.generator else []
        return tuple(dict.fromkeys(named))
