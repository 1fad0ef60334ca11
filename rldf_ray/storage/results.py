"""What each stage records of itself in its manifest, stages/NAME.json: one type a stage.

A stage returns its type, which has to be given every field that the stage always records. Read
back from a folder that an earlier version wrote, a field may be absent: it is UNSET then, and a
reader that cannot do without it asks `recorded` for it. Fields that the folder has and the type
lacks are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar, Union

import msgspec
from msgspec import UNSET, UnsetType

from rldf_ray.errors import UserError
from rldf_ray.storage.run_folder import RunFolder

T = TypeVar("T")
Recorded: TypeAlias = Union[T, UnsetType]  # noqa: UP007 - a generic alias has no other form
Tokens = dict[str, int]
"""Numbers by kind: prompt, cached, generated."""
History = list[dict[str, Any]]
"""What a training job logged, by step."""
Right = dict[str, tuple[int, int]]
"""Topic -> its held-out pairs that a model is right on, and all of them."""


class ResultError(UserError):
    """A manifest says something that is not of the type its stage records."""


class NotRecordedError(UserError):
    """An earlier version finished the stage without recording a field that is needed now."""

    def __init__(self, stage: str, field: str) -> None:
        super().__init__(not_recorded(stage, field))
        self.field = field


class Finish(msgspec.Struct, kw_only=True, frozen=True):
    """What every manifest says, whichever stage it is of.

    Attributes:
        finished_at: UTC, ISO 8601.
        seconds: wall time of the start in which the stage finished.
        start_seconds: the part of them that passed until engines or training workers were up; None
            where an earlier version did not count it.
        idle_share: of the driver's machine, the part of its cores' time that nothing used.
        peak_pss_gib: most memory of the process tree, GiB.
        tokens: of the stage's model calls, over all starts; None where it makes none.
        paid_tokens: those of them that an endpoint answered.
        failures: numbers by reason.
    """

    finished_at: str
    seconds: float
    peak_pss_gib: float
    start_seconds: float | None = None
    idle_share: float | None = None
    tokens: Tokens | None = None
    paid_tokens: Tokens | None = None
    failures: dict[str, int] = {}


class TopicsResult(msgspec.Struct, kw_only=True, frozen=True):
    """Numbers of topics by bias type, and why others were dropped.

    Attributes:
        bias_type_files: SHA-256 of the bias types' files that the plan names by a path.
        imported_overlaps_dropped: given rows that repeat evaluation items, by their kind.
        imported_topics_merged: given topics that are an earlier one again.
        imported_repeats: given statements or pairs that repeat an earlier one ("duplicate"), or say
            something else of the same text ("contradicting").
    """

    STAGE: ClassVar[str] = "topics"

    topics: Recorded[dict[str, dict[str, Any]]]
    tokens: Recorded[Tokens] = UNSET
    paid_tokens: Recorded[Tokens] = UNSET
    bias_type_files: Recorded[dict[str, str]] = UNSET
    imported_overlaps_dropped: Recorded[dict[str, int]] = UNSET
    imported_topics_merged: Recorded[int] = UNSET
    imported_repeats: Recorded[dict[str, int]] = UNSET


class DebatesResult(msgspec.Struct, kw_only=True, frozen=True):
    """Numbers of debates and statements; tokens are absent where the statements were given.

    Attributes:
        source: the protocol whose training rows become the data, where that is not multirole.
    """

    STAGE: ClassVar[str] = "debates"

    debates: Recorded[int]
    statements: Recorded[int]
    failures: Recorded[dict[str, int]]
    label_sources: Recorded[dict[str, int]]
    tokens: Recorded[Tokens] = UNSET
    paid_tokens: Recorded[Tokens] = UNSET
    source: Recorded[str] = UNSET


class DataResult(msgspec.Struct, kw_only=True, frozen=True):
    """Rows of the tables, and what is known of their quality.

    Attributes:
        imported: name of the file that the pairs were given in.
        rows: of another source than multirole, numbers of sft rows and pairs by what they are
            about: an opinion, a scene, or a scene with its clue.
    """

    STAGE: ClassVar[str] = "data"

    sft: Recorded[int]
    pairs: Recorded[int]
    ppo_prompts: Recorded[int]
    eval_prompts: Recorded[int]
    bytes: Recorded[int]
    quality: Recorded[dict[str, Any]]
    imported: Recorded[str] = UNSET
    rows: Recorded[dict[str, dict[str, int]]] = UNSET


class AuditResult(msgspec.Struct, kw_only=True, frozen=True):
    """The summary of how the referee did on labelled statements."""

    STAGE: ClassVar[str] = "audit"

    referee: Recorded[dict[str, Any]]
    tokens: Recorded[Tokens] = UNSET
    paid_tokens: Recorded[Tokens] = UNSET


class RefereeResult(msgspec.Struct, kw_only=True, frozen=True):
    """The fit of a trained referee.

    Attributes:
        labelled: hash of the pairs it was fitted to.
        calibration: how its rewards become scores.
        too_long: pairs left out, as their sides are the same within `referee.fit.max_length`.
    """

    STAGE: ClassVar[str] = "referee"

    pairs: Recorded[int]
    held_out_pairs: Recorded[int]
    labelled: Recorded[str]
    calibration: Recorded[dict[str, Any]]
    history: Recorded[History]
    too_long: Recorded[int] = UNSET


class SFTResult(msgspec.Struct, kw_only=True, frozen=True):
    """What SFT learned from and what it logged.

    Attributes:
        too_long: examples left out, as no word of their answer is within `sft.max_length`.
        held_out: examples that measure the loss after each pass.
        passes: those taken, by that loss; None where it was not measured.
    """

    STAGE: ClassVar[str] = "sft"

    examples: Recorded[int]
    history: Recorded[History]
    too_long: Recorded[int] = UNSET
    held_out: Recorded[int] = UNSET
    passes: Recorded[int | None] = UNSET


class RewardResult(msgspec.Struct, kw_only=True, frozen=True):
    """The fit of the reward model.

    Attributes:
        too_long: pairs left out, as their sides are the same within `reward.max_length`.
        right_by_topic: of each held-out topic its pairs whose chosen side has the higher reward,
            and all its pairs; UNSET too where none was held out.
        held_out_taught: of the held-out topics, those that SFT has learned from; UNSET too where it
            did not begin as SFT's model.
        undebated: its rewards on scenes nobody debated; None where there are none.
    """

    STAGE: ClassVar[str] = "reward"

    pairs: Recorded[int]
    held_out_pairs: Recorded[int]
    history: Recorded[History]
    too_long: Recorded[int] = UNSET
    right_by_topic: Recorded[Right] = UNSET
    held_out_taught: Recorded[int] = UNSET
    undebated: Recorded[dict[str, Any] | None] = UNSET


class PPOResult(msgspec.Struct, kw_only=True, frozen=True):
    """What PPO logged, and what its rollouts generated."""

    STAGE: ClassVar[str] = "ppo"

    history: Recorded[History]
    episodes: Recorded[int]
    tokens: Recorded[Tokens]


class DPOResult(msgspec.Struct, kw_only=True, frozen=True):
    """What DPO learned from and what it logged.

    Attributes:
        too_long: pairs left out, as their sides are the same within `dpo.max_length`.
        right_by_topic: as of RewardResult, by the implicit reward.
    """

    STAGE: ClassVar[str] = "dpo"

    pairs: Recorded[int]
    held_out_pairs: Recorded[int]
    too_long: Recorded[int]
    history: Recorded[History]
    right_by_topic: Recorded[Right] = UNSET


class KTOResult(msgspec.Struct, kw_only=True, frozen=True):
    """What KTO learned from and what it logged.

    Attributes:
        too_long: pairs left out, as their sides are the same within `kto.max_length`.
        right_by_topic: as of RewardResult, by the implicit reward.
        desirable, undesirable: answers of the pairs learned from, each counted once.
        desirable_weight, undesirable_weight: what they count for in the loss.
    """

    STAGE: ClassVar[str] = "kto"

    pairs: Recorded[int]
    held_out_pairs: Recorded[int]
    too_long: Recorded[int]
    desirable: Recorded[int]
    undesirable: Recorded[int]
    desirable_weight: Recorded[float]
    undesirable_weight: Recorded[float]
    history: Recorded[History]
    right_by_topic: Recorded[Right] = UNSET


class EvaluationResult(msgspec.Struct, kw_only=True, frozen=True):
    """What base, SFT model and policy answered, as summaries by model."""

    STAGE: ClassVar[str] = "eval"

    evaluation: Recorded[dict[str, Any]]
    tokens: Recorded[Tokens]


Result = (
    TopicsResult
    | DebatesResult
    | DataResult
    | AuditResult
    | RefereeResult
    | SFTResult
    | RewardResult
    | PPOResult
    | DPOResult
    | KTOResult
    | EvaluationResult
)
R = TypeVar("R", bound=Result)


def finish(folder: RunFolder, stage: str) -> Finish | None:
    """What every manifest says, of a stage; None if it has not finished.

    Raises:
        ResultError: the manifest lacks a field, or one is of another type.
    """
    manifest = folder.manifest(stage)
    return None if manifest is None else finish_of(manifest, stage)


def finish_of(manifest: Mapping[str, Any], stage: str) -> Finish:
    """What every manifest says, from the one of `stage`.

    Raises:
        ResultError: the manifest lacks a field, or one is of another type.
    """
    try:
        return msgspec.convert(manifest, Finish)
    except msgspec.ValidationError as error:
        raise ResultError(
            f"stages/{stage}.json cannot be read ({error}); do the stage {stage} again"
        ) from error


def stage_result(folder: RunFolder, kind: type[R]) -> R | None:
    """What the stage of `kind` recorded in a run folder; None if it has not finished.

    Raises:
        ResultError: a field is of another type.
    """
    manifest = folder.manifest(kind.STAGE)
    return None if manifest is None else result_of(manifest, kind)


def result_of(manifest: Mapping[str, Any], kind: type[R]) -> R:
    """What the stage of `kind` recorded in its manifest; fields the manifest lacks are UNSET.

    Raises:
        ResultError: a field is of another type.
    """
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in manifest:
            values[field.name] = UNSET
            continue
        try:
            values[field.name] = msgspec.convert(manifest[field.encode_name], field.type)
        except msgspec.ValidationError as error:
            raise ResultError(
                f"stages/{kind.STAGE}.json: {field.encode_name!r} cannot be read ({error}); do the "
                f"stage {kind.STAGE} again"
            ) from error
    return kind(**values)


def as_manifest(result: Result) -> dict[str, Any]:
    """The members of a manifest that a stage's result makes; what is UNSET is left out."""
    return {
        name: value for name, value in msgspec.structs.asdict(result).items() if value is not UNSET
    }


def recorded(value: Recorded[T], stage: str, field: str) -> T:
    """The value of a stage's field, once it is known to be there.

    Raises:
        NotRecordedError: an earlier version finished the stage without it.
    """
    if isinstance(value, UnsetType):
        raise NotRecordedError(stage, field)
    return value


def if_recorded(value: Recorded[T]) -> T | None:
    """The value of a field, None where the manifest lacks it."""
    return None if isinstance(value, UnsetType) else value


def not_recorded(stage: str, field: str) -> str:
    """What to say of a field that a manifest lacks."""
    return (
        f"stages/{stage}.json has no {field!r}: an earlier version finished the stage {stage}, and "
        "did not record it; a run begun anew does"
    )
