"""The audit: is the referee to be trusted? -> audit.json, eval/referee.parquet and .png."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.plan import Plan
from rldf_ray.plan.saved import another_run
from rldf_ray.records import TopicKind
from rldf_ray.referee.audit import KINDS, Audited, audit_details, audit_referee, audit_summary
from rldf_ray.referee.biases import BIASES, bias_summary, shown_otherwise
from rldf_ray.referee.figure import draw_referee
from rldf_ray.referee.fit import audit_statements, baseline_statements, judged_kinds
from rldf_ray.referee.labelled_statements import LabelledStatement, given_statements
from rldf_ray.referee.self_agreement import reordered
from rldf_ray.referee.verdict import Referee
from rldf_ray.stages.refereeing import referee_of
from rldf_ray.stages.run import Run, StageError, tokens_since
from rldf_ray.storage.results import AuditResult
from rldf_ray.topics.writer import wanted_by_kind


def audit(run: Run) -> AuditResult:
    """The referee on statements whose label is known.

    Raises:
        StageError: its AUC on a kind of topic that is debated is below `referee.min_auc`, and the
            plan says to stop then.
    """
    return _audit(run, _statements(run))


def audit_on(run: Run, statements: Sequence[LabelledStatement]) -> AuditResult:
    """The audit on `statements`, as where several seeds are audited on one sample."""
    return _audit(run, statements)


def audit_with_biases(run: Run, statements: Sequence[LabelledStatement]) -> AuditResult:
    """The audit on `statements`, and what moves the referee that should not
    (`referee/biases.py`).
    """
    return _audit(run, statements, biases=True)


def _audit(run: Run, statements: Sequence[LabelledStatement], biases: bool = False) -> AuditResult:
    before = run.speakers.usage, run.speakers.paid_usage
    plan = run.plan
    judge = referee_of(run)
    with run.progress.bar("labelled statements", len(statements)) as bar:
        audited = run.speakers.run(
            audit_referee(judge, statements, plan.engines.max_num_seqs, on_statement=bar.advance)
        )
    in_another_order = run.speakers.run(reordered(judge, statements, plan.seed))
    if audited:
        run.folder.write_table("eval/referee.parquet", _table(audited))
    section = plan.referee
    file = str(run.statements) if run.statements else None
    summary = audit_summary(audited, judge.kind, section.label_source, file)
    fit = baseline_statements(plan, statements)
    details = audit_details(audited, fit, section.label_source, section.threshold, plan.seed)
    auc = summary["held_out"] and summary["held_out"]["auc"]
    report = {"auc": auc, **summary, **details, "reordered": in_another_order}
    if biases:
        report["biases"] = _biases(run, judge, audited)
    run.folder.write_json("audit.json", report)
    draw_referee(report, run.folder.path("eval/referee.png"))
    run.progress.say(f"  {summary['verdict']}")
    _check(run, summary, Counter(statement.kind for statement in statements))
    return AuditResult(referee=summary, **tokens_since(run, before))


def _biases(run: Run, judge: Referee, audited: Sequence[Audited]) -> dict[str, Any]:
    section, statements = run.plan.referee, [a.statement for a in audited]
    with run.progress.bar("statements shown otherwise", len(BIASES) * len(statements)) as bar:
        otherwise = run.speakers.run(
            shown_otherwise(judge, statements, run.plan.engines.max_num_seqs, bar.advance)
        )
    return bias_summary(audited, otherwise, section.label_source, section.threshold, run.plan.seed)


def _statements(run: Run) -> list[LabelledStatement]:
    """Those of the given file, else a sample of our own held-out ones."""
    if run.statements is not None:
        return given_statements(run.statements)
    return audit_statements(run.plan)


def _table(audited: Sequence[Audited]) -> pa.Table:
    rows: list[Mapping[str, Any]] = [
        {
            **a.statement.model_dump(),
            "score": a.verdict.score,
            "expected_score": a.verdict.expected_score,
        }
        for a in audited
    ]
    return pa.Table.from_pylist(rows)


def _check(run: Run, summary: Mapping[str, Any], numbers: Mapping[TopicKind, int]) -> None:
    """Stop or warn where the referee is below what the plan asks of it.

    Args:
        numbers: of the statements it was audited on, by what they are about.
    """
    section = run.plan.referee
    least = section.min_auc
    if least is None or not (failed := _failed(run.plan, least, summary, numbers)):
        return
    reason = (
        f"the referee fails the audit: {' and '.join(failed)}, referee.min_auc={least:g} "
        "(see audit.json)"
    )
    if section.below_min_auc == "stop":
        raise StageError(
            f"{reason}; go on with referee.below_min_auc=warn, or "
            + another_run("a stronger teacher or referee.model")
        )
    run.progress.say(f"  warning: {reason}")


def _failed(
    plan: Plan, least: float, summary: Mapping[str, Any], numbers: Mapping[TopicKind, int]
) -> list[str]:
    """What of the audit is below `least`, or could not be measured, in words.

    Given statements count as a whole. Of ours each kind counts that is debated and left to the
    referee; nothing is asked of a kind that has no labelled statement, while the other has some.
    """
    if summary["file"] is not None:
        return _below(least, summary["held_out"], "")
    wanted = wanted_by_kind(plan.topics.per_bias_type, plan.topics.judgement_share)
    kinds = [kind for kind in KINDS if wanted[kind] and kind in judged_kinds(plan)]
    if kinds and not any(numbers.get(kind) for kind in kinds):
        return ["no AUC was measured, as there are no labelled statements of what it judges"]
    return [
        failure
        for kind in kinds
        if numbers.get(kind)
        for failure in _below(least, summary["by_kind"][kind], f" on {KINDS[kind]}")
    ]


def _below(least: float, measured: Mapping[str, Any] | None, on: str) -> list[str]:
    if measured is None:
        return [f"no AUC{on} was measured"]
    auc = measured["auc"]
    return [f"its AUC{on} is {auc:.2f}"] if auc < least else []
