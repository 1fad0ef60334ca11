"""What a study of MABRF is given (Roy and Rehman 2025); `source` says where a field is from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rldf_ray.plan.section import Section, described
from rldf_ray.sets.bbq.sample import LEAST

SquadArm = Literal["empty", "closed", "context", "search", "search+context"]


class LoopSection(Section):
    max_passes: int = described(5, "rewritings at most", source="the paper's code", ge=0)
    threshold: int = described(1, "bias from which on steps are rewritten is above it", ge=1, le=9)
    max_steps: int = described(6, "steps of the reasoning", ge=1, le=20)
    queries: int = described(5, "queries that the search agent writes", ge=1, le=10)
    searched: int = described(3, "of these, that are searched", source="the paper's code", ge=1)
    hits: int = described(4, "results of each", source="the paper's code", ge=1)
    hit_tokens: int = described(120, "longest snippet of a result", unit="tokens", ge=16)
    reask: int = described(1, "times that a verdict that is none is asked for again", ge=0)
    retests: int = described(1, "times that first steps are judged again, for the spread", ge=0)
    temperature: float = described(0.2, "of solver and rephraser", source="the paper's code", ge=0)
    retest_temperature: float = described(0.2, "of the judge when it judges again", ge=0)
    max_tokens: int = described(320, "longest reasoning or summary", unit="tokens", ge=32)


class SquadSection(Section):
    arms: tuple[SquadArm, ...] = described(
        ("empty", "closed", "context", "search", "search+context"),
        "what the reader is given: nothing is asked, the question alone, its paragraph, what was "
        "found, or both",
        source="the paper's code (context, search+context); choice (the others)",
        min_length=1,
    )
    queries_from: Literal["question", "paragraph"] = described(
        "question",
        "what queries are written from: the question alone, or its paragraph too, from which the "
        "answer gets into the queries, and with them into what a reader is told that was found",
        source="choice (question); the paper's code (paragraph)",
    )
    max_tokens: int = described(64, "longest answer", unit="tokens", ge=8)


class MabrfSettings(Section):
    """A study of answers that are judged and rewritten before they are given."""

    kind: Literal["bbq", "choices", "questions", "squad"] = described(
        "bbq", "what `data` is: BBQ's folder, one's own items with options, without, or SQuAD v2"
    )
    data: str = described("", "a folder of BBQ's files, or a JSONL or JSON file (docs/mabrf.md)")
    categories: tuple[str, ...] = described((), "of BBQ; empty is all that are there")
    only: str = described("", "of BBQ: a subset, a file that `rldf eval bbq-hard` wrote")
    per_category: int | None = described(
        12,
        "items of each category or article, a seeded sample, of BBQ 4 or more; null is all",
        ge=1,
    )
    items: int | None = described(None, "items in all; null is no limit", ge=1)
    searches: dict[str, str] = described(
        {"without": "none"},
        "arms by name, and what each searches: none, local:DIR, ddgs or replay:JOURNAL",
    )
    leave_out_gold: bool = described(
        False, "passages of an item's own article do not count as found (SQuAD)"
    )
    solver: str = described("model", "who reasons, by its name in `models`")
    judge: str = described("model", "who judges the reasoning")
    rephraser: str = described("model", "who rewrites it")
    searcher: str = described("model", "who writes queries and summaries", source="choice")
    terminator: str = described("model", "who answers in the end")
    loop: LoopSection = Field(default_factory=LoopSection)
    squad: SquadSection = Field(default_factory=SquadSection)

    @model_validator(mode="after")
    def _whole(self) -> MabrfSettings:
        if not self.searches:
            raise ValueError("searches: name at least one arm, as {without: none}")
        for name in self.searches:
            if not name or "/" in name:
                raise ValueError(
                    f"searches: {name!r} is no name for an arm: it holds '/', or nothing"
                )
        if self.only and self.kind != "bbq":
            raise ValueError(f"only: names items of BBQ, and kind={self.kind}")
        if self.kind == "bbq" and self.per_category is not None and self.per_category < LEAST:
            raise ValueError(
                f"per_category: of BBQ {LEAST} or more, as there are two contexts of two "
                f"polarities, or null for all (found {self.per_category})"
            )
        return self

    @property
    def searching(self) -> dict[str, str]:
        """The arms that search."""
        return {name: what for name, what in self.searches.items() if what != "none"}

    @property
    def plain(self) -> str | None:
        """The arm without search; None where there is none."""
        return next((name for name, what in self.searches.items() if what == "none"), None)

    def models(self) -> tuple[str, ...]:
        """All models it names."""
        roles = (self.solver, self.judge, self.rephraser, self.searcher, self.terminator)
        return tuple(dict.fromkeys(roles))
