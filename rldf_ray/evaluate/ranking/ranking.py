"""Multiple choice by ranking: which answer does a model find most likely, for any causal model.

Each answer is scored as the assistant's by the log-likelihood of its tokens: their mean, which does
not count length, or their sum, the likelihood of the answer itself. What prompts and
answers share is read once: questions are merged into prefix trees, a tree is one sequence to the
model, and a mask lets every token see its own ancestors alone.

    ItemPrompt --> token ids --> trees of `tokens` tokens --> one forward pass each --> scores
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rldf_ray.evaluate.bbq.prompt import ItemPrompt, ask
from rldf_ray.evaluate.ranking.prefix_tree import PrefixTree, TokenQuestion, chains, trees
from rldf_ray.evaluate.ranking.scores import Scores
from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.embedded import resolve_model
from rldf_ray.sets.bbq.items import BBQError, BBQItem

MOST_DIFFERENCE = 0.5
"""Nats a token between two ways to compute one score; in bf16 up to 0.2 were seen."""


def rank_options(
    folder: str | Path,
    items: Sequence[BBQItem],
    *,
    device: str,
    dtype: str,
    threads: int,
    tokens: int,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> Iterator[dict[int, Scores]]:
    """`rank_answers` of items as published, in the one prompt template of training.

    A generator function by itself, so that Ray streams what it yields.

    Args:
        folder: anything `resolve_model` takes.
    """
    prompts = [ask(item, "rank") for item in items]
    yield from rank_answers(
        folder,
        prompts,
        device=device,
        dtype=dtype,
        threads=threads,
        tokens=tokens,
        chat_template_kwargs=chat_template_kwargs,
    )


def rank_answers(
    folder: str | Path,
    prompts: Sequence[ItemPrompt],
    *,
    device: str,
    dtype: str,
    threads: int,
    tokens: int,
    summed: bool = False,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> Iterator[dict[int, Scores]]:
    """Log-likelihood of every answer, tree by tree, by the question's place.

    The first part is empty: it says that the model is loaded.

    Args:
        folder: anything `resolve_model` takes.
        tokens: size of a forward pass; a longer question gets one of its own.
        summed: over the answer's tokens (nats) instead of their mean (nats a token).

    Raises:
        BBQError: an answer has no token, or the model's log-likelihoods are not finite.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if device == "cpu":
        torch.set_num_threads(threads)
    folder = resolve_model(str(folder))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    template = ChatTemplate(tokenizer, str(folder), chat_template_kwargs)
    questions = [token_question(template, place, prompt) for place, prompt in enumerate(prompts)]
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model.eval().requires_grad_(False).to(device)
    as_trees = not questions or reads_trees(model, questions[0])
    yield {}
    if not as_trees:
        yield from (_one_by_one(model, question, summed) for question in questions)
        return
    for tree in trees(questions, tokens):
        yield score_tree(model, tree, summed)


def token_question(template: ChatTemplate, place: int, shown: ItemPrompt) -> TokenQuestion:
    """A question as the model reads it: the chat up to the answer, and the answers."""
    chats = [template.answered(shown.messages, answer) for answer in shown.answers]
    if not all(chat.answer for chat in chats):
        raise BBQError(f"answers {shown.answers}: one has no token; needed: some text in each")
    return TokenQuestion(place, chats[0].prompt, [chat.answer for chat in chats])


def reads_trees(model: Any, question: TokenQuestion) -> bool:
    """Whether the model keeps to the mask: layers with a running state mix a tree's branches."""
    (tree,) = trees([question], budget=1)
    shared, alone = score_tree(model, tree)[question.place], _one_by_one(model, question)
    return all(
        abs(a - b) < MOST_DIFFERENCE for a, b in zip(shared, alone[question.place], strict=True)
    )


def _one_by_one(model: Any, question: TokenQuestion, summed: bool = False) -> dict[int, Scores]:
    """A question's scores with every answer read after a prompt of its own."""
    scored = (score_tree(model, chain, summed) for chain in chains(question))
    return {question.place: tuple(scores[0] for by_place in scored for scores in by_place.values())}


@torch.inference_mode()
def score_tree(model: Any, tree: PrefixTree, summed: bool = False) -> dict[int, Scores]:
    """Scores of all answers in a tree, by the question's place: one forward pass."""
    # Logits are taken where an answer's token is predicted, and nowhere else: of a small model
    # they are the largest matrix product.
    nodes = sorted({step.node for step in tree.steps})
    row_of = {node: row for row, node in enumerate(nodes)}
    device = model.device
    logits: Tensor = (
        model(
            input_ids=torch.tensor([tree.ids], device=device),
            position_ids=torch.tensor([tree.depths], device=device),
            attention_mask=_mask(tree, model.dtype).to(device),
            use_cache=False,
            logits_to_keep=torch.tensor(nodes, device=device),
        )
        .logits[0]
        .float()
    )
    rows = torch.tensor([row_of[step.node] for step in tree.steps], device=device)
    tokens = torch.tensor([step.token for step in tree.steps], device=device)
    logprobs = (logits[rows, tokens] - logits.logsumexp(-1)[rows]).tolist()
    return _by_answer(tree, logprobs, summed)


def _mask(tree: PrefixTree, dtype: torch.dtype) -> Tensor:
    """[1, 1, T, T], added to the attention scores: 0 at ancestors, the least number elsewhere."""
    allowed = torch.from_numpy(tree.attention())
    mask = torch.full(allowed.shape, torch.finfo(dtype).min, dtype=dtype)
    return mask.masked_fill_(allowed, 0)[None, None]


def _by_answer(tree: PrefixTree, logprobs: Sequence[float], summed: bool) -> dict[int, Scores]:
    """Per answer the sum or the mean over its tokens."""
    if not all(map(isfinite, logprobs)):
        raise BBQError(
            "log-likelihoods of answers are not finite: the model is broken (did its training "
            "diverge?), and ranks nothing"
        )
    logprobs_of: dict[int, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for step, logprob in zip(tree.steps, logprobs, strict=True):
        logprobs_of[step.place][step.answer].append(logprob)
    return {
        place: tuple(
            sum(values) if summed else sum(values) / len(values)
            for _, values in sorted(answers.items())
        )
        for place, answers in logprobs_of.items()
    }
