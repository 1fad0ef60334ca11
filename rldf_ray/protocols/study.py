"""What the study of a protocol is: items, who takes part, turns, outcomes, tables, figures.

A folder of `protocols/` with a `study.py` can be studied (`rldf study NAME PLAN`); that module has
the names of `Study`. Nothing else lists it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from typing import Protocol as Interface

import pyarrow as pa

from rldf_ray.models.base import ChatModel, Completion
from rldf_ray.plan.section import Section
from rldf_ray.search.backend import SearchBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTurn:
    """What one model said once; a row of `data/turns.parquet`.

    Attributes:
        address: of the request, unique in the study.
        seat: the role it was said in, by the protocol's own name.
        speaker: the model, by its name in the study's plan.
        thinking: what a reasoning model thought before; kept, and shown to nobody.
        prompt_digest: of the messages.
    """

    item_id: str
    address: str
    seat: str
    speaker: str
    text: str
    finish_reason: str
    refusal: str | None
    thinking: str
    model: str
    revision: str
    seed: int
    prompt_digest: str
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int

    @property
    def cut_off(self) -> bool:
        return self.finish_reason == "length"


TURN_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in (
                "item_id",
                "address",
                "seat",
                "speaker",
                "text",
                "finish_reason",
                "refusal",
                "thinking",
                "model",
                "revision",
            )
        ),
        pa.field("seed", pa.int64()),
        pa.field("prompt_digest", pa.string()),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("generated_tokens", pa.int64()),
    ]
)


def turn_of(
    completion: Completion,
    *,
    item_id: str,
    address: str,
    seat: str,
    speaker: str,
    seed: int,
    prompt_digest: str,
) -> StudyTurn:
    """The row of a completion."""
    return StudyTurn(
        item_id=item_id,
        address=address,
        seat=seat,
        speaker=speaker,
        text=completion.text,
        finish_reason=completion.finish_reason,
        refusal=completion.refusal,
        thinking=completion.thinking,
        model=completion.model,
        revision=completion.revision,
        seed=seed,
        prompt_digest=prompt_digest,
        prompt_tokens=completion.usage.prompt,
        cached_tokens=completion.usage.cached,
        generated_tokens=completion.usage.generated,
    )


@dataclass(frozen=True, kw_only=True)
class StudyCast:
    """Who takes part, the same for every item of a study.

    Attributes:
        settings: the study's own section of the plan.
        models: by their names in the plan.
        searches: what the study searches, by its own names.
        again: what a further pass over all items holds, as the study's `again` says; None at first.
    """

    seed: int
    settings: Any
    models: Mapping[str, ChatModel]
    searches: Mapping[str, SearchBackend] = field(default_factory=dict)
    again: Any = None


@dataclass(frozen=True, kw_only=True)
class Held:
    """What one item came to.

    Attributes:
        tables: rows of the study's `TABLES`, by their names.
    """

    turns: Sequence[StudyTurn]
    tables: Mapping[str, Sequence[Mapping[str, Any]]]

    @property
    def outcomes(self) -> Sequence[Mapping[str, Any]]:
        """Rows of the table that every study has: what it came to."""
        return self.tables["outcomes"]


@dataclass(frozen=True, kw_only=True)
class StudyTable:
    """A table of a study.

    Attributes:
        name: of its files.
        rows: cells as text, each row as long as `columns`.
        notes: sentences below it.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class StudyFigure:
    """A figure of a study; `draw` gets an empty matplotlib figure of `width` x `height` inches."""

    name: str
    title: str
    draw: Any
    width: float = 6.4
    height: float = 3.6


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a study reports.

    Attributes:
        facts: for report.json.
        notes: sentences that come first: what a reader has to know before any figure.
    """

    tables: Sequence[StudyTable]
    figures: Sequence[StudyFigure]
    facts: Mapping[str, Any]
    notes: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """What a model will be asked for one item, at most.

    Attributes:
        calls, prompt, generated: requests, tokens read and tokens written.
    """

    speaker: str
    calls: float
    prompt: float
    generated: float


class Study(Interface):
    """A protocol that can be studied by itself; a module `study` satisfies this with its names.

    It may have more, found by being there: `searches(settings)`, what its `settings.searches` name;
    `GIVEN`, schemas of tables that people give it later, by name, which `summary` then gets with
    the others; `write_for_people(folder, items, tables, settings, plan)`, files of its own, the
    pages among them by title; `training_rows(folder, settings, seed)`, rows by kind (`sft`,
    `pairs`) of a finished study; `evaluation_logs(folder, settings, plan, created)`, its verdicts
    for other programs (`rldf_ray/eval_logs`); and `again(outcomes, settings)`, what a further pass
    over all items holds once they have come to the rows `outcomes`, which `hold` then gets as
    `cast.again`; None ends.
    """

    @property
    def TITLE(self) -> str: ...  # noqa: N802

    @property
    def SETTINGS(self) -> type[Section]: ...  # noqa: N802

    @property
    def TABLES(self) -> Mapping[str, pa.Schema]:  # noqa: N802
        """What is kept besides turns, by name: data/NAME.parquet. `outcomes` is one of them."""
        ...

    def models(self, settings: Any) -> Sequence[str]:
        """The models that take part, by their names in the plan."""
        ...

    def items(self, settings: Any, seed: int) -> Sequence[Any]:
        """What is studied, `Item`s in the order of their rows; an `ItemSet` counts the others.

        Raises:
            UserError: the data cannot be read; says which file and line.
        """
        ...

    def item_table(self, items: Sequence[Any]) -> pa.Table:
        """The items as `data/items.parquet` holds them."""
        ...

    def estimate(self, items: Sequence[Any], settings: Any) -> Sequence[Estimated]:
        """What every model will be asked for all items, at most."""
        ...

    async def hold(self, item: Any, cast: StudyCast) -> Held:
        """Hold one item to its end.

        Raises:
            ModelError: a model could not answer; nothing is made up in its place.
        """
        ...

    def summary(
        self, items: Sequence[Any], tables: Mapping[str, pa.Table], settings: Any, seed: int
    ) -> Summary:
        """Tables, figures and facts.

        Args:
            tables: `TABLES`, and `turns`.
        """
        ...
