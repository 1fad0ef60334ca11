"""What a row was given and what it cost, whatever it shares with others.

Tokens are of all starts of a stage; seconds are of the last, in which it finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rldf_ray.comparison.method import Last, Method, Training
from rldf_ray.comparison.plans import policy_as_speaker
from rldf_ray.comparison.runs import DEBATED, LEARNING, debate_run_name, pairs_of, training_run_name
from rldf_ray.evaluate.bbq.prompt import Mode
from rldf_ray.plan import Plan, Speaker
from rldf_ray.records import TopicKind
from rldf_ray.report.training_notes import is_unproven
from rldf_ray.storage.results import (
    DebatesResult,
    DPOResult,
    KTOResult,
    RewardResult,
    SFTResult,
    finish,
    if_recorded,
    recorded,
    stage_result,
)
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.writer import wanted_by_kind

ITSELF = "its judge is the model itself"
TEACHER = "teacher and referee are one model"
LEARN_PAIRS: Mapping[Last, type[RewardResult | DPOResult | KTOResult]] = {
    "ppo": RewardResult,
    "dpo": DPOResult,
    "kto": KTOResult,
}
"""What the stage records that learns the pairs of a row with that last stage."""


@dataclass(frozen=True)
class Answering:
    """What an item takes a method to answer, on average.

    Attributes:
        thought_tokens: generated before the answer.
        seconds: of wall time, of thinking and of answering; loading a model is not in it.
        cut_off: share of what it said before answers that a limit of tokens ended; None where it
            said nothing, or an earlier version counted none.
    """

    thought_tokens: float = 0.0
    seconds: float = 0.0
    cut_off: float | None = None

    @classmethod
    def of(cls, facts: Mapping[str, Any], items: int) -> Answering:
        """From what is kept beside a method's answers to `items` items."""
        thoughts = facts.get("thoughts") or {"replies": 0, "cut_off": 0}
        replies = thoughts["replies"]
        return cls(
            thought_tokens=facts["tokens"]["generated"] / items,
            seconds=(facts["think_seconds"] + facts["answer_seconds"]) / items,
            cut_off=thoughts["cut_off"] / replies if replies else None,
        )

    @classmethod
    def mean(cls, repeats: Sequence[Answering]) -> Answering:
        """Of the repeats."""
        known = [one.cut_off for one in repeats if one.cut_off is not None]
        return cls(
            thought_tokens=fmean(one.thought_tokens for one in repeats),
            seconds=fmean(one.seconds for one in repeats),
            cut_off=fmean(known) if known else None,
        )


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One method in one repeat.

    Attributes:
        topics, statements: what its data were made of; 0 where it was not trained.
        sft_rows, pairs: what it learned from, without what only measured it; of a run of an earlier
            version, which did not tell them apart, all that it was given.
        sft_steps: of the optimizer; 0 where it was not trained.
        sft_pass: after which pass SFT's model was kept; None where no pass was measured.
        episodes: answers that PPO rewarded; 0 without PPO.
        generated_tokens: of topics, statements, referee and PPO's rollouts, to train it.
        seconds: of the stages that made it, each from its last start on.
        paid_tokens: prompt and generated tokens an endpoint charges for.
        usd: what they cost; None where something was charged and no price is known.
        answering: what its answers took, by the way of asking.
        auc_opinions, auc_scenes: of the referee (or judge) on labelled statements on the kinds of
            topics that are debated; None where a kind is not, or it was not audited.
        reward_accuracy: of the reward model on held-out pairs; None without one.
        remarks: who judges whom, where that is one model twice; rewards that may be noise.
    """

    topics: int = 0
    statements: int = 0
    sft_rows: int = 0
    sft_steps: int = 0
    sft_pass: float | None = None
    pairs: int = 0
    episodes: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    paid_tokens: int = 0
    usd: float | None = 0.0
    answering: Mapping[Mode, Answering] = field(default_factory=dict)
    auc_opinions: float | None = None
    auc_scenes: float | None = None
    reward_accuracy: float | None = None
    remarks: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def cost_of(
    method: Method, repeat: int, pairs: int | None, answering: Mapping[Mode, Answering], out: Path
) -> Cost:
    """From the manifests of the method's runs, and what its answers took."""
    training = method.training
    if training is None:
        return Cost(answering=answering)
    made = RunFolder(out / "runs" / debate_run_name(training))
    learnt = RunFolder(out / "runs" / training_run_name(training, training.last, repeat, pairs))
    # A referee is fitted where it is trained.
    stages = [finish(made, stage) for stage in ("referee", *DEBATED)]
    stages += [finish(learnt, stage) for stage in ("data", *LEARNING[training.last])]
    finishes = [stage for stage in stages if stage is not None]
    report = learnt.read_object("report.json", ("referee", "training"))
    paid = [stage.paid_tokens for stage in finishes if stage.paid_tokens]
    prompt, generated = (sum(p[kind] for p in paid) for kind in ("prompt", "generated"))
    auc = _auc_by_kind(report["referee"] or {}, training.source)
    reward = report["training"]["reward"] if training.last == "ppo" else None
    return Cost(
        topics=made.table_metadata("data/topics.parquet").num_rows,
        statements=_statements(made),
        sft_steps=_sft_steps(learnt),
        episodes=training.source.ppo.episodes if training.last == "ppo" else 0,
        **learned_from(learnt, training.last),
        generated_tokens=sum(stage.tokens["generated"] for stage in finishes if stage.tokens),
        seconds=round(sum(stage.seconds for stage in finishes), 1),
        paid_tokens=prompt + generated,
        usd=training.source.endpoint.usd(prompt, generated),
        answering=answering,
        auc_opinions=auc["opinion"],
        auc_scenes=auc["judgement"],
        reward_accuracy=reward and reward["accuracy"],
        remarks=(*remarks_on(training), *_remarks_on_reward(reward, training.source.seed + repeat)),
    )


def mean_cost(repeats: Sequence[Cost]) -> Cost:
    """Of the repeats; what is the same in all of them stays as it is."""
    first = repeats[0]
    known = [cost.reward_accuracy for cost in repeats if cost.reward_accuracy is not None]
    passes = [cost.sft_pass for cost in repeats if cost.sft_pass is not None]
    return replace(
        first,
        sft_rows=round(fmean(cost.sft_rows for cost in repeats)),
        sft_pass=fmean(passes) if passes else None,
        pairs=round(fmean(cost.pairs for cost in repeats)),
        sft_steps=round(fmean(cost.sft_steps for cost in repeats)),
        generated_tokens=round(fmean(cost.generated_tokens for cost in repeats)),
        seconds=fmean(cost.seconds for cost in repeats),
        answering={
            mode: Answering.mean([cost.answering[mode] for cost in repeats])
            for mode in first.answering
        },
        reward_accuracy=fmean(known) if known else None,
        remarks=tuple(dict.fromkeys(remark for cost in repeats for remark in cost.remarks)),
    )


def _auc_by_kind(referee: Mapping[str, Any], plan: Plan) -> dict[TopicKind, float | None]:
    """The audit's AUC on each kind of topic that the plan debates; None on another kind.

    Args:
        referee: of report.json; one of before the kinds were told apart has none of them.
    """
    wanted = wanted_by_kind(plan.topics.per_bias_type, plan.topics.judgement_share)
    measured = referee.get("by_kind") or {}
    return {
        kind: measured[kind]["auc"] if number and measured.get(kind) else None
        for kind, number in wanted.items()
    }


def remarks_on(training: Training) -> tuple[str, ...]:
    """Where one model sits in two places, by itself or as what a referee was fitted from."""
    plan = training.source
    referee = plan.speaker_of("referee").weights
    fitted = plan.referee.kind == "trained"
    if referee == Speaker.parse(policy_as_speaker(plan)).weights:
        return ("its referee is fitted from the model itself",) if fitted else (ITSELF,)
    if referee in {debater.weights for debater in plan.debaters()}:
        return ("its referee is fitted from its teacher",) if fitted else (TEACHER,)
    return ()


def _remarks_on_reward(reward: Mapping[str, Any] | None, seed: int) -> Iterator[str]:
    """Where PPO followed rewards that may be noise."""
    if reward is not None and is_unproven(reward):
        yield (
            f"seed {seed}: its reward model may be no better than a coin "
            f"({reward['accuracy']:.2f} on {reward['held_out_pairs']} held-out pairs)"
        )


def learned_from(folder: RunFolder, last: Last) -> dict[str, Any]:
    """`sft_rows`, `sft_pass` and `pairs` of a cost, by what the run's stages recorded."""
    sft = stage_result(folder, SFTResult)
    rows = sft and if_recorded(sft.examples)
    return {
        "sft_rows": folder.table_metadata("data/sft.parquet").num_rows if rows is None else rows,
        "sft_pass": sft and if_recorded(sft.passes),
        "pairs": 0 if last == "sft" else _pairs(folder, LEARN_PAIRS[last]),
    }


def _pairs(folder: RunFolder, kind: type[RewardResult | DPOResult | KTOResult]) -> int:
    result = stage_result(folder, kind)
    learned = None if result is None else if_recorded(result.pairs)
    return pairs_of(folder) if learned is None else learned


def _sft_steps(folder: RunFolder) -> int:
    """0 where an earlier version recorded none."""
    result = stage_result(folder, SFTResult)
    history = (result and if_recorded(result.history)) or []
    return int(max((line["step"] for line in history), default=0))


def _statements(folder: RunFolder) -> int:
    result = stage_result(folder, DebatesResult)
    assert result is not None
    return recorded(result.statements, "debates", "statements")
