"""Prompts and answers of many questions as one tree of tokens, in which nothing stands twice.

BBQ repeats itself: two questions share a context, the ambiguous context begins the disambiguated
one, three answers share a prompt, and answers share their first words. A model that reads the
tree with every token attending to its own ancestors alone computes each shared token once.

    prompt --+-- question A --+-- answer 1
             |                +-- answer 2
             +-- more context -- question A -- ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROOT = -1


@dataclass(frozen=True, slots=True)
class TokenQuestion:
    """A prompt and the answers to be scored after it, as token ids.

    Attributes:
        place: the caller's number for this question.
        prompt: at least one id.
        answers: at least one id each.
    """

    place: int
    prompt: Sequence[int]
    answers: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Step:
    """A token of an answer, and the node whose prediction it is.

    Attributes:
        place, answer: the question and which of its answers.
        node: where the token before it stands in the tree.
        token: its id.
    """

    place: int
    answer: int
    node: int
    token: int


class PrefixTree:
    """Token sequences that share their beginnings.

    Attributes:
        ids: the token at each node; a parent stands before its children.
        parents: the node before it, ROOT for a first token.
        depths: its position in its own sequence, from 0.
        steps: the answers' tokens, in the order they were added.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.steps: list[Step] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        """Nodes, which is how many tokens a model has to read."""
        return len(self.ids)

    def add(self, question: TokenQuestion) -> None:
        """Grow the tree by a question; the last token of an answer is predicted, never read."""
        end = ROOT
        for token in question.prompt:
            end = self._child(end, token)
        for number, answer in enumerate(question.answers):
            node = end
            for token in answer[:-1]:
                self.steps.append(Step(question.place, number, node, token))
                node = self._child(node, token)
            self.steps.append(Step(question.place, number, node, answer[-1]))

    def new_tokens(self, question: TokenQuestion) -> int:
        """How many nodes `add` would add for the prompt of `question`."""
        node = ROOT
        for depth, token in enumerate(question.prompt):
            child = self._children.get((node, token))
            if child is None:
                return len(question.prompt) - depth
            node = child
        return 0

    def attention(self) -> NDArray[np.bool_]:
        """[T, T]: True where the row's node may look, which is at its ancestors and itself."""
        allowed = np.zeros((len(self), len(self)), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent != ROOT:
                allowed[node, :node] = allowed[parent, :node]
            allowed[node, node] = True
        return allowed

    def _child(self, node: int, token: int) -> int:
        child = self._children.get((node, token))
        if child is None:
            child = self._children[node, token] = len(self.ids)
            self.ids.append(token)
            self.parents.append(node)
            self.depths.append(0 if node == ROOT else self.depths[node] + 1)
        return child


def trees(questions: Iterable[TokenQuestion], budget: int) -> Iterator[PrefixTree]:
    """Every question in one of several trees of about `budget` tokens.

    In the order of their prompts' ids, questions that share a beginning are neighbours, so a
    tree is closed where the next question would not fit. A question larger than the budget gets
    a tree of its own.
    """
    tree = PrefixTree()
    for question in sorted(questions, key=lambda q: list(q.prompt)):
        if len(tree) and len(tree) + tree.new_tokens(question) > budget:
            yield tree
            tree = PrefixTree()
        tree.add(question)
    if len(tree):
        yield tree


def chains(question: TokenQuestion) -> Iterator[PrefixTree]:
    """The question without any sharing: one tree without branches for each answer."""
    for number, answer in enumerate(question.answers):
        tree = PrefixTree()
        tree.add(TokenQuestion(number, question.prompt, [answer]))
        yield tree
