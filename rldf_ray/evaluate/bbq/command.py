"""`rldf eval bbq` and `rldf eval bbq-hard`: BBQ for any model, or given predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rldf_ray.console import write
from rldf_ray.plan import TREE_TOKENS, PlanError, endpoint_at
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.whole_files import whole_file

if TYPE_CHECKING:
    from rldf_ray.storage.run_folder import RunFolder

PLACE = 1


class ModeName(StrEnum):
    rank = "rank"
    rank_sum = "rank_sum"
    letter = "letter"
    generate = "generate"


class VariantName(StrEnum):
    paper = "paper"
    helm = "helm"
    lm_eval = "lm_eval"


class HardBy(StrEnum):
    answer = "answer"
    judge = "judge"


class DTypeName(StrEnum):
    bfloat16 = "bfloat16"
    float32 = "float32"


Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL", help="a model folder, a run's folder, 'embedded', or openai:NAME"
    ),
]
BBQ = Annotated[
    str, typer.Option("--bbq", metavar="DIR", help="BBQ's files, or 'hub' to download them")
]
ModeOption = Annotated[ModeName, typer.Option("--mode", help="how the model is asked")]
VariantOption = Annotated[VariantName, typer.Option("--variant", help="whose bias scores")]
Items = Annotated[
    int | None,
    typer.Option("--items", min=4, help="items of each category, stratified; all by default"),
]
Seed = Annotated[int, typer.Option("--seed", help="of the sample, the orders and the intervals")]
Permute = Annotated[
    bool, typer.Option("--permute/--published-order", help="options in an order drawn by seed")
]
Predictions = Annotated[
    Path | None,
    typer.Option("--predictions", metavar="FILE", help="score this jsonl instead of a model"),
]
Only = Annotated[
    Path | None,
    typer.Option("--only", metavar="FILE", help="a subset: a file written by `rldf eval bbq-hard`"),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="default: runs/bbq/MODEL-MODE")
]
AsJSON = Annotated[bool, typer.Option("--json", help="print JSON instead of tables")]
DTypeOption = Annotated[DTypeName, typer.Option("--dtype", help="precision of a model folder")]
Tokens = Annotated[
    int, typer.Option("--tokens", min=1, help="tokens read in one forward pass when ranking")
]
BaseURL = Annotated[
    str | None, typer.Option("--base-url", help="OpenAI-compatible server of openai:NAME")
]
KeyVariable = Annotated[
    str | None,
    typer.Option(
        "--api-key-env",
        help="environment variable that holds the endpoint's key; default: OPENAI_API_KEY",
    ),
]
HardByOption = Annotated[
    HardBy,
    typer.Option("--hard-by", help="its answers, or a judge's verdicts on its reasoning"),
]
EndpointPlan = Annotated[
    str | None, typer.Option("--plan", help="whose endpoint is asked, with its fields and limits")
]


def bbq(
    bbq_: BBQ,
    model: Model = None,
    mode: ModeOption = ModeName.rank,
    variant: VariantOption = VariantName.paper,
    items: Items = None,
    seed: Seed = 0,
    permute: Permute = True,
    predictions: Predictions = None,
    only: Only = None,
    out: Out = None,
    dtype: DTypeOption = DTypeName.bfloat16,
    tokens: Tokens = TREE_TOKENS,
    base_url: BaseURL = None,
    api_key_env: KeyVariable = None,
    plan: EndpointPlan = None,
    as_json: AsJSON = False,
) -> None:
    """BBQ's accuracy and bias scores of a model, or of predictions made elsewhere."""
    from rldf_ray.evaluate.bbq.run import evaluated
    from rldf_ray.evaluate.bbq.tables import leave

    summary = evaluated(
        model,
        bbq=bbq_,
        mode=mode.value,
        variant=variant.value,
        items=items,
        seed=seed,
        permute=permute,
        predictions=predictions,
        only=only,
        out=out,
        dtype=dtype.value,
        tokens=tokens,
        endpoint=endpoint_at(base_url, api_key_env, plan),
    )
    leave(summary, as_json)


def bbq_hard(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="the reference model; with --hard-by judge, a study"),
    ],
    bbq_: BBQ,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="jsonl to write")],
    mode: ModeOption = ModeName.rank,
    items: Items = None,
    seed: Seed = 0,
    permute: Permute = True,
    dtype: DTypeOption = DTypeName.bfloat16,
    tokens: Tokens = TREE_TOKENS,
    base_url: BaseURL = None,
    api_key_env: KeyVariable = None,
    plan: EndpointPlan = None,
    hard_by: HardByOption = HardBy.answer,
) -> None:
    """The items a reference model gets wrong or answers with bias; see `rldf eval bbq --only`.

    With `--hard-by judge`, those whose first steps the judge of a finished `rldf study mabrf`
    flags; nothing is asked.
    """
    from rldf_ray.evaluate.bbq import run as work
    from rldf_ray.evaluate.bbq.hub import bbq_folder
    from rldf_ray.evaluate.bbq.predictions import hard_items
    from rldf_ray.storage.run_folder import RunFolder

    if hard_by is HardBy.judge:
        if items is not None:
            raise PlanError("--hard-by judge takes all items of the study; leave --items out")
        _hard_by_judge(RunFolder.at(model), bbq_folder(bbq_), out)
        return
    endpoint = endpoint_at(base_url, api_key_env, plan)
    request = work.Request(
        model=model,
        mode=mode.value,
        variant="paper",
        permute=permute,
        seed=seed,
        dtype=dtype.value,
        tokens=tokens,
        endpoint=endpoint,
    )
    item_set = work.read_items(bbq_folder(bbq_), items, seed, None)
    answers = work.default_out(model, mode.value)
    evaluation = work.evaluate(request, item_set, RunFolder(answers))
    work.save(evaluation, RunFolder(answers.with_name(f"{answers.name}-hard")))
    rows = hard_items(evaluation)
    _write_lines(rows, out)
    write(f"{len(rows)} of {len(item_set.items)} items are hard for {model}: {out}")


def _hard_by_judge(study: RunFolder, bbq_: Path, out: Path) -> None:
    from rldf_ray.evaluate.bbq.hard_by_judge import judged_hard
    from rldf_ray.evaluate.bbq.run import read_items

    found = judged_hard(study, {item.key for item in read_items(bbq_, None, 0, None).items})
    _write_lines(found.rows, out)
    left = f"; {found.without_verdict} without a verdict are left out" * bool(found.without_verdict)
    write(
        f"{len(found.rows)} of {found.judged} items are hard for {found.reference} by the judge "
        f"{found.judge}: {out}{left}"
    )


def _write_lines(rows: Iterable[Mapping[str, Any]], out: Path) -> None:
    with whole_file(out.resolve()) as scratch:
        scratch.write_text("".join(f"{json_text(row)}\n" for row in rows), encoding="utf-8")


COMMANDS = {"bbq": bbq, "bbq-hard": bbq_hard}
