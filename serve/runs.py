"""GET /v1/runs: what a run folder holds, for the page to show. Nothing outside of it is read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from rldf_ray.apps.serve.guard import RefusedError
from rldf_ray.records import STATEMENT_SCHEMA
from rldf_ray.storage.run_folder import RunFolder, RunFolderError, UnreadableFileError
from rldf_ray.storage.stages import redo_advice

PAGE = 50
TRANSCRIPTS = "data/transcripts.parquet"
ANSWERS = "eval/answers.parquet"
# Until its stage has finished, a table is what one that is done anew has left there.
STAGE_OF = {TRANSCRIPTS: "debates", ANSWERS: "eval"}

log = logging.getLogger("rldf.serve")


def router(folders: tuple[str, ...]) -> APIRouter:
    """Routes over the run folders that the settings name; requests name them by their last part."""
    runs = {Path(folder).name: RunFolder(Path(folder)) for folder in folders}
    api = APIRouter(prefix="/v1/runs", tags=["runs"])

    def run(name: str) -> RunFolder:
        if name not in runs:
            raise RefusedError(404, f"no such run; there are: {', '.join(runs) or 'none'}")
        return runs[name]

    @api.get("")
    def list_runs() -> dict[str, Any]:
        return {"data": [{"name": name} for name in runs]}

    @api.get("/{name}/report")
    def report(name: str) -> Any:
        folder = run(name)
        try:
            return folder.read_json("report.json")
        except FileNotFoundError:
            raise RefusedError(404, f"{name} has no report yet") from None
        except UnreadableFileError as error:
            raise _unreadable("report.json", error) from error

    @api.get("/{name}/report.html")
    def report_page(name: str) -> HTMLResponse:
        try:
            text = (run(name).root / "report.html").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise RefusedError(404, f"{name} has no report yet") from None
        except UnicodeDecodeError as error:
            raise _unreadable("report.html", error) from error
        # What models said is in it; it runs no script and reaches nothing of this origin.
        return HTMLResponse(text, headers={"content-security-policy": "sandbox"})

    @api.get("/{name}/statements")
    def statements(
        name: str,
        bias_type: Annotated[str | None, Query(max_length=100)] = None,
        identity: Annotated[str | None, Query(max_length=200)] = None,
        round_: Annotated[int | None, Query(alias="round", ge=1, le=1000)] = None,
        label: Literal["high", "low"] | None = None,
        least: Annotated[float | None, Query(ge=0, le=10, allow_inf_nan=False)] = None,
        most: Annotated[float | None, Query(ge=0, le=10, allow_inf_nan=False)] = None,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> dict[str, Any]:
        folder = run(name)
        equal = {"bias_type": bias_type, "identity": identity, "round": round_, "label": label}
        wanted = {k: v for k, v in equal.items() if v is not None}
        facets: dict[str, set[Any]] = {column: set() for column in _FACETS}
        places: list[int] = []
        rows, score = 0, "expected_score"
        for batch in _batches(folder, TRANSCRIPTS, _FILTERED):
            if not rows and batch.num_rows:
                score = _label_source(batch)
            for column, values in facets.items():
                values.update(batch[column].unique().to_pylist())
            places += _places(_mask(batch, wanted, score, least, most), rows)
            rows += batch.num_rows
        page = folder.read_rows(TRANSCRIPTS, places[offset : offset + PAGE], _SHOWN)
        return {
            "total": len(places),
            "offset": offset,
            "page": PAGE,
            "score": score,
            "facets": {column: sorted(values) for column, values in facets.items()},
            "data": page.to_pylist(),
        }

    @api.get("/{name}/debates/{debate_id}")
    def debate(name: str, debate_id: str) -> dict[str, Any]:
        folder = run(name)
        places: list[int] = []
        rows = 0
        for batch in _batches(folder, TRANSCRIPTS, _DEBATE):
            places += _places(pc.equal(batch["debate_id"], debate_id), rows)
            rows += batch.num_rows
        found = folder.read_rows(TRANSCRIPTS, places, _SHOWN)
        if not found.num_rows:
            raise RefusedError(404, "no such debate in this run")
        order = [("round", "ascending"), ("role", "ascending")]
        return {"data": found.sort_by(order).to_pylist()}

    @api.get("/{name}/answers")
    def answers(
        name: str,
        bias_type: Annotated[str | None, Query(max_length=100)] = None,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    ) -> dict[str, Any]:
        """The models' answers to the same held-out prompts: before and after."""
        folder = run(name)
        places: dict[str, list[int]] = {}
        rows = 0
        for batch in _batches(folder, ANSWERS, _ASKED):
            columns = (batch[column].to_pylist() for column in _ASKED.names)
            for place, (prompt, about) in enumerate(zip(*columns, strict=True), start=rows):
                if bias_type in (None, about):
                    places.setdefault(prompt, []).append(place)
            rows += batch.num_rows
        shown = [place for prompt in [*places][offset : offset + PAGE] for place in places[prompt]]
        by_prompt: dict[str, dict[str, Any]] = {}
        for row in folder.read_rows(ANSWERS, sorted(shown), _ANSWERED).to_pylist():
            entry = by_prompt.setdefault(
                row["prompt_id"],
                {"prompt": row["prompt"], "bias_type": row["bias_type"], "models": {}},
            )
            entry["models"][row["model"]] = {"answer": row["answer"], "reward": row["reward"]}
        return {"total": len(places), "offset": offset, "data": list(by_prompt.values())}

    return api


def _statement(*columns: str) -> pa.Schema:
    return pa.schema([STATEMENT_SCHEMA.field(column) for column in columns])


_FACETS = ("bias_type", "identity", "round")
_FILTERED = _statement(*_FACETS, "label", "score", "expected_score", "label_source")
_DEBATE = _statement("debate_id")
_SHOWN = _statement(
    "debate_id",
    "bias_type",
    "context",
    "round",
    "role",
    "identity",
    "text",
    "score",
    "expected_score",
    "rank",
    "label",
    "failure",
)
_ASKED = pa.schema([("prompt_id", pa.string()), ("bias_type", pa.string())])
_ANSWERED = pa.schema(
    [
        *_ASKED,
        ("prompt", pa.string()),
        ("model", pa.string()),
        ("answer", pa.string()),
        ("reward", pa.float64()),
    ]
)


def _batches(folder: RunFolder, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The columns of a table, some rows at a time: a run may have more than the memory holds."""
    if not (folder.root / f"stages/{STAGE_OF[name]}.json").exists():
        raise RefusedError(404, f"this run has no {name} yet")
    try:
        yield from folder.read_batches(name, schema)
    except UnreadableFileError as error:
        raise _unreadable(name, error) from error
    except RunFolderError:
        raise RefusedError(404, f"this run has no {name} yet") from None


def _unreadable(name: str, error: Exception) -> RefusedError:
    """A file is torn, or another kind's. The log alone says where it lies on this machine."""
    log.error("%s", error)
    message = f"{name} of this run cannot be read: {redo_advice(name)}"
    return RefusedError(500, message, kind="server_error")


def _label_source(batch: pa.RecordBatch) -> str:
    """The column that made the labels."""
    return "score" if batch["label_source"][0].as_py() == "said" else "expected_score"


def _mask(
    batch: pa.RecordBatch,
    equal: dict[str, Any],
    score: str,
    least: float | None,
    most: float | None,
) -> pa.BooleanArray:
    """Which rows are wanted; null where a row lacks what is asked about."""
    mask = pa.array([True] * batch.num_rows)
    for column, value in equal.items():
        mask = pc.and_(mask, pc.equal(batch[column], value))
    if least is not None:
        mask = pc.and_(mask, pc.greater_equal(batch[score], least))
    return mask if most is None else pc.and_(mask, pc.less_equal(batch[score], most))


def _places(mask: pa.BooleanArray, begin: int) -> list[int]:
    places: list[int] = pc.add(pc.indices_nonzero(mask), pa.scalar(begin, pa.uint64())).to_pylist()
    return places
