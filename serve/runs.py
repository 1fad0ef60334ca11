"""GET /v1/runs: what a run folder holds, for the page to show. Nothing outside of it is read."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from rldf_ray.records import STATEMENT_SCHEMA
from rldf_ray.storage.run_folder import RunFolder, RunFolderError, UnreadableFileError
from rldf_ray.storage.stages import redo_advice
from serve.guard import RefusedError

PAGE = 50

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
        table = _table(run(name), "data/transcripts.parquet", STATEMENT_SCHEMA)
        facets = {
            column: sorted(table[column].unique().to_pylist())
            for column in ("bias_type", "identity", "round")
        }
        equal = {"bias_type": bias_type, "identity": identity, "round": round_, "label": label}
        kept = _filtered(table, {k: v for k, v in equal.items() if v is not None}, least, most)
        page = kept.select(_SHOWN).slice(offset, PAGE)
        return {
            "total": kept.num_rows,
            "offset": offset,
            "page": PAGE,
            "score": _label_source(table),
            "facets": facets,
            "data": page.to_pylist(),
        }

    @api.get("/{name}/debates/{debate_id}")
    def debate(name: str, debate_id: str) -> dict[str, Any]:
        table = _table(run(name), "data/transcripts.parquet", STATEMENT_SCHEMA)
        found = _filtered(table, {"debate_id": debate_id}, None, None).select(_SHOWN)
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
        table = _table(run(name), "eval/answers.parquet", _ANSWERS)
        equal = {} if bias_type is None else {"bias_type": bias_type}
        by_prompt: dict[str, dict[str, Any]] = {}
        for row in _filtered(table, equal, None, None).to_pylist():
            entry = by_prompt.setdefault(
                row["prompt_id"],
                {"prompt": row["prompt"], "bias_type": row["bias_type"], "models": {}},
            )
            entry["models"][row["model"]] = {"answer": row["answer"], "reward": row["reward"]}
        found = list(by_prompt.values())
        return {"total": len(found), "offset": offset, "data": found[offset : offset + PAGE]}

    return api


_SHOWN = [
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
]


# The columns that are shown; a run's file has others besides.
_ANSWERS = pa.schema(
    [
        ("model", pa.string()),
        ("prompt_id", pa.string()),
        ("bias_type", pa.string()),
        ("prompt", pa.string()),
        ("answer", pa.string()),
        ("reward", pa.float64()),
    ]
)


def _table(folder: RunFolder, name: str, schema: pa.Schema) -> pa.Table:
    try:
        return folder.read_table(name, schema)
    except UnreadableFileError as error:
        raise _unreadable(name, error) from error
    except RunFolderError:
        raise RefusedError(404, f"this run has no {name} yet") from None


def _unreadable(name: str, error: Exception) -> RefusedError:
    """A file is torn, or another kind's. The log alone says where it lies on this machine."""
    log.error("%s", error)
    message = f"{name} of this run cannot be read: {redo_advice(name)}"
    return RefusedError(500, message, kind="server_error")


def _label_source(table: pa.Table) -> str:
    """The column that made the labels."""
    said = table.num_rows and table["label_source"][0].as_py() == "said"
    return "score" if said else "expected_score"


def _filtered(
    table: pa.Table, equal: dict[str, Any], least: float | None, most: float | None
) -> pa.Table:
    for column, value in equal.items():
        table = table.filter(pc.field(column) == value)
    if least is None and most is None:
        return table
    score = pc.field(_label_source(table))
    if least is not None:
        table = table.filter(score >= least)
    return table if most is None else table.filter(score <= most)
