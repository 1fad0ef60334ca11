"""A judge's scores of free answers: the answers, the judge and its audit, files (METHOD 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rldf_ray.cluster.provenance import provenance
from rldf_ray.engines.speakers import Speakers
from rldf_ray.evaluate.judge.answers import (
    COMPARED_ANSWERS,
    RUN_ANSWERS,
    AnswersError,
    FreeAnswer,
    read_answers,
    sampled,
)
from rldf_ray.evaluate.judge.audit import (
    JUDGE_SUMMARY,
    Control,
    audit_judge,
    audit_table,
    controls,
    judge_audit_summary,
)
from rldf_ray.evaluate.judge.judge import (
    Compared,
    Judge,
    Judged,
    Judgement,
    Pair,
    compare_answers,
    judge_answers,
    pairs_against,
)
from rldf_ray.evaluate.judge.judging_model import behind, judge_plan, same_model, speakers_of
from rldf_ray.evaluate.judge.rubrics import Rubric, given_rubrics, shipped_rubrics
from rldf_ray.evaluate.judge.summary import (
    compared_table,
    failures_of,
    judged_table,
    long_judged,
    measures_of,
    preferences,
    score_source,
    summary_of,
)
from rldf_ray.plan import Plan, PlanError, Speaker, load_plan
from rldf_ray.plan.saved import saved_plan
from rldf_ray.referee.labelled_statements import held_out_statements
from rldf_ray.storage.digest import digest
from rldf_ray.storage.folders import visible
from rldf_ray.storage.run_folder import RunFolder

LONG_SCORES = "eval/judge_long.parquet"
"""A judge's mean scores, in the columns of a comparison's results.parquet."""

JUDGED = "eval/judge.parquet"
AUDITED, COMPARED = "eval/judge_audit.parquet", "eval/judge_pairs.parquet"

AUDIT_PAIRS = 16
"""Labelled pairs of each bias type that a judge is audited on, where no number is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Whose answers, which judge, and what is asked of it.

    Attributes:
        source: a run's folder, or a .parquet or .jsonl file with answers.
        judge: vllm:MODEL or openai:MODEL.
        plan: whose engines and endpoint the judge is asked with.
        theirs: the plan that the answers' models were made with, if it is known.
        rubrics: of the measures.
        prompts: judge the answers to so many of them; None is all.
        against: the method with whose answers all others are compared in pairs.
        audit_pairs: labelled pairs of each bias type that the judge is audited on; 0 is no audit.
    """

    source: Path
    judge: str
    plan: Plan
    theirs: Plan | None
    rubrics: tuple[Rubric, ...] = field(default_factory=shipped_rubrics)
    prompts: int | None = None
    against: str | None = None
    audit_pairs: int = AUDIT_PAIRS
    seed: int = 0


@dataclass(frozen=True, slots=True)
class JudgeResults:
    """All judgements, and the controls that the judge was audited on."""

    judged: list[Judged]
    compared: list[Compared]
    given: list[Control]
    audited: list[Judgement]


def judged(
    source: Path,
    judge: str,
    *,
    measures: Sequence[str] | None = None,
    rubrics: Sequence[Path] = (),
    prompts: int | None = None,
    against: str | None = None,
    audit_pairs: int = AUDIT_PAIRS,
    plan: str | None = None,
    overrides: Sequence[str] = (),
    seed: int = 0,
    out: Path | None = None,
) -> dict[str, Any]:
    """Measures of free answers, and how far to trust the judge; the files are in `out`.

    Args:
        source: a run's folder, or a .parquet or .jsonl file with answers.
        judge: vllm:MODEL or openai:MODEL.
        measures: some of BS, CE, LS and the names of `rubrics`; None is all of them.
        rubrics: files of measures of one's own.
        plan: whose engines and endpoint are asked with; the run's own where none is given.
        out: `runs/judge/ANSWERS` where none is given.

    Raises:
        RubricError: a file of `rubrics` is none.
        PlanError: a measure that there is not, and as `evaluate`.
    """
    chosen = _chosen(measures, given_rubrics(rubrics))
    run = _run_of(source)
    saved = (run or source) / "plan.yaml"
    theirs = saved_plan(RunFolder(saved.parent)) if saved.is_file() else None
    request = Request(
        source=source,
        judge=judge,
        plan=load_plan(plan or (str(saved) if theirs else "quickstart"), overrides),
        theirs=theirs,
        rubrics=chosen,
        prompts=prompts,
        against=against,
        audit_pairs=audit_pairs,
        seed=seed,
    )
    folder = RunFolder.at(out or Path("runs/judge") / (run.name if run else source.stem))
    return evaluate(request, folder)


def _chosen(measures: Sequence[str] | None, own: Sequence[Rubric]) -> tuple[Rubric, ...]:
    """The rubrics of the measures named, shipped ones first; all where none are."""
    known = {one.name: one for one in (*shipped_rubrics(), *own)}
    if measures is None:
        return tuple(known.values())
    chosen = tuple(one for name, one in known.items() if name in measures)
    if len(chosen) != len(measures):
        raise PlanError(
            f"--measures is {','.join(measures)!r}; allowed: some of {', '.join(known)}, each once"
        )
    if idle := [one.name for one in own if one not in chosen]:
        raise PlanError(
            f"--measures is {','.join(measures)!r} without {', '.join(idle)}: name the measures of "
            "all --rubric files, or leave --measures out"
        )
    return chosen


def _run_of(source: Path) -> Path | None:
    """The folder of the run or comparison whose answers these are; None of any other file."""
    whole = source.resolve()
    if whole.is_dir():
        return whole
    known = (RUN_ANSWERS, COMPARED_ANSWERS)
    return whole.parents[1] if "/".join(whole.parts[-2:]) in known else None


def evaluate(request: Request, folder: RunFolder) -> dict[str, Any]:
    """Judge, audit and compare; finished calls are in `folder` and not made again.

    Raises:
        AnswersError, LinesError, ParquetError, PlanError, PreflightError, PlacementError: before
            anything is started.
        ModelError: a request failed for good.
    """
    answers = _answers(request)
    pairs = _pairs(answers, request.against)
    plan = judge_plan(request.plan, request.judge)
    bias_types = sorted({answer.bias_type for answer in answers})
    pairs_a_type = request.audit_pairs
    statements = [
        s
        for name in bias_types
        for s in (held_out_statements(name, pairs_a_type, request.seed) if pairs_a_type else ())
    ]
    given = controls(statements, request.rubrics, request.seed) if pairs_a_type else []
    with folder.locked(), speakers_of(plan, folder) as speakers:
        judge = Judge(speakers.of("referee"), request.seed)
        results = _ask(judge, speakers, request, answers, pairs, given)
        usage = speakers.usage
    summary = _summary(request, results) | {"request": _digest(request, answers)}
    tokens = usage.numbers()
    summary["tokens"] = {kind: number for kind, number in tokens.items() if kind != "cached"}
    return _write(summary, results, folder)


def judged_before(request: Request, folder: RunFolder) -> bool:
    """Whether `folder` has what this judge says of these very answers, asked in this way."""
    if not (folder.root / f"eval/{JUDGE_SUMMARY}").is_file():
        return False
    saved = folder.read_json(f"eval/{JUDGE_SUMMARY}")
    return bool(saved.get("request") == _digest(request, _answers(request)))


def _answers(request: Request) -> list[FreeAnswer]:
    return sampled(read_answers(request.source), request.prompts, request.seed)


def _digest(request: Request, answers: Sequence[FreeAnswer]) -> str:
    """Of all that the judge's words depend on: who it is, how it is asked, and the answers."""
    which = behind(request.judge, request.plan)
    who = (request.judge, which, request.plan.engines.dtype, request.seed)
    measures = tuple(one.name for one in request.rubrics)
    settings = (measures, request.against, request.audit_pairs)
    rubrics = [one.model_dump() for one in request.rubrics]
    prompts = [
        path.read_text(encoding="utf-8")
        for path in visible(Path(__file__).parent / "prompts", "*.txt")
    ]
    given = [asdict(answer) for answer in answers]
    # What the plan adds to every request; a plan that adds nothing has no such part.
    fields = request.plan.request_fields(Speaker.parse(request.judge))
    return digest(*who, *settings, rubrics, prompts, given, *([fields] if fields else []))


def _ask(
    judge: Judge,
    speakers: Speakers,
    request: Request,
    answers: list[FreeAnswer],
    pairs: list[Pair],
    given: list[Control],
) -> JudgeResults:
    rubrics, seats = request.rubrics, speakers.plan.engines.max_num_seqs
    distinct = len({answer.answer_id for answer in answers}) * len(rubrics)
    number = distinct + len(given) + 2 * len(pairs) * len(rubrics)

    async def whole() -> JudgeResults:
        audited = await audit_judge(judge, given, rubrics, seats, bar.advance)
        judged = await judge_answers(judge, answers, rubrics, seats, bar.advance)
        compared = await compare_answers(judge, pairs, rubrics, seats, bar.advance)
        return JudgeResults(judged, compared, given, audited)

    with speakers.progress.bar("judgements", number) as bar:
        return speakers.run(whole())


def _pairs(answers: list[FreeAnswer], against: str | None) -> list[Pair]:
    if against is None:
        return []
    pairs = pairs_against(answers, against)
    if not pairs:
        methods = ", ".join(sorted({answer.method for answer in answers}))
        raise AnswersError(
            f"--against {against}: no other method answered a prompt of its; the answers have the "
            f"methods {methods}"
        )
    return pairs


def _summary(request: Request, results: JudgeResults) -> dict[str, Any]:
    source = score_source(results.judged)
    return {
        "judge": request.judge,
        "answers": str(request.source),
        "seed": request.seed,
        "score_source": source,
        "measures": measures_of(request.rubrics),
        "same_model_as": same_model(request.judge, request.theirs) if request.theirs else None,
        "methods": summary_of(results.judged, source, request.seed),
        "failures": failures_of(results.judged),
        "audit": judge_audit_summary(results.given, results.audited, source),
        "audited_bias_types": sorted({c.bias_type for c in results.given if c.bias_type}),
        "preferences": preferences(results.compared, request.against, request.seed)
        if request.against
        else None,
    }


def _write(summary: dict[str, Any], results: JudgeResults, folder: RunFolder) -> dict[str, Any]:
    source = summary["score_source"]
    written = folder.write_table(JUDGED, judged_table(results.judged, source))
    folder.write_table(LONG_SCORES, long_judged(results.judged, source))
    # What was written for another judge is not to lie beside this one's.
    for name in (AUDITED, COMPARED):
        folder.remove(name)
    if results.given:
        folder.write_table(AUDITED, audit_table(results.given, results.audited))
    if results.compared:
        folder.write_table(COMPARED, compared_table(results.compared))
    whole = summary | {"written": str(written)} | provenance()
    folder.write_json(f"eval/{JUDGE_SUMMARY}", whole)
    return whole
