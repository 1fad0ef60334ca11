"""What the functions of the API return: folders read as data sets, and summaries."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rldf_ray.storage.folders import visible
from rldf_ray.storage.left_over import left_over
from rldf_ray.storage.run_folder import RunFolder, RunFolderError

if TYPE_CHECKING:
    from datasets import Dataset

    from rldf_ray.protocols.study import StudyTable, Summary


def _data_set(where: str, name: str) -> Dataset:
    """A Parquet file of a folder, or of its address, in memory.

    Raises:
        RunFolderError: there is none; says which there are. Or its stage has not finished since.
        UnreadableFileError: it is not Parquet.
    """
    from datasets import Dataset

    folder = RunFolder.at(where)
    path = folder.fetched(name)
    for known in ("plan.yaml", "stages"):
        folder.fetched(known)
    if why := left_over(folder.root, name):
        raise RunFolderError(f"{why}: `rldf run` does it")
    if not path.is_file():
        part = str(PurePath(name).parent)
        folder.fetched(part)
        beside = sorted(f"{part}/{file.name}" for file in visible(path.parent, "*.parquet"))
        raise RunFolderError(
            f"{folder.where} has no {name}; there: {', '.join(beside) or 'no table'}. The stage "
            "that writes it has not finished, or it is none of this kind of run"
        )
    return Dataset(folder.read_table(name))


def _present(folder: RunFolder, name: str, comes: str) -> Path:
    """Where a file or folder of a run lies.

    Raises:
        RunFolderError: there is none; `comes` says when there is.
    """
    path = folder.fetched(name)
    if not path.exists():
        raise RunFolderError(f"{folder.where} has no {name}: {comes}")
    return path


@dataclass(frozen=True)
class Run:
    """A run's folder, finished or on its way.

    What its stages have not written yet, or never do, is a `UserError` that says so.

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
        _present(folder, "report.json", "`rldf report` writes it")
        report: dict[str, Any] = folder.read_json("report.json")
        return report

    @property
    def model(self) -> str:
        """The folder of the trained policy, as transformers and vLLM read it."""
        comes = "it comes when the last stage of train.after has finished"
        return str(_present(RunFolder.at(self.folder), "model", comes))


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
        path = Path(self.summary["written"])
        return _data_set(str(path.parents[1]), "/".join(path.parts[-2:]))


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
