"""`rldf eval compare`: the paper's tables for a plan."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from rldf_ray.console import Progress, TextConsole
from rldf_ray.plan import load_plan
from rldf_ray.storage.json_text import json_text

PLACE = 4

if TYPE_CHECKING:
    from rldf_ray.comparison.comparisons import Comparison
    from rldf_ray.comparison.result import ComparisonResult


class AskedBy(StrEnum):
    rank = "rank"
    rank_sum = "rank_sum"
    letter = "letter"


PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="a preset's name or a YAML file")]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="the comparison's folder, new or begun before")
]
Set = Annotated[
    list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
]
Methods = Annotated[
    list[str],
    typer.Option(
        "--method",
        help="a file of rldf_ray/comparison/methods, such as default or rldf_self; may be given "
        "several times; by default all but controls, mabrf, mabrf_search, dpo and kto",
    ),
]
Controls = Annotated[
    bool,
    typer.Option(
        "--controls",
        help="add the controls: instructed reasoning and samples, debaters that hear nobody, SFT "
        "on right answers",
    ),
]
Teachers = Annotated[
    list[str],
    typer.Option(
        "--teacher",
        metavar="MODEL",
        help="vllm:MODEL or openai:MODEL, a row of rldf_teacher each; default: the plan's own",
    ),
]
Repeats = Annotated[int, typer.Option("--repeats", min=1, help="training and sampling seeds")]
BBQ = Annotated[
    str | None, typer.Option("--bbq", metavar="DIR", help="BBQ's files, or 'hub' to download them")
]
Items = Annotated[
    int | None,
    typer.Option("--items", min=4, help="in all, stratified; the plan's, on BBQ at least 240"),
]
DevItems = Annotated[
    list[Path],
    typer.Option(
        "--dev-items",
        metavar="DIR",
        help="a comparison on whose items settings were chosen, may be given several times: none "
        "of them is asked, and the tables say so",
    ),
]
Modes = Annotated[
    list[AskedBy],
    typer.Option(
        "--mode",
        help="options ranked by likelihood, or by letter; may be given twice, the first is that of "
        "Table 1; rank and letter by default",
    ),
]
Figures = Annotated[
    list[Path],
    typer.Option(
        "--figures",
        metavar="FILE",
        help="figures of the same methods from `rldf eval judge` or `human import` (a parquet), "
        "for Tables 2 to 5",
    ),
]
JudgedBy = Annotated[
    str | None,
    typer.Option(
        "--judge",
        metavar="MODEL",
        help="vllm:MODEL or openai:MODEL scores the free answers: Tables 3 to 5, Figures 5 and 6",
    ),
]
AuditPairs = Annotated[
    int,
    typer.Option("--audit-pairs", min=0, help="the judge's: labelled pairs of each bias type"),
]
Multirole = Annotated[
    Path | None,
    typer.Option("--multirole", metavar="DIR", help="ask the multi-role debate set here as well"),
]
Queries = Annotated[
    int, typer.Option("--queries", min=1, help="of the multi-role set, for each bias type")
]
AsJSON = Annotated[bool, typer.Option("--json", help="print compare.json instead of tables")]


def compare(
    plan: PlanName,
    out: Out,
    set_: Set = [],  # noqa: B006
    method: Methods = [],  # noqa: B006
    controls: Controls = False,
    teacher: Teachers = [],  # noqa: B006
    repeats: Repeats = 3,
    bbq: BBQ = None,
    items: Items = None,
    dev_items: DevItems = [],  # noqa: B006
    mode: Modes = [AskedBy.rank, AskedBy.letter],  # noqa: B006
    multirole: Multirole = None,
    queries: Queries = 2000,
    judge: JudgedBy = None,
    audit_pairs: AuditPairs = 16,
    figures: Figures = [],  # noqa: B006
    as_json: AsJSON = False,
) -> None:
    """Train and ask every method on the same items: Tables 1 to 5. Goes on where it was cut off."""
    loaded = load_plan(plan, set_)
    from rldf_ray.comparison import work
    from rldf_ray.comparison.settings import Settings, plan_with_items, ways_of_asking
    from rldf_ray.evaluate.bbq.hub import bbq_folder

    folder = None if bbq is None else str(bbq_folder(bbq).resolve())
    others = tuple(str(path) for path in figures)
    settings = Settings(
        methods=tuple(method) or None,
        controls=controls,
        teachers=tuple(teacher),
        repeats=repeats,
        dev_items=tuple(str(path) for path in dev_items),
        modes=ways_of_asking([one.value for one in mode]),
        figures=others,
        queries=queries,
        judge=judge,
        audit_pairs=audit_pairs,
    )
    progress = Progress.beside(as_json)
    other = None if multirole is None else str(multirole.resolve())
    whole = plan_with_items(loaded, folder, items, other)
    result = work.compare(whole, settings, out, progress)
    if as_json:
        print(json_text(result.summary, indent=2))
        return
    show(result, TextConsole(file=sys.stdout))
    names = (
        "tables.md, tables.tex, tables.csv, differences.csv, costs.csv, eval/items.parquet, "
        "results.parquet, compare.json"
    )
    progress.say(f"{out / 'compare'}: {names}")


def show(result: ComparisonResult, console: Console) -> None:
    """Accuracy with differences, and what every row cost; both fit 80 columns."""
    from rldf_ray.comparison.costs import Answering
    from rldf_ray.comparison.results import ALL, BBQ
    from rldf_ray.comparison.tables import cell_of

    table = Table("", "overall", "ambig.", "disamb.", "on Default", "on SFT", box=None)
    for name, title in result.titles.items():
        overall = cell_of(result.results, name, BBQ, ALL, "accuracy")
        parts = [cell_of(result.results, name, BBQ, ALL, f"accuracy_{c}") for c in ("amb", "dis")]
        spread = "" if overall.sd is None else f" ±{overall.sd:.3f}"
        table.add_row(
            title,
            f"{overall.mean:.3f}{spread}",
            *("n/a" if cell.mean is None else f"{cell.mean:.3f}" for cell in parts),
            *(_difference(result.comparisons, name, against) for against in ("default", "sft")),
        )
    silent = result.summary["always_unknown"]
    figures = (silent[name] for name in ("accuracy", "accuracy_amb", "accuracy_dis"))
    table.add_row("always unknown", *("n/a" if v is None else f"{v:.3f}" for v in figures), "", "")
    console.print(table)
    costs = Table("", "pairs", "tokens", "seconds", "USD", "thought", "s an item", "AUC", box=None)
    for name, cost in result.costs.items():
        # The lesser of opinions and scenes, as far as both are debated: tables.md has each.
        known = [auc for auc in (cost.auc_opinions, cost.auc_scenes) if auc is not None]
        took = next(iter(cost.answering.values()), Answering())
        costs.add_row(
            result.titles[name],
            str(cost.pairs or ""),
            str(cost.generated_tokens),
            f"{cost.seconds:.0f}",
            "unknown" if cost.usd is None else f"{cost.usd:.2f}",
            f"{took.thought_tokens:.0f}",
            f"{took.seconds:.2f}",
            f"{min(known):.2f}" if known else "",
        )
    console.print()
    console.print(costs)
    for remark in dict.fromkeys(r for cost in result.costs.values() for r in cost.remarks):
        titles = [result.titles[name] for name, c in result.costs.items() if remark in c.remarks]
        console.print(f"- {', '.join(titles)}: {remark}.", markup=False)
    for note in result.notes:
        console.print(f"- {note}", markup=False)


def _difference(comparisons: Sequence[Comparison], method: str, against: str) -> str:
    """`+1.2 n.s.`, points of overall accuracy."""
    for one in comparisons:
        if (one.method, one.against, one.condition) == (method, against, "all"):
            return f"{100 * one.value:+.1f} {one.short_verdict}"
    return ""


COMMANDS = {"compare": compare}
