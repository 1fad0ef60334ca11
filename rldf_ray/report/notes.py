"""What a run's numbers do and do not show, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldf_ray.plan import Plan
from rldf_ray.protocols.known import source_names
from rldf_ray.report.evaluation_notes import evaluation_notes
from rldf_ray.report.training_notes import ppo_notes, preference_notes, reward_notes, sft_notes
from rldf_ray.report.training_parts import preference_part, reward_part, sft_part
from rldf_ray.storage.results import DPOResult, KTOResult, Result, RewardResult, SFTResult

Report = Mapping[str, Any]


def notes_of(report: Report) -> list[str]:
    """On unreadable parts and tokens, then on each stage in its order."""
    parts = (
        _unreadable,
        _tokens,
        _labels,
        _data,
        _training,
        evaluation_notes,
    )
    return [note for part in parts for note in part(report)]


def stage_notes(result: Result, plan: Plan) -> Iterator[str]:
    """What a stage's result says that one should know before the next stage begins.

    The reward model's notes come here too, as PPO is what costs most.
    """
    if isinstance(result, SFTResult):
        yield from sft_notes(sft_part(result))
    if isinstance(result, RewardResult):
        yield from reward_notes(reward_part(result), plan.model_dump(mode="json"))
    if isinstance(result, DPOResult | KTOResult):
        yield from preference_notes(result.STAGE, preference_part(result))


def _unreadable(report: Report) -> Iterator[str]:
    for why in report["unreadable"].values():
        yield f"Not in this report: {why}."


def _tokens(report: Report) -> Iterator[str]:
    used = [stage["tokens"] for stage in report["stages"] if stage["tokens"]]
    counted = sum(tokens.get("by_characters", 0) for tokens in used)
    if counted:
        whole = sum(tokens["prompt"] + tokens["generated"] for tokens in used)
        yield (
            f"{counted} of {whole} tokens are counted by the characters of the texts, as the "
            "endpoint did not report them: figures of tokens and cost are estimates."
        )


def _labels(report: Report) -> Iterator[str]:
    """Who labelled what the run learns from, and what is known of these labels."""
    source, given = _source_of(report), _is_given(report)
    if source is None and not given:
        yield from _refereed(report)
        return
    if source is not None:
        yield (
            f"The data come from the protocol {source}, which has preferences of its own: the "
            "referee scored none of them (docs/sources.md)."
        )
    elif report["debates"] is not None and report["debates"]["statements"]:
        yield "The statements and their scores were given: the referee scored none of them."
        if report["plan"]["referee"]["threshold_kind"] == "relative":
            yield (
                "Labels that were not given are relative to the round: a statement is called high "
                "bias because the others of its round scored lower, however mild it is."
            )
    if report["referee"] is not None:
        yield "The audit is of scores that the referee gives, and it gave none to these data."


def _source_of(report: Report) -> str | None:
    """The protocol whose own rows are the data; before its stage it is the plan's."""
    debates = report["debates"]
    if debates is not None:
        source: str | None = debates.get("source")
        return source
    protocol: str = report["plan"]["debate"]["protocol"]
    return protocol if protocol in source_names() else None


def _is_given(report: Report) -> bool:
    """Whether statements or pairs were given, so that nobody was asked for a label."""
    debates, data = report["debates"], report["data"]
    pairs = data is not None and data["imported"] is not None
    return pairs or (debates is not None and bool(debates.get("given")))


def _refereed(report: Report) -> Iterator[str]:
    audit, debates = report["referee"], report["debates"]
    if "audit" in report["unreadable"]:
        return
    if audit is None:
        yield "The referee was not audited, so nothing is known of how good its labels are."
        return
    section = report["plan"]["referee"]
    if section["judgements"] == "matched":
        yield (
            "Labels on scenes are verifiable answers: they say whether the answer that was chosen "
            "is what the scene's record lets one conclude, and not how strongly it stereotypes."
        )
        if report["plan"]["topics"]["judgement_share"] == 1:
            return
    yield audit["verdict"]
    if audit["distinct_said_scores"] == 1:
        yield (
            "The referee said the same score for every labelled statement; only its expected score "
            "varies."
        )
    if debates is not None and section["label_source"] == "expected":
        by_said_score = debates["label_sources"].get("said", 0)
        if by_said_score:
            yield (
                f"{by_said_score} statements are labelled by the score the referee said, though "
                "the plan wants its expectation: its endpoint reported no probabilities."
            )
    if debates is not None and section["threshold_kind"] == "relative":
        yield (
            f"Labels are relative to the round: {debates['high']} statements are called high bias "
            "because the others of their round scored lower, however mild they are."
        )


def _data(report: Report) -> Iterator[str]:
    if report["data"] is not None:
        if report["data"]["imported"] is not None:
            given = report["data"]["imported"]
            yield f"The pairs were given ({given}): no debate was held for them."
        yield from report["data"]["quality"]["warnings"]


def _training(report: Report) -> Iterator[str]:
    training, plan = report["training"], report["plan"]
    yield from sft_notes(training["sft"])
    yield from reward_notes(training["reward"], plan)
    yield from ppo_notes(training["ppo"], plan)
    for name in ("dpo", "kto"):
        yield from preference_notes(name, training.get(name))
