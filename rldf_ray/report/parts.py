"""The parts of a report, each read from the manifest of the stage that measured it."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.dataset.origin import is_given
from rldf_ray.report.training_parts import Part, ppo_part, preference_part, reward_part, sft_part
from rldf_ray.storage.results import (
    AuditResult,
    DataResult,
    DebatesResult,
    DPOResult,
    EvaluationResult,
    KTOResult,
    NotRecordedError,
    PPOResult,
    R,
    RewardResult,
    SFTResult,
    TopicsResult,
    if_recorded,
    not_recorded,
    recorded,
    result_of,
)

Manifests = Mapping[str, dict[str, Any]]
BATCH = 16_384


def read_parts(manifests: Manifests, statements: pa.Table) -> dict[str, Any]:
    """The report's parts by name; one whose stage has not run is null.

    `unreadable` names the parts that are null for another reason: their stage was finished by an
    earlier version, which did not record what the part tells.
    """
    unreadable: dict[str, str] = {}

    def part(kind: type[R], read: Callable[[R], Part | None]) -> Part | None:
        stage = kind.STAGE
        manifest = manifests.get(stage)
        if manifest is None:
            return None
        try:
            return read(result_of(manifest, kind))
        except NotRecordedError as error:
            unreadable[stage] = str(error)
        except KeyError as error:
            unreadable[stage] = not_recorded(stage, error.args[0])
        return None

    preferences = {
        "dpo": part(DPOResult, preference_part),
        "kto": part(KTOResult, preference_part),
    }
    return {
        "topics": part(TopicsResult, _topics),
        "debates": part(DebatesResult, lambda result: _debates(statements, result)),
        "referee": part(AuditResult, _referee),
        "data": part(DataResult, _data),
        "training": {
            "sft": part(SFTResult, sft_part),
            "reward": part(RewardResult, reward_part),
            "ppo": part(PPOResult, ppo_part),
            # Only of runs that have them, so that other reports stay as they are.
            **{stage: told for stage, told in preferences.items() if stage in manifests},
        },
        "evaluation": part(EvaluationResult, _evaluation),
        "unreadable": unreadable,
    }


def _holding(section: Mapping[str, Any], *names: str) -> Part:
    """`section`, once it is known to have what the page and the notes read of it.

    Raises:
        KeyError: the first of `names` that it lacks.
    """
    return {**section, **{name: section[name] for name in names}}


def _topics(result: TopicsResult) -> Part:
    topics = recorded(result.topics, "topics", "topics")
    read = ("opinion", "judgement", "seed", "written", "duplicates_dropped", "rejected")
    return {name: _holding(counts, *read) for name, counts in topics.items()}


def _referee(result: AuditResult) -> Part:
    summary = recorded(result.referee, "audit", "referee")
    return _holding(summary, "verdict", "distinct_said_scores", "by_bias_type")


def _debates(statements: pa.Table, result: DebatesResult) -> Part:
    labels: Counter[str | None] = Counter()
    rounds: dict[tuple[str, int], _Round] = {}
    refereed = 0
    names = ("bias_type", "round", "label", "score", "expected_score")
    for batch in statements.select(names).to_batches(BATCH):
        columns = (column.to_pylist() for column in batch.columns)
        for bias_type, number, label, score, expected in zip(*columns, strict=True):
            labels[label] += 1
            refereed += score is not None or expected is not None
            rounds.setdefault((bias_type, number), _Round()).add(score, expected)
    return {
        "debates": recorded(result.debates, "debates", "debates"),
        **({"source": source} if (source := if_recorded(result.source)) else {}),
        **({"given": True} if is_given(result) else {}),
        "statements": statements.num_rows,
        "refereed": refereed,
        "high": labels["high"],
        "low": labels["low"],
        "unlabelled": labels[None],
        "failures": recorded(result.failures, "debates", "failures"),
        "label_sources": recorded(result.label_sources, "debates", "label_sources"),
        "by_round": [
            {
                "bias_type": name,
                "round": number,
                "mean_score": _mean(found.scores),
                "mean_expected": _mean(found.expected),
                "statements": found.statements,
            }
            for (name, number), found in sorted(rounds.items())
        ],
    }


class _Round:
    """Scores of the statements of one round, without those that have none."""

    def __init__(self) -> None:
        self.statements = 0
        self.scores = array("d")
        self.expected = array("d")

    def add(self, score: float | None, expected: float | None) -> None:
        self.statements += 1
        for known, value in ((self.scores, score), (self.expected, expected)):
            if value is not None:
                known.append(value)


def _mean(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None


def _evaluation(result: EvaluationResult) -> Part:
    """What the stage measured; null for what an earlier version did not."""
    summary = recorded(result.evaluation, "eval", "evaluation")
    measured = _holding(summary, "set", "why_no_bias_scores", "accuracy_change")
    models = {name: {"perplexity": None, **model} for name, model in measured["models"].items()}
    lacking = {"always_unknown": None, "overlap": None, "bbq": None}
    return {**lacking, **measured, "models": models}


def _data(result: DataResult) -> Part:
    return {
        "sft": recorded(result.sft, "data", "sft"),
        "pairs": recorded(result.pairs, "data", "pairs"),
        "ppo_prompts": recorded(result.ppo_prompts, "data", "ppo_prompts"),
        "eval_prompts": recorded(result.eval_prompts, "data", "eval_prompts"),
        "bytes": recorded(result.bytes, "data", "bytes"),
        "quality": recorded(result.quality, "data", "quality"),
        "imported": if_recorded(result.imported),
        **({"rows": rows} if (rows := if_recorded(result.rows)) else {}),
    }
