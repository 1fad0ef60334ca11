"""An evaluation as its items and figures, whatever it was of and whoever is to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rldf_ray.errors import UserError

LETTERS = "ABCDEFGHIJ"


class ExportError(UserError):
    """Results cannot be exported as asked; the message says what is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """An aggregated metric.

    Attributes:
        means: its definition.
        group: the part of the items that it is of; None is all of them.
        score: the score of the samples that it is of, by its name.
        low, high: its 95 % interval, where it has one.
        n: the items or answers behind it.
    """

    name: str
    value: float
    means: str
    group: str | None = None
    score: str = "correct"
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One item and what a model answered to it.

    Attributes:
        place: of the item in the whole data set, from 0.
        messages: role and text of what the model was shown.
        choices: the options; the first is called A.
        right: the place of the right one; None where nobody knows it.
        output: the model's text, or the option that was chosen by its likelihood; None where
            there is neither.
        answer: the letter of the option that was chosen, or "tie"; None of what did not parse.
        scores: by name: right or not, or a number.
        likelihoods: of the choices, log, nats; None where the backend did not return them.
        metadata: what else is known of the item.
        doc: the item as it is in its data set.
        values: metrics of this sample as lm-evaluation-harness logs them, by its names.
    """

    id: str
    place: int
    messages: Sequence[tuple[str, str]]
    choices: Sequence[str]
    right: int | None
    output: str | None
    answer: str | None
    scores: Mapping[str, bool | float]
    metadata: Mapping[str, Any]
    doc: Mapping[str, Any]
    likelihoods: Sequence[float] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The letter of the right choice; "" where nobody knows it."""
        return "" if self.right is None else LETTERS[self.right]


@dataclass(frozen=True, kw_only=True)
class EvalLog:
    """One model's answers to one set of items, and its figures.

    Attributes:
        task: what was evaluated; names files, so it has letters, digits, `_` and `-` only.
        dataset: its name, `location` where it was read from, `available` how many items it has.
        created: when the figures were written, UTC, as 2026-01-31T12:00:00+00:00.
        arguments: how it was evaluated.
        packages: versions of what it was evaluated with.
        about: command, commit, machine, and notes.
        figures: by this project's definitions.
        harness_figures: those that lm-evaluation-harness has under these names, by its
            definitions; what is a mean of `Sample.values` is left to whoever writes them.
        harness_notes: in what figures and items differ from the harness's own task.
    """

    task: str
    model: str
    dataset: str
    location: str
    available: int
    created: str
    arguments: Mapping[str, Any]
    packages: Mapping[str, str]
    about: Mapping[str, Any]
    samples: Sequence[Sample]
    figures: Sequence[Figure]
    harness_figures: Sequence[Figure] = ()
    harness_notes: Sequence[str] = ()
