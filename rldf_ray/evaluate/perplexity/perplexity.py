"""Perplexity on a neutral text: did the model stay able to write what has nothing to do with bias?

The text ships with the package and was written for it, so it is in no training set and no prompt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rldf_ray.cluster.placement import Placement
from rldf_ray.cluster.ray_cluster import remote
from rldf_ray.models.embedded import resolve_model

TEXT = Path(__file__).parent / "neutral_text.txt"
WINDOW = 512
"""Tokens a model sees at once; every window begins without what came before."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """exp of the mean negative log-likelihood (nats) of `tokens` predicted tokens.

    NaN or infinite of a model whose logits are no finite numbers, or too far apart for a float.
    """

    value: float
    tokens: int


def perplexity(
    folder: str | Path, *, device: str, dtype: str, threads: int, text: str | None = None
) -> Perplexity:
    """Perplexity of a model folder on `text`, the neutral one by default.

    Raises:
        ValueError: the text has fewer than two tokens.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if device == "cpu":
        torch.set_num_threads(threads)
    folder = resolve_model(str(folder))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    words = TEXT.read_text(encoding="utf-8") if text is None else text
    ids: list[int] = tokenizer.encode(words, add_special_tokens=False)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model.eval().requires_grad_(False).to(device)
    # A single last token would be a window in which nothing is predicted.
    windows = [ids[i : i + WINDOW] for i in range(0, len(ids) - 1, WINDOW)]
    nats = sum(_nats(model, window) for window in windows)
    tokens = sum(len(window) - 1 for window in windows)
    if tokens < 1:
        raise ValueError(f"the text has {len(ids)} tokens; needed: two or more")
    return Perplexity(_exp(nats / tokens), tokens)


def perplexity_on_worker(folder: str, placement: Placement, dtype: str) -> Perplexity:
    """`perplexity` on the neutral text, computed on a worker of the cluster."""
    import ray

    settings = {"device": placement.device, "dtype": dtype, "threads": placement.threads}
    result: Perplexity = ray.get(remote(perplexity, placement).remote(folder, **settings))
    return result


def _exp(mean: float) -> float:
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


@torch.inference_mode()
def _nats(model: Any, ids: list[int]) -> float:
    """Summed negative log-likelihood of all but the first token."""
    read = torch.tensor([ids], device=model.device)
    logits = model(input_ids=read, use_cache=False).logits[0, :-1].float()
    return float(torch.nn.functional.cross_entropy(logits, read[0, 1:], reduction="sum"))
