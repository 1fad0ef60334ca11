"""What a study of persuasion is given (Khan et al. 2024); `source` says where a field is from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rldf_ray.plan.section import Section, described

Protocol = Literal["naive", "expert", "consultancy", "debate"]


class LengthSection(Section):
    words: int = described(100, "that an argument is asked for", source="the paper's code")
    least: int = described(70, "words of a valid argument", ge=1)
    most: int = described(150, "words of a valid argument, where it is cut as well", ge=2)

    @model_validator(mode="after")
    def _in_order(self) -> LengthSection:
        if not self.least <= self.words <= self.most:
            raise ValueError("words: lies outside least and most")
        return self


class DebaterSection(Section):
    """One debater of a study: a model, and how many samples it chooses from."""

    model: str = described("debater", "by its name in `models`")
    best_of: int = described(1, "N of best-of-N", ge=1, le=64)
    critiques: int = described(0, "N of critique-of-N; 0 is none", ge=0, le=64)
    temperature: float | None = described(
        None, "null is .4 for N = 1, .8 up to 16, 1 above", source="paper"
    )

    def sampling(self, consultancy: bool) -> float:
        """The temperature of its samples, by the paper's table."""
        if self.temperature is not None:
            return self.temperature
        if self.best_of == 1:
            return 0.4
        return 1.0 if self.best_of > 16 and not consultancy else 0.8


class PersuasionSettings(Section):
    """A study of debates before a judge who cannot read the story."""

    kind: Literal["pairs", "quality", "bbq_hidden"] = described(
        "pairs", "what `data` is: two-answer questions, QuALITY as published, or BBQ's folder"
    )
    data: str = described("", "a JSONL file of questions, QuALITY's file, or BBQ's folder")
    stories: str = described("", "a JSONL file of stories (story_id, text), where `data` has none")
    categories: tuple[str, ...] = described((), "of BBQ; empty is all that are there")
    items: int | None = described(None, "questions at most, a seeded sample; null is all", ge=1)
    per_story: int | None = described(5, "questions of one story at most; null is all", ge=1)
    hard: bool = described(
        True, "QuALITY's questions that the paper's filter keeps", source="the paper's code"
    )
    protocols: tuple[Protocol, ...] = described(
        ("naive", "consultancy", "debate", "expert"), "what is held"
    )
    interactive: tuple[bool, ...] = described(
        (False,), "debates and consultancies with the judge's questions, without, or both"
    )
    order: Literal["simultaneous", "sequential"] = described(
        "simultaneous", "a round's arguments are made at once, or from round 2 on B reads A's"
    )
    rounds: int = described(3, "of a debate or consultancy", source="paper", ge=1)
    debaters: dict[str, DebaterSection] = described(
        {"debater": DebaterSection()}, "debaters by name"
    )
    matches: Literal["self", "round_robin", "swiss"] = described(
        "self",
        "each debater against itself; every pair as well, or the pairs of Swiss rounds, in both "
        "assignments (a tournament)",
    )
    swiss_rounds: int = described(
        3,
        "of a Swiss tournament, which takes fewer of few debaters",
        source="the paper's code",
        ge=1,
    )
    judges: tuple[str, ...] = described(
        ("judge",), "who judges, by names in `models`; all read the same transcripts"
    )
    preference: str | None = described(
        None,
        "who rates candidates; null is the first judge, whom that optimises against",
        source="choice",
    )
    critic: str | None = described(None, "who criticises; null is the debater's own model")
    expert: str | None = described(
        None, "who answers with the story at hand; null is each judge, with the same form"
    )
    reasons_first: bool = described(
        True, "judges, naive and expert ones too, think before the letter", source="choice"
    )
    wins: Literal["published", "always", "never"] = described(
        "published",
        "who is told that winning counts and not telling everything: as published, consultants and "
        "debaters whom the judge asks, but not those of static debates; all; or nobody",
        source="the paper's code (published)",
    )
    oversampling: int = described(
        3, "samples drawn for each that is wanted", source="the paper's code", ge=1
    )
    debate_length: LengthSection = Field(default_factory=LengthSection)
    consultancy_length: LengthSection = described(
        LengthSection(words=200, least=140, most=300), "of a consultant's argument"
    )
    story_tokens: int = described(
        12_000, "longest story; an item with a longer one is left out", unit="tokens", ge=32
    )
    max_tokens: int = described(1000, "longest turn, thinking included", unit="tokens", ge=64)
    judge_tokens: int = described(400, "longest thinking of a judge", unit="tokens", ge=32)

    @model_validator(mode="after")
    def _whole(self) -> PersuasionSettings:
        if not self.debaters:
            raise ValueError("debaters: name at least one")
        if not self.judges:
            raise ValueError("judges: name at least one")
        if "people" in self.judges:
            raise ValueError("judges: 'people' are those whose sheets come back; name it otherwise")
        if self.matches == "swiss" and len(self.debaters) < 2:
            raise ValueError("matches: a Swiss tournament needs two debaters")
        if any("/" in name or " v " in name for name in self.debaters):
            raise ValueError("debaters: a name holds '/' or ' v '")
        return self

    @property
    def rater(self) -> str:
        """Who rates candidates."""
        return self.preference or self.judges[0]

    @property
    def selects(self) -> bool:
        """Whether candidates are chosen by token probability."""
        return any(one.best_of > 1 or one.critiques > 1 for one in self.debaters.values())

    def models(self) -> tuple[str, ...]:
        """All models it names."""
        named: list[str | None] = [one.model for one in self.debaters.values()]
        named += [*self.judges, self.rater, self.critic, self.expert]
        return tuple(dict.fromkeys(name for name in named if name))
