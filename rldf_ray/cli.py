"""The `rldf` command: plans, runs, single stages, reports."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated

import typer

from rldf_ray import extras, signals
from rldf_ray.commands import compare, figures
from rldf_ray.commands import export as eval_export
from rldf_ray.commands.addresses import refuse_addresses
from rldf_ray.commands.corpus import app as corpora
from rldf_ray.commands.data import export, import_
from rldf_ray.commands.doctor import doctor as doctor_command
from rldf_ray.commands.evaluations import add_evaluations
from rldf_ray.commands.evince import app as evinces
from rldf_ray.commands.groups import DefaultCommandGroup
from rldf_ray.commands.persuasion import app as persuasions
from rldf_ray.commands.publish import publish
from rldf_ray.commands.referee import app as referees
from rldf_ray.commands.serve import serves
from rldf_ray.commands.show import show as show_command
from rldf_ray.commands.study import study as study_command
from rldf_ray.commands.summary import print_report, print_summary
from rldf_ray.commands.sweep import sweep
from rldf_ray.console import Progress, tolerate_narrow_streams, write
from rldf_ray.errors import UserError
from rldf_ray.plan import Plan, PlanError, load_plan, plan_fields
from rldf_ray.plan.saved import saved_plan
from rldf_ray.storage.json_text import exact_json, json_text
from rldf_ray.storage.lock import RunInUseError
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.unfinished import MARK, check_finished

app = typer.Typer(
    help="Less biased language models from multi-role debates.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
plans = typer.Typer(help="Look at plans.", no_args_is_help=True)
trains = typer.Typer(help="One training stage on a run folder.", no_args_is_help=True)
evals = typer.Typer(
    cls=DefaultCommandGroup,
    help="Evaluate a run (`rldf eval RUN`), or any model on a benchmark.",
    no_args_is_help=True,
)
datas = typer.Typer(
    cls=DefaultCommandGroup,
    help="A run's data (`rldf data RUN`), taken elsewhere, or given.",
    no_args_is_help=True,
)


def _print_version(asked: bool) -> None:
    if asked:
        write(installed_version("rldf-ray"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="print the version and stop", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Less biased language models from multi-role debates."""


app.add_typer(plans, name="plan")
app.add_typer(datas, name="data")
app.add_typer(trains, name="train")
app.add_typer(referees, name="referee")
app.add_typer(evals, name="eval")
app.add_typer(serves, name="serve")
app.command("publish")(publish)
app.command("study")(study_command)
app.command("sweep")(sweep)
app.add_typer(evinces, name="evince")
app.add_typer(persuasions, name="persuasion")
app.add_typer(corpora, name="corpus")

progress = Progress.beside(as_json=False)
INTERRUPTED = "interrupted; the same command continues from what was finished"

PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="a preset's name or a YAML file")]
Folder = Annotated[
    str, typer.Argument(metavar="DIR", help="a run folder, or its address: s3://bucket/run")
]
Out = Annotated[
    str, typer.Option("--out", help="the run folder, new or begun before; s3://bucket/run as well")
]
Set = Annotated[
    list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
]
AsJSON = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]
Redo = Annotated[
    bool,
    typer.Option("--redo", help="do it again; what depends on it is undone until its own command"),
]
BBQ = Annotated[Path | None, typer.Option("--bbq", metavar="DIR", help="a folder with BBQ's files")]
PlanOption = Annotated[
    str | None, typer.Option("--plan", help="begin the folder with this plan (preset or file)")
]


@app.command("run")
def run_command(
    plan: PlanName,
    out: Out,
    set_: Set = [],  # noqa: B006
    bbq: BBQ = None,
    as_json: AsJSON = False,
) -> None:
    """Run everything: debates, data, SFT, reward model, PPO (or DPO, KTO), evaluation, report."""
    items = [f"evaluate.bbq={exact_json(str(bbq.resolve()), '--bbq')}"] if bbq else []
    overrides = [*set_, *items]
    loaded = load_plan(plan, overrides)
    from rldf_ray import pipeline

    terminal = _progress(as_json)
    pipeline.run(loaded, out, terminal)
    print_summary(out, terminal, as_json)


def _progress(as_json: bool) -> Progress:
    return Progress.beside(as_json) if as_json else progress


def _stages(
    out: str, names: tuple[str, ...], plan: str | None, overrides: list[str], redo: bool
) -> None:
    from rldf_ray import pipeline

    pipeline.run(_plan_of(out, plan, overrides), out, progress, only=names, redo=redo)


def _plan_of(out: str, plan: str | None, overrides: list[str]) -> Plan:
    """The folder's own plan, or the one it shall begin with."""
    if plan is not None:
        return load_plan(plan, overrides)
    folder = RunFolder.at(out)
    saved = folder.fetched("plan.yaml")
    folder.fetched(MARK)
    check_finished(folder)
    if not saved.exists():
        raise PlanError(f"{out} has no plan.yaml: give --plan to begin a run there")
    saved_plan(folder)
    return load_plan(str(saved), overrides, saved=True)


@app.command()
def debate(out: Folder, plan: PlanOption = None, set_: Set = [], redo: Redo = False) -> None:  # noqa: B006
    """Topics, the referee's audit and the debates."""
    from rldf_ray import pipeline
    from rldf_ray.stages.order import debating

    loaded = _plan_of(out, plan, set_)
    pipeline.run(loaded, out, progress, only=debating(loaded), redo=redo)


@datas.command("RUN")
def data(out: Folder, redo: Redo = False) -> None:
    """SFT, pairs and prompts from the transcripts."""
    _stages(out, ("data",), None, [], redo)


datas.command("export")(export)
datas.command("import")(import_)


@trains.command()
def sft(out: Folder, redo: Redo = False) -> None:
    """Supervised fine-tuning on low-bias statements."""
    _stages(out, ("sft",), None, [], redo)


@trains.command()
def reward(out: Folder, redo: Redo = False) -> None:
    """The reward model."""
    _stages(out, ("reward",), None, [], redo)


@trains.command()
def ppo(out: Folder, redo: Redo = False) -> None:
    """PPO from the SFT model against the reward model."""
    _stages(out, ("ppo",), None, [], redo)


@trains.command()
def dpo(out: Folder, redo: Redo = False) -> None:
    """DPO on the pairs, where the plan's train.after has it."""
    _stages(out, ("dpo",), None, [], redo)


@trains.command()
def kto(out: Folder, redo: Redo = False) -> None:
    """KTO on the answers of the pairs, where the plan's train.after has it."""
    _stages(out, ("kto",), None, [], redo)


@evals.command("RUN")
def eval_command(out: Folder, bbq: BBQ = None, redo: Redo = False, as_json: AsJSON = False) -> None:
    """Evaluate base, SFT and policy on the plan's items, or on BBQ, and on held-out prompts."""
    from rldf_ray import pipeline

    plan = _plan_of(out, None, [])
    other_items = bbq.resolve() if bbq else None
    terminal = _progress(as_json)
    pipeline.run(plan, out, terminal, only=("eval",), redo=redo, bbq=other_items)
    print_summary(out, terminal, as_json)


add_evaluations(evals, others=(compare, figures, eval_export))
app.command("show")(show_command)


@app.command()
def report(out: Folder, as_json: AsJSON = False) -> None:
    """Write the report again and print its main table; of a run in use, what has finished."""
    from rldf_ray.report.build import report_so_far, write_report

    plan, folder = _plan_of(out, None, []), RunFolder.at(out)
    try:
        with folder.locked():
            write_report(folder, plan)
    except RunInUseError:
        write(f"{folder.where} is in use: this is what has finished so far", to_stderr=True)
        print_report(report_so_far(folder, plan), progress, as_json)
        return
    print_summary(out, progress, as_json)


app.command("doctor")(doctor_command)


@plans.command()
def show(plan: PlanName, set_: Set = [], as_json: AsJSON = False) -> None:  # noqa: B006
    """Print a plan with every field filled in."""
    loaded = load_plan(plan, set_)
    print(loaded.model_dump_json(indent=2) if as_json else loaded.to_yaml(), end="")


@plans.command()
def validate(plan: PlanName, set_: Set = []) -> None:  # noqa: B006
    """Check a plan's fields, types and values, and that protocol and bias types are there."""
    from rldf_ray.preflight.checks import check_names

    loaded = load_plan(plan, set_)
    check_names(loaded)
    write(f"{plan}: valid, digest {loaded.digest()}")


@plans.command()
def fields(as_json: AsJSON = False) -> None:
    """Every field with type, unit, default and source: of the paper, or docs/method.md (METHOD)."""
    described = list(plan_fields())
    if as_json:
        print(json_text([asdict(field) for field in described], indent=2, default=str))
        return
    for field in described:
        default = "null" if field.default is None else field.default
        progress.say(f"{field.path}: {field.type} = {default}")
        about = [field.description, field.unit and f"[{field.unit}]", field.source]
        progress.say("    " + "; ".join(filter(None, about)))


@plans.command()
def schema() -> None:
    """The JSON Schema of a plan, for editors that check YAML files."""
    write(json_text(Plan.model_json_schema(), indent=2))


refuse_addresses(app)


def main(command: Callable[[], None] = app) -> None:
    """Entry point: an expected error is one message on stderr, and its own exit status."""
    tolerate_narrow_streams()
    try:
        with signals.unwinding():
            command()
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        sys.exit(signals.exit_status(signal.SIGINT))
    except SystemExit as end:
        # Typer makes one of a KeyboardInterrupt.
        if end.code in signals.STATUSES:
            print(INTERRUPTED, file=sys.stderr)
        raise
    except UserError as error:
        write(f"{error.heading}: {error}", to_stderr=True)
        sys.exit(error.exit_status)
    except ModuleNotFoundError as error:
        missing = extras.advice(error.name or "")
        if missing is None:
            raise
        write(f"error: {missing}", to_stderr=True)
        sys.exit(1)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "; make room: the same command continues from what was finished" if full else ""
        write(f"error: {error}{advice}", to_stderr=True)
        sys.exit(1)
