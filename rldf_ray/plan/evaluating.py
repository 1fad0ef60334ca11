"""The section about what is evaluated, and how much of it."""

from __future__ import annotations

from rldf_ray.plan.request_fields import unset
from rldf_ray.plan.section import Section, described

TREE_TOKENS = 384
"""Tokens of a forward pass when answers are ranked, where nothing else is asked for.

`benchmarks.eval` measures several.
"""


class EvaluateSection(Section):
    bbq: str | None = described(None, "folder with BBQ's files; null is the small set shipped here")
    multirole: str | None = described(
        None,
        "folder with the multi-role debate set, which `rldf eval compare` asks as well; no topic "
        "repeats a query of it",
    )
    items_per_category: int | None = described(
        None, "items of each category, a seeded stratified sample; null is all", ge=4
    )
    held_out_prompts: int | None = described(
        256, "held-out prompts each model answers; null is all", ge=1
    )
    max_tokens: int = described(256, "longest answer to a held-out prompt", unit="tokens", ge=4)
    thought_tokens: int = described(
        256,
        "longest thing that a method says before it answers an item or a prompt (chain of thought, "
        "each juror), in `rldf eval compare`",
        unit="tokens",
        ge=1,
    )
    corpus: str | None = described(
        None,
        "texts that the method mabrf_search looks evidence up in: a corpus or a folder of texts",
        exclude_if=unset,
    )
    batch_tokens: int = described(
        TREE_TOKENS, "size of a forward pass when answers are ranked", unit="tokens", ge=1
    )
