"""`rldf eval multirole`: the multi-role debate set for any model, or given predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.evaluate.bbq.command import (
    BaseURL,
    DTypeName,
    DTypeOption,
    EndpointPlan,
    KeyVariable,
    Model,
    ModeName,
    ModeOption,
    Permute,
    Tokens,
)
from rldf_ray.plan import TREE_TOKENS, PlanError, endpoint_at

PLACE = 2

PER_BIAS_TYPE = 2000


def multirole(
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="folder with Kamruzzaman's dataset.csv")
    ],
    model: Model = None,
    mode: ModeOption = ModeName.rank,
    queries: Annotated[
        int, typer.Option("--queries", min=1, help="of each bias type, a balanced sample")
    ] = PER_BIAS_TYPE,
    seed: Annotated[
        int, typer.Option("--seed", help="of the sample, the orders and the intervals")
    ] = 0,
    permute: Permute = True,
    predictions: Annotated[
        Path | None,
        typer.Option("--predictions", metavar="FILE", help="score this jsonl instead of a model"),
    ] = None,
    write_queries: Annotated[
        Path | None,
        typer.Option("--write-queries", metavar="FILE", help="write the queries as jsonl and stop"),
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", help="what multirole_long.parquet calls the model")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="default: runs/multirole/MODEL-MODE")
    ] = None,
    dtype: DTypeOption = DTypeName.bfloat16,
    tokens: Tokens = TREE_TOKENS,
    base_url: BaseURL = None,
    api_key_env: KeyVariable = None,
    plan: EndpointPlan = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """Share of biased, impartial and anti-biased answers on the multi-role debate set."""
    if [model, predictions, write_queries].count(None) != 2:
        raise PlanError(
            "rldf eval multirole: needed is one of MODEL, --predictions FILE and "
            "--write-queries FILE"
        )
    from rldf_ray.evaluate.multirole import run as work
    from rldf_ray.storage.run_folder import RunFolder

    if write_queries is not None:
        work.write_queries(data, queries, seed, write_queries)
    elif predictions is not None:
        evaluation = work.scored(predictions, data, queries, seed)
        target = RunFolder(out or work.default_out(predictions.stem, "predictions"))
        work.leave(evaluation, method, target, as_json)
    else:
        request = work.Request(
            model=model or "",
            mode=mode.value,
            permute=permute,
            seed=seed,
            dtype=dtype.value,
            tokens=tokens,
            endpoint=endpoint_at(base_url, api_key_env, plan),
        )
        target = RunFolder(out or work.default_out(request.model, mode.value))
        evaluation = work.evaluate(request, data, queries, target)
        work.leave(evaluation, method, target, as_json)


COMMANDS = {"multirole": multirole}
