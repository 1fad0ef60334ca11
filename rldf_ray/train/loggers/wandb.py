"""A run of Weights & Biases (https://docs.wandb.ai/models/runs/resuming)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rldf_ray.storage.folders import visible
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.whole_files import whole_file
from rldf_ray.train.loggers.logger import LoggedStage


class WandB:
    """The W&B run of a run folder, resumed.

    Its step is the number of the row in the whole run, as W&B drops a step that is not above the
    last one; charts of a stage have the stage's own step as their axis.
    """

    def __init__(self, stage: LoggedStage) -> None:
        import wandb

        self._stage = stage
        self._offline = OfflineFolders(stage.folder / "wandb", stage.run.id)
        self._offline.drop_unfinished()
        self._run: Any = wandb.init(
            id=stage.run.id,
            name=stage.plan.name,
            group=stage.plan.name,
            dir=str(stage.folder),
            config=stage.plan.model_dump(mode="json"),
            resume="allow",
        )
        self._run.define_metric(f"{stage.name}/step")
        self._run.define_metric(f"{stage.name}/*", step_metric=f"{stage.name}/step")
        if self._run.offline:
            self.rows = self._offline.rows
        else:
            # What the server has: what a killed process had not sent yet is lost.
            self.rows = max(0, self._run.starting_step - stage.run.rows_before)

    def log(self, row: int, step: int, figures: Mapping[str, float]) -> None:
        self._run.log(
            self._stage.prefixed({"step": step, **figures}),
            step=self._stage.run.rows_before + row,
            commit=True,
        )

    def close(self, *, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))
        if self._run.offline:
            self._offline.finish(self.rows)


class OfflineFolders:
    """The folders that W&B leaves where it is offline, one an opening, for `wandb sync`.

    Each has rows that no other has. W&B writes its file in blocks, so the folder of a killed
    process lacks the last rows or all: it is removed, and its rows are logged again.

    Attributes:
        rows: how many rows of this run the finished folders have together.
    """

    def __init__(self, folder: Path, run_id: str) -> None:
        self._folder, self._run_id = folder, run_id
        self._record = folder / "finished.json"
        record: dict[str, Any] = {"rows": 0, "folders": []}
        if self._record.exists():
            found = json.loads(self._record.read_text(encoding="utf-8"))
            if all(name.endswith(f"-{run_id}") for name in found["folders"]):
                record = found
        self.rows: int = record["rows"]
        self._finished: list[str] = record["folders"]
        self._unfinished: set[str] = set()

    def _present(self) -> list[Path]:
        return visible(self._folder, f"offline-run-*-{self._run_id}")

    def drop_unfinished(self) -> None:
        """Remove what killed processes left."""
        self._unfinished = {folder.name for folder in self._present()} - {*self._finished}
        self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        for name in self._unfinished:
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def finish(self, rows: int) -> None:
        """All that was begun since is whole, and with what was finished before has `rows` rows."""
        # A run in an object store may have brought them back.
        self._remove_unfinished()
        record = {"rows": rows, "folders": [folder.name for folder in self._present()]}
        with whole_file(self._record) as scratch:
            scratch.write_text(json_text(record), encoding="utf-8")
