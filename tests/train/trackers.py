"""Stand-ins of wandb, mlflow and trackio, with the parameters and the rules of the real ones.

Each is a server that outlives its clients. A client that is killed loses what it has not sent.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol


class Tracker(Protocol):
    def deliver(self) -> None:
        """What the client has been handed has reached the server."""
        ...

    def kill(self) -> None:
        """The client's process is gone."""
        ...


@dataclass
class FakeWandB:
    """W&B 0.31: a run drops a step that is not above its last one.

    Offline, a run cannot be resumed: each process begins a folder of its own.
    """

    offline: bool = False
    rows: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    opened: list[dict[str, Any]] = field(default_factory=list)
    axes: dict[str, str | None] = field(default_factory=dict)
    exit_codes: list[int | None] = field(default_factory=list)
    _current: FakeWandBRun | None = None

    def init(
        self,
        entity: str | None = None,
        project: str | None = None,
        dir: str | None = None,  # noqa: A002
        id: str | None = None,  # noqa: A002
        name: str | None = None,
        config: dict[str, Any] | None = None,
        group: str | None = None,
        mode: str | None = None,
        resume: str | None = None,
    ) -> FakeWandBRun:
        assert id is not None and not set(id) & set(r"/\#?%:")
        self.opened.append({"id": id, "name": name, "group": group, "config": config, "dir": dir})
        if self.offline:
            folder = Path(str(dir)) / f"wandb/offline-run-{len(self.opened):04d}-{id}"
            folder.mkdir(parents=True)
            self._current = FakeWandBRun(self, {}, folder / f"run-{id}.wandb")
            return self._current
        rows = self.rows.setdefault(id, {})
        assert resume == "allow" or not rows, "the run's history would be overwritten"
        self._current = FakeWandBRun(self, rows)
        return self._current

    def deliver(self) -> None:
        if self._current is not None:
            self._current.send()

    def kill(self) -> None:
        self._current = None


class FakeWandBRun:
    def __init__(
        self, server: FakeWandB, rows: dict[int, dict[str, float]], file: Path | None = None
    ) -> None:
        self._server, self._rows, self._file = server, rows, file
        self._unsent: dict[int, dict[str, float]] = {}
        self.offline = server.offline
        self.starting_step = max(rows, default=-1) + 1

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self._server.axes[name] = step_metric

    def log(
        self, data: dict[str, Any], step: int | None = None, commit: bool | None = None
    ) -> None:
        assert step is not None and commit
        assert step > max([*self._rows, *self._unsent], default=-1), "W&B drops this step"
        self._unsent[step] = dict(data)

    def send(self) -> None:
        self._rows |= self._unsent
        self._unsent = {}
        if self._file is not None:
            self._file.write_text(json.dumps(list(self._rows.items())), encoding="utf-8")

    def finish(self, exit_code: int | None = None) -> None:
        self.send()
        self._server.exit_codes.append(exit_code)


@dataclass
class FakeMLflow:
    """MLflow 3.18: a run is open in one thread, and every value that is sent is kept."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    _open: threading.local = field(default_factory=threading.local)

    def search_runs(
        self,
        experiment_ids: list[str] | None = None,
        filter_string: str = "",
        run_view_type: int = 1,
        max_results: int = 100_000,
        order_by: list[str] | None = None,
        output_format: str = "pandas",
    ) -> list[Any]:
        assert output_format == "list"
        tag, _, value = filter_string.removeprefix("tags.").partition(" = ")
        tag, value = tag.strip("`"), value.strip("'")
        ids = [i for i, run in self.runs.items() if run["tags"].get(tag) == value]
        return [SimpleNamespace(info=SimpleNamespace(run_id=i)) for i in ids]

    def start_run(
        self,
        run_id: str | None = None,
        experiment_id: str | None = None,
        run_name: str | None = None,
        nested: bool = False,
        parent_run_id: str | None = None,
        tags: dict[str, Any] | None = None,
    ) -> Any:
        if self._stack and not nested:
            raise RuntimeError("a run is already active")
        if run_id is None:
            run_id = f"{len(self.runs):032x}"
            self.runs[run_id] = {"metrics": {}, "tags": {}, "name": run_name, "files": {}}
        self.runs[run_id]["tags"] |= tags or {}
        self.runs[run_id]["status"] = "RUNNING"
        self._stack.append(run_id)
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def log_dict(
        self, dictionary: dict[str, Any], artifact_file: str, run_id: str | None = None
    ) -> None:
        self.runs[run_id or self._stack[-1]]["files"][artifact_file] = dictionary

    def log_metrics(
        self,
        metrics: dict[str, float],
        step: int | None = None,
        synchronous: bool | None = None,
        run_id: str | None = None,
    ) -> None:
        # Without an id, a thread with no open run begins one of its own.
        run_id = run_id or (self._stack[-1] if self._stack else self.start_run().info.run_id)
        for key, value in metrics.items():
            self.runs[run_id]["metrics"].setdefault(key, []).append((step, value))

    def end_run(self, status: str = "FINISHED") -> None:
        self.runs[self._stack.pop()]["status"] = status

    def deliver(self) -> None: ...

    def kill(self) -> None:
        self._stack.clear()

    def MlflowClient(self) -> Any:  # noqa: N802
        def get_metric_history(run_id: str, key: str) -> list[Any]:
            values = self.runs[run_id]["metrics"].get(key, [])
            return [SimpleNamespace(key=key, step=step, value=value) for step, value in values]

        return SimpleNamespace(get_metric_history=get_metric_history)

    @property
    def _stack(self) -> list[str]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        stack: list[str] = self._open.stack
        return stack


@dataclass
class FakeTrackio:
    """trackio 0.43: rows are sent in batches by a thread, and none is dropped."""

    runs: dict[tuple[str, str], list[tuple[int, dict[str, float]]]] = field(default_factory=dict)
    opened: list[dict[str, Any]] = field(default_factory=list)
    _current: FakeTrackioRun | None = None

    def init(
        self,
        project: str,
        name: str | None = None,
        group: str | None = None,
        space_id: str | None = None,
        config: dict[str, Any] | None = None,
        resume: str = "never",
        embed: bool = True,
    ) -> FakeTrackioRun:
        assert name is not None
        self.opened.append({"project": project, "name": name, "group": group, "config": config})
        assert resume == "allow" or (project, name) not in self.runs, "two runs of one name"
        self._current = FakeTrackioRun(self.runs.setdefault((project, name), []))
        return self._current

    def finish(self) -> None:
        if self._current is None:
            raise RuntimeError("Call trackio.init() before trackio.finish().")
        self.deliver()
        self.kill()

    def deliver(self) -> None:
        if self._current is not None:
            self._current.send()

    def kill(self) -> None:
        self._current = None


class FakeTrackioRun:
    def __init__(self, rows: list[tuple[int, dict[str, float]]]) -> None:
        self._rows = rows
        self._unsent: list[tuple[int, dict[str, float]]] = []
        self._next_step = max((step for step, _ in rows), default=-1) + 1

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        assert step is not None
        self._unsent.append((step, dict(metrics)))

    def send(self) -> None:
        self._rows += self._unsent
        self._unsent = []


CALLS: dict[str, dict[str, Callable[..., Any]]] = {
    "wandb": {
        "init": FakeWandB.init,
        "Run.log": FakeWandBRun.log,
        "Run.define_metric": FakeWandBRun.define_metric,
        "Run.finish": FakeWandBRun.finish,
    },
    "mlflow": {
        "search_runs": FakeMLflow.search_runs,
        "start_run": FakeMLflow.start_run,
        "log_dict": FakeMLflow.log_dict,
        "log_metrics": FakeMLflow.log_metrics,
        "end_run": FakeMLflow.end_run,
    },
    "trackio": {
        "init": FakeTrackio.init,
        "Run.log": FakeTrackioRun.log,
        "finish": FakeTrackio.finish,
    },
}
"""The real package's function, by its dotted name, and who stands in for it."""
