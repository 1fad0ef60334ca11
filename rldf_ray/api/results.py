"""What the functions of the API return: folders read as data sets, and summaries."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from rldf_ray.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from datasets import Dataset

    from rldf_ray.protocols.study import StudyTable, Summary


def _data_set(folder: str, name: str) -> Dataset:
    """A Parquet file of a folder, or of its address, in memory."""
    from datasets import Dataset

    return Dataset(pq.read_table(RunFolder.at(folder).fetched(name)))


@dataclass(frozen=True)
class Run:
    """A run's folder, finished or on its way.

    Attributes:
        folder: where it is, or its address in a bucket.
    """

    folder: str

    @property
    def topics(self) -> Dataset:
        """What was debated; columns of `rldf_ray.records.TOPIC_SCHEMA`."""
        return _data_set(self.folder, "data/topics.parquet")

    @property
    def statements(self) -> Dataset:
        """Who said what in the debates, with score, rank and label."""
        return _data_set(self.folder, "data/transcripts.parquet")

    @property
    def sft(self) -> Dataset:
        """Prompts and low-bias completions."""
        return _data_set(self.folder, "data/sft.parquet")

    @property
    def pairs(self) -> Dataset:
        """Prompts with a chosen and a rejected completion."""
        return _data_set(self.folder, "data/pairs.parquet")

    @property
    def prompts(self) -> Dataset:
        """PPO's prompts."""
        return _data_set(self.folder, "data/prompts.parquet")

    @property
    def report(self) -> dict[str, Any]:
        """report.json: plan, stages, figures and notes."""
        folder = RunFolder.at(self.folder)
        folder.fetched("report.json")
        report: dict[str, Any] = folder.read_json("report.json")
        return report

    @property
    def model(self) -> str:
        """The folder of the trained policy, as transformers and vLLM read it."""
        return str(RunFolder.at(self.folder).fetched("model"))


@dataclass(frozen=True)
class StudyResult:
    """A finished study.

    Attributes:
        notes: what to know first, in sentences.
        facts: the figures behind them.
        tables: by name, with columns and rows of text, as report.html shows them.
    """

    folder: str
    notes: tuple[str, ...]
    facts: Mapping[str, Any]
    tables: Mapping[str, StudyTable]

    @classmethod
    def of(cls, folder: str, summary: Summary) -> StudyResult:
        tables = {table.name: table for table in summary.tables}
        return cls(folder, tuple(summary.notes), summary.facts, tables)

    def data(self, name: str) -> Dataset:
        """`items`, `turns`, or another table of the study's data/."""
        return _data_set(self.folder, f"data/{name}.parquet")


@dataclass(frozen=True)
class BBQResult:
    """BBQ's scores; `summary` is eval/bbq.json."""

    summary: Mapping[str, Any]

    @property
    def accuracy(self) -> float | None:
        """Of all items, those without an answer among them."""
        value: float | None = self.summary["overall"]["accuracy"]
        return value

    @property
    def answers(self) -> Dataset:
        """One row an item: what was asked, what was answered, and what is right."""
        from datasets import Dataset

        return Dataset(pq.read_table(self.summary["written"]))


@dataclass(frozen=True)
class JudgeResult:
    """Measures by method and bias type; `summary` is eval/judge.json."""

    summary: Mapping[str, Any]

    @property
    def scores(self) -> Mapping[str, Any]:
        """Method, then bias type or `all`, then measure: mean with its interval."""
        methods: Mapping[str, Any] = self.summary["methods"]
        return methods


@dataclass(frozen=True)
class Comparison:
    """A finished comparison of methods; `summary` is compare/compare.json."""

    folder: str
    summary: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def results(self) -> Dataset:
        """Long: method, repeat, set, measure, value."""
        return _data_set(self.folder, "compare/results.parquet")

    @property
    def items(self) -> Dataset:
        """Every answer of every method to every item."""
        return _data_set(self.folder, "compare/eval/items.parquet")


class Server:
    """A server that is up, until it is stopped or its block ends.

    Attributes:
        address: as `http://127.0.0.1:8000`; the API is below /v1.
        models: what requests may name.
    """

    def __init__(self, serving: AbstractContextManager[str], models: tuple[str, ...]) -> None:
        self._open = ExitStack()
        self.address = self._open.enter_context(serving)
        self.models = models

    def stop(self) -> None:
        """End it: requests under way are finished first. A second call does nothing."""
        self._open.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
