"""A model's answers to the multi-role debate set; for the comparison of methods, its shares."""

from __future__ import annotations

from collections.abc import Callable

from rldf_ray.engines.endpoint_answers import ENDPOINT
from rldf_ray.evaluate.bbq.ask import (
    DType,
    ask_endpoint,
    asked_items,
    check_mode,
    model_folder,
    rank_locally,
)
from rldf_ray.evaluate.bbq.prompt import Mode
from rldf_ray.evaluate.multirole.data import MultiroleSet
from rldf_ray.evaluate.multirole.summary import MultiroleEvaluation
from rldf_ray.models.base import ChatModel
from rldf_ray.plan import TREE_TOKENS, Speaker


def evaluate_folder(
    model: str,
    queries: MultiroleSet,
    *,
    mode: Mode = "rank",
    seed: int = 0,
    permute: bool = True,
    dtype: DType = "bfloat16",
    tokens: int = TREE_TOKENS,
    on_answers: Callable[[int], None] = lambda number: None,
) -> MultiroleEvaluation:
    """A model folder, a run's folder or `embedded` on the set; `.values()` are its shares.

    Args:
        mode: "rank", "rank_sum" or "letter" (docs/bbq.md).
        seed: of the options' orders and of the intervals.

    Raises:
        BBQError: a mode that a folder cannot do.
        FileNotFoundError: no such folder.
    """
    check_mode(model, mode)
    presented = asked_items(queries.items, mode, permute, seed)
    answers = rank_locally(
        model_folder(model),
        queries.items,
        presented,
        mode=mode,
        dtype=dtype,
        tokens=tokens,
        on_answers=on_answers,
    )
    return MultiroleEvaluation(model=model, mode=mode, queries=queries, answers=answers, seed=seed)


async def evaluate_model(
    model: ChatModel,
    queries: MultiroleSet,
    *,
    mode: Mode,
    seed: int = 0,
    permute: bool = True,
    on_answers: Callable[[int], None] = lambda number: None,
) -> MultiroleEvaluation:
    """A model behind the chat interface (an endpoint, engines) on the set, by letter or freely.

    Raises:
        BBQError: a ranking mode, which needs likelihoods of given answers.
        ModelError: a request failed for good; the finished ones are in the model's journal.
    """
    check_mode(str(Speaker(ENDPOINT, model.name)), mode)
    presented = asked_items(queries.items, mode, permute, seed)
    answers = await ask_endpoint(model, queries.items, presented, mode, seed, on_answers)
    return MultiroleEvaluation(
        model=model.name, mode=mode, queries=queries, answers=answers, seed=seed
    )
