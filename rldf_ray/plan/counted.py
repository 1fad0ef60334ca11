"""Which fields of a plan its digest counts: what shapes results, not how they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldf_ray.plan.endpoint import Endpoint
from rldf_ray.plan.preference import DPOSection, KTOSection
from rldf_ray.plan.refereeing import RefereeSection
from rldf_ray.plan.training import PPOSection

MODEL_RUNTIME_FIELDS = (
    "endpoint.timeout_s",
    "endpoint.retries",
    "endpoint.in_flight",
    "endpoint.requests_per_minute",
    "endpoint.tokens_per_minute",
    "endpoint.budget_usd",
    "endpoint.budget_tokens",
    "endpoint.api_key_env",
    "endpoint.prompt_price",
    "endpoint.generated_price",
    "engines.count",
    "engines.kv_cache_gib",
    "engines.max_count",
    "engines.max_num_seqs",
    "engines.gpu_memory_utilization",
    "engines.request_timeout_s",
    "engines.restarts",
    "engines.sleep",
)
"""How models are asked, in a run and in a study."""

RUNTIME_FIELDS = (
    "debate.in_flight",
    *MODEL_RUNTIME_FIELDS,
    "referee.below_min_auc",
    "train.checkpoint_every",
    "train.checkpoint_keep",
    "train.loggers",
    "train.max_failures",
)
"""How a run is carried out, not what it computes: these may change when a run is continued."""

STUDY_RUNTIME_FIELDS = ("in_flight", "take_turns", *MODEL_RUNTIME_FIELDS)
"""How a study is carried out; these may change when it is continued."""

STUDY_COUNTED_BEFORE: Mapping[str, object] = {
    "endpoint.api_key_env": Endpoint().api_key_env,
    "endpoint.prompt_price": None,
    "endpoint.generated_price": None,
}
"""`STUDY_RUNTIME_FIELDS` that earlier versions had in their digests, and what stands for them.

So the digest of a plan that leaves them as they are is what it was.
"""

COUNTED_BEFORE: Mapping[str, object] = {
    **STUDY_COUNTED_BEFORE,
    "referee.below_min_auc": RefereeSection().below_min_auc,
}
"""The same of `RUNTIME_FIELDS`."""

ADDED_FIELDS: Mapping[str, object] = {
    "debate.protocol": "multirole",
    "debate.unknown": "bbq",
    "debate.answers": "written",
    "debate.show_marks": True,
    "evaluate.thought_tokens": 256,
    "sft.held_out_share": 0.0,
    "ppo.rewards": PPOSection().model_dump(mode="json")["rewards"],
    "dpo": DPOSection().model_dump(mode="json"),
    "kto": KTOSection().model_dump(mode="json"),
    "train.after": ["ppo"],
}
"""Fields and sections that plans of earlier versions lack, with what those plans meant.

With these values a plan's digest is what it was, so runs and stores begun before go on.
"""


def counted(
    values: Mapping[str, Any],
    *,
    runtime: tuple[str, ...],
    before: Mapping[str, object],
    uncounted: Mapping[str, object],
) -> dict[str, Any]:
    """A plan's values without its `runtime` fields.

    Those of `before` stay, as earlier versions counted them: with the value that `uncounted` names
    for them, or with their own.
    """
    kept = {name: {**v} if isinstance(v, dict) else v for name, v in values.items()}
    for path in runtime:
        section, _, field = path.rpartition(".")
        holder = kept[section] if section else kept
        if path in uncounted:
            holder[field] = uncounted[path]
        elif path not in before:
            del holder[field]
    return kept


def without_added_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's values without those of `ADDED_FIELDS` that mean what plans without them meant."""
    kept = {name: {**v} if isinstance(v, dict) else v for name, v in values.items()}
    for path, value in ADDED_FIELDS.items():
        section, _, field = path.partition(".")
        holder, name = (kept[section], field) if field else (kept, section)
        if holder[name] == value:
            del holder[name]
    return kept


def with_added_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a plan as an earlier version wrote it, with the fields it lacks."""
    filled = {**values}
    for path, value in ADDED_FIELDS.items():
        section, _, field = path.partition(".")
        if not field:
            filled.setdefault(section, value)
        elif isinstance(filled.get(section), dict):
            filled[section] = {field: value, **filled[section]}
    return filled
