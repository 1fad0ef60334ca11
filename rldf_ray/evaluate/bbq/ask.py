"""A model's answers to BBQ items: ranked or by letter on torch, by letter or freely at an endpoint.

`model` is a model folder, a run's folder, `embedded`, a hub id, or `openai:NAME`.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Sequence
from typing import Literal

from rldf_ray.engines.endpoint_answers import is_endpoint
from rldf_ray.evaluate.bbq.prompt import (
    LETTERS,
    RANKED,
    ItemPrompt,
    Mode,
    ask,
    order_of,
    parse_answer,
    parse_letter,
)
from rldf_ray.evaluate.bbq.summary import Answer
from rldf_ray.evaluate.ranking.scores import best_option
from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatModel, Completion, Message
from rldf_ray.models.embedded import EMBEDDED, resolve_model
from rldf_ray.sets.bbq.items import BBQError, BBQItem, Key
from rldf_ray.storage.home_path import home_path

MAX_TOKENS: dict[Mode, int] = {"letter": 4, "generate": 64}

DType = Literal["bfloat16", "float32"]


def check_mode(model: str, mode: Mode) -> None:
    """Refuse what cannot be done, before anything is loaded.

    Raises:
        BBQError: an endpoint cannot rank, or a folder cannot generate.
    """
    if is_endpoint(model) and mode in RANKED:
        raise BBQError(
            f"{model}: an endpoint does not tell the likelihood of a given answer; allowed: "
            "--mode letter or --mode generate"
        )
    if not is_endpoint(model) and mode == "generate":
        raise BBQError(
            f"{model}: answers are generated at endpoints only; allowed: --mode rank or --mode "
            "letter, or openai:NAME with --base-url of a server of this model"
        )


def model_folder(model: str) -> str:
    """What transformers loads: a run's folder becomes its policy's.

    Raises:
        FileNotFoundError: no such folder, or no model in it.
    """
    path = home_path(model)
    if model != EMBEDDED and not (path / "config.json").exists() and (path / "plan.yaml").exists():
        return resolve_model(str(path / "model"))
    return resolve_model(model)


def asked_items(items: Sequence[BBQItem], mode: Mode, permute: bool, seed: int) -> list[ItemPrompt]:
    """Every item as the model is shown it."""
    return [ask(item, mode, order_of(item, permute, seed)) for item in items]


def rank_locally(
    folder: str,
    items: Sequence[BBQItem],
    prompts: Sequence[ItemPrompt],
    *,
    mode: Mode,
    dtype: DType,
    tokens: int,
    on_answers: Callable[[int], None],
) -> dict[Key, Answer]:
    """The likeliest answer to every item, computed in this process on what it has."""
    import torch

    from rldf_ray.evaluate.ranking.ranking import rank_answers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    threads = len(os.sched_getaffinity(0))
    answers: dict[Key, Answer] = {}
    for part in rank_answers(
        folder,
        prompts,
        device=device,
        dtype=dtype,
        threads=threads,
        tokens=tokens,
        summed=mode == "rank_sum",
    ):
        for place, shown in part.items():
            order = prompts[place].order
            answers[items[place].key] = Answer(
                prediction=order[best_option(shown)],
                order=order,
                scores=tuple(shown[order.index(published)] for published in range(3)),
            )
        on_answers(len(part))
    return answers


async def ask_endpoint(
    model: ChatModel,
    items: Sequence[BBQItem],
    prompts: Sequence[ItemPrompt],
    mode: Mode,
    seed: int,
    on_answers: Callable[[int], None],
) -> dict[Key, Answer]:
    """An endpoint's answer to every item; what is no option stays unparsed, with its text.

    Raises:
        ModelError: a request failed for good; the finished ones are in the model's journal.
    """

    agent = Agent(model=model, seed=seed)

    async def one(item: BBQItem, shown: ItemPrompt) -> tuple[Key, Answer]:
        completion = await _reply(agent, item, shown, mode)
        on_answers(1)
        return item.key, _answer(completion, item, shown, mode)

    return dict(await asyncio.gather(*map(one, items, prompts)))


async def _reply(agent: Agent, item: BBQItem, shown: ItemPrompt, mode: Mode) -> Completion:
    messages = [Message("user", m["content"]) for m in shown.messages]
    address = f"bbq/{mode}/{item.category}/{item.example_id}"
    affinity = f"{item.category}/{item.question_index}"
    # Both ways are greedy, so no item needs a seed of its own.
    if mode == "letter":
        choice = await agent.choose(
            messages,
            LETTERS,
            address,
            probabilities=True,
            max_tokens=MAX_TOKENS[mode],
            affinity=affinity,
            seed=agent.seed,
        )
        # A letter that is written with more around it counts as well: the text is parsed later.
        return choice.completion
    return await agent.say(
        messages,
        address,
        max_tokens=MAX_TOKENS[mode],
        temperature=0.0,
        affinity=affinity,
        seed=agent.seed,
    )


def _answer(completion: Completion, item: BBQItem, shown: ItemPrompt, mode: Mode) -> Answer:
    """By the letters' probabilities where the endpoint tells them, else by the text."""
    chances = completion.choice_probabilities if mode == "letter" else None
    if chances is not None:
        scores = [math.log(max(chances[letter], 1e-30)) for letter in LETTERS]
        best = max(range(3), key=lambda place: scores[place])
        return Answer(
            prediction=shown.order[best],
            order=shown.order,
            scores=tuple(scores[shown.order.index(published)] for published in range(3)),
            text=completion.text,
        )
    options = [item.options[published] for published in shown.order]
    parse = parse_letter if mode == "letter" else parse_answer
    place = parse(completion.text, options)
    prediction = None if place is None else shown.order[place]
    return Answer(prediction, shown.order, None, completion.text)
