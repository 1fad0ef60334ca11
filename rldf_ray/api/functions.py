"""What the command line does, as functions: `import rldf_ray as rldf`.

Each does the same as the command of its name, goes on where it was cut off, and raises a
`UserError` where the command ends with a message. Each has a twin for coroutines (`arun` of `run`)
that works in a thread; in a running event loop the others may be called as well, and it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from rldf_ray.api.arguments import Overrides, endpoint_of, plain, written
from rldf_ray.api.results import BBQResult, Comparison, JudgeResult, Run, Server, StudyResult
from rldf_ray.console import Progress, TextConsole
from rldf_ray.loops import in_thread
from rldf_ray.plan import TREE_TOKENS, Plan, load_plan
from rldf_ray.storage.object_store import local_path

if TYPE_CHECKING:
    from rldf_ray.evaluate.bbq.ask import DType
    from rldf_ray.evaluate.bbq.prompt import Mode
    from rldf_ray.evaluate.bbq.variants import Variant

P = ParamSpec("P")
T = TypeVar("T")


def run(
    plan: str = "quickstart",
    out: str | Path | None = None,
    *,
    overrides: Overrides | None = None,
    bbq: str | Path | None = None,
    quiet: bool = False,
) -> Run:
    """Debates, data, SFT, reward model, PPO, evaluation and report (`rldf run`).

    The plan's `train.after` may have DPO or KTO in the place of the reward model and PPO.

    Args:
        plan: a preset's name, or a YAML file.
        out: the run's folder, or its address in a bucket; `runs/PLAN` where none is given.
        bbq: a folder of BBQ's files, to evaluate on them.
        quiet: say nothing on stderr meanwhile.

    Raises:
        PlanError: the plan is none; the message lists all that is wrong.
        UserError: as `rldf_ray.pipeline.run`, with what to do about it.
    """
    given = dict(overrides or {})
    if bbq is not None:
        given["evaluate.bbq"] = str(Path(bbq).resolve())
    return _staged(load_plan(plan, written(given)), out, None, quiet)


def debate(
    plan: str = "quickstart",
    out: str | Path | None = None,
    *,
    overrides: Overrides | None = None,
    quiet: bool = False,
) -> Run:
    """Topics, the referee's audit, debates, and the data they make (`rldf debate`, `rldf data`).

    At an endpoint (`overrides={"teacher": "openai:MODEL"}`) nothing is loaded here, unless the
    plan's referee is trained, which is fitted here first. Arguments and errors are those of `run`.
    """
    from rldf_ray.stages.order import debating

    loaded = load_plan(plan, written(overrides))
    return _staged(loaded, out, (*debating(loaded), "data"), quiet)


def study(
    name: str,
    plan: str = "small",
    out: str | Path | None = None,
    *,
    overrides: Overrides | None = None,
    quiet: bool = False,
) -> StudyResult:
    """A protocol studied by itself: its paper's tables and figures (`rldf study`).

    Args:
        name: judges, evince, mabrf or persuasion, or a protocol of yours that can be studied.
        out: the study's folder; `runs/NAME-PLAN` where none is given.

    Raises:
        ProtocolError, PlanError: there is no such study, or its plan is none.
        UserError: as `rldf_ray.studies.run.run_study`.
    """
    from rldf_ray.studies.plans import load_study
    from rldf_ray.studies.run import run_study

    loaded = load_study(name, plan, written(overrides))
    folder = out or Path("runs") / f"{name}-{loaded.plan.name}"
    summary = run_study(name, loaded, str(folder), _progress(quiet))
    return StudyResult.of(str(folder), summary)


def bbq(
    model: str | None = None,
    *,
    bbq: str | Path,
    predictions: str | Path | None = None,
    mode: Mode = "rank",
    variant: Variant = "paper",
    items: int | None = None,
    only: str | Path | None = None,
    seed: int = 0,
    permute: bool = True,
    dtype: DType = "bfloat16",
    tokens: int = TREE_TOKENS,
    endpoint: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
) -> BBQResult:
    """BBQ's accuracy and bias scores of a model, or of predictions (`rldf eval bbq`).

    Args:
        model: a model's or run's folder, a hub id, `embedded`, or `openai:NAME`.
        bbq: a folder of BBQ's files, or `hub`.
        predictions: score this jsonl instead of a model.
        items: of each category, stratified; all where none is given.
        only: a file that names the items, as `rldf eval bbq-hard` writes it.
        dtype, tokens: of a model folder: precision, and tokens read in one forward pass.
        endpoint: fields of a plan's `endpoint`, as {"base_url": "http://localhost:8000/v1"}.

    Raises:
        PlanError: both a model and predictions are given, or neither; or a field of `endpoint` is
            wrong.
        UserError: items, predictions or model cannot be read, or the endpoint did not answer.
    """
    from rldf_ray.evaluate.bbq.run import evaluated

    summary = evaluated(
        model,
        bbq=str(bbq),
        mode=mode,
        variant=variant,
        items=items,
        seed=seed,
        permute=permute,
        predictions=_path(predictions),
        only=_path(only),
        out=_path(out),
        dtype=dtype,
        tokens=tokens,
        endpoint=endpoint_of(endpoint or {}),
    )
    return BBQResult(summary)


def judge(
    answers: str | Path,
    judge: str,
    *,
    measures: Sequence[str] | None = None,
    rubrics: Sequence[str | Path] = (),
    prompts: int | None = None,
    against: str | None = None,
    audit_pairs: int = 16,
    plan: str | None = None,
    overrides: Overrides | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> JudgeResult:
    """Bias, effectiveness and soundness of free answers by a judging model (`rldf eval judge`).

    Args:
        answers: a run's folder, or a .parquet or .jsonl file.
        judge: vllm:MODEL or openai:MODEL.
        measures: some of BS, CE, LS and the names of `rubrics`; all of them where none is given.
        rubrics: files of measures of one's own, in the form of the shipped ones.
        prompts: judge the answers to so many prompts, by seed; all where none is given.
        against: also compare all others with this method's answers in pairs.
        audit_pairs: labelled pairs of each bias type that the judge is audited on; 0 is no audit.
        plan: whose engines and endpoint are asked with; the run's own where none is given.

    Raises:
        UserError: as `rldf_ray.evaluate.judge.run.judged`.
    """
    from rldf_ray.evaluate.judge.answers import RUN_ANSWERS
    from rldf_ray.evaluate.judge.run import judged
    from rldf_ray.storage.run_folder import local_copy

    summary = judged(
        local_copy(answers, "plan.yaml", "stages", RUN_ANSWERS),
        judge,
        measures=measures,
        rubrics=[Path(path) for path in rubrics],
        prompts=prompts,
        against=against,
        audit_pairs=audit_pairs,
        plan=plan,
        overrides=written(overrides),
        seed=seed,
        out=_path(out),
    )
    return JudgeResult(summary)


def compare(
    plan: str,
    out: str | Path,
    *,
    methods: Sequence[str] = (),
    controls: bool = False,
    teachers: Sequence[str] = (),
    repeats: int = 3,
    bbq: str | Path | None = None,
    items: int | None = None,
    dev_items: Sequence[str | Path] = (),
    modes: Sequence[Literal["rank", "rank_sum", "letter"]] = ("rank", "letter"),
    multirole: str | Path | None = None,
    queries: int = 2000,
    judge: str | None = None,
    audit_pairs: int = 16,
    figures: Sequence[str | Path] = (),
    overrides: Overrides | None = None,
    quiet: bool = False,
) -> Comparison:
    """Train and ask every method on the same items: Tables 1 to 5 (`rldf eval compare`).

    Args:
        methods: files of `rldf_ray/comparison/methods`; by default all but controls, mabrf,
            mabrf_search, dpo and kto.
        dev_items: folders of comparisons on whose items settings were chosen: none is asked.
        modes: the first is that of Table 1.

    Raises:
        UserError: as `rldf_ray.comparison.work.compare`.
    """
    from rldf_ray.comparison import work
    from rldf_ray.comparison.settings import Settings, plan_with_items, ways_of_asking
    from rldf_ray.evaluate.bbq.hub import bbq_folder

    settings = Settings(
        methods=tuple(methods) or None,
        controls=controls,
        teachers=tuple(teachers),
        repeats=repeats,
        dev_items=tuple(map(str, dev_items)),
        modes=ways_of_asking(list(modes)),
        figures=tuple(map(str, figures)),
        queries=queries,
        judge=judge,
        audit_pairs=audit_pairs,
    )
    folder = None if bbq is None else str(bbq_folder(str(bbq)).resolve())
    other = None if multirole is None else str(Path(multirole).resolve())
    whole = plan_with_items(load_plan(plan, written(overrides)), folder, items, other)
    result = work.compare(whole, settings, local_path(out), _progress(quiet))
    return Comparison(str(out), result.summary, tuple(result.notes))


def export(
    folder: str | Path,
    out: str | Path,
    *,
    to: Literal["inspect", "lm-eval"],
    bbq: str | Path | None = None,
) -> list[str]:
    """Results as inspect_ai's logs, or lm-evaluation-harness' files (`rldf eval export`).

    Args:
        folder: of `bbq`, of `compare` or of a study of judges.
        out: a new or empty folder.
        bbq: BBQ's files, where they have moved since.

    Returns:
        The files.

    Raises:
        UserError: as `rldf_ray.api.exports.export_results`.
    """
    from rldf_ray.api.exports import export_results

    return [str(path) for path in export_results(str(folder), local_path(out), to, _path(bbq))]


def serve(
    model: str,
    *,
    models: Sequence[str] = ("policy", "base"),
    overrides: Overrides | None = None,
    quiet: bool = False,
) -> Server:
    """The served policy, up: a context manager that ends it (`rldf serve`).

    Args:
        model: a run's or model's folder, or a hub id.
        models: of a run's folder: which of policy, sft and base.
        overrides: fields of `serve/settings.py` by their dotted names; the port is a free one
            unless it is named.

    Raises:
        SettingsError, PortTakenError, ServingError: with what to do about it.
    """
    from rldf_ray.apps.serve.launch import serving
    from rldf_ray.apps.serve.settings_sources import set_field, settings_for

    values: dict[str, Any] = {"port": 0}
    for dotted, value in (overrides or {}).items():
        set_field(values, dotted, plain(value))
    settings = settings_for(model, tuple(models), values)
    return Server(serving(settings, _progress(quiet).say), tuple(settings.models))


def _twin(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same for coroutines: it works in a thread, and their loop goes on.

    One that is cancelled ends once what was under way has been left in order.
    """

    @wraps(function)
    async def work(*args: P.args, **given: P.kwargs) -> T:
        return await in_thread(partial(function, *args, **given))

    return work


arun, adebate, astudy = _twin(run), _twin(debate), _twin(study)
abbq, ajudge, acompare, aserve = _twin(bbq), _twin(judge), _twin(compare), _twin(serve)
aexport = _twin(export)


def _staged(plan: Plan, out: str | Path | None, stages: tuple[str, ...] | None, quiet: bool) -> Run:
    from rldf_ray import pipeline

    folder = str(out or Path("runs") / plan.name)
    pipeline.run(plan, folder, _progress(quiet), only=stages)
    return Run(folder)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else local_path(given)


def _progress(quiet: bool) -> Progress:
    return Progress(TextConsole(stderr=True, quiet=quiet, soft_wrap=True))
