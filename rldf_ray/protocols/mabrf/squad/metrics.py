"""Exact match and F1 of SQuAD v2, as its published script counts them.

Source: Rajpurkar et al. 2018, evaluate-v2.0.py. An id without a prediction is skipped there; here
it is a failure, counted.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(text: str) -> str:
    """Lower case, no ASCII punctuation, no a, an or the, single blanks."""
    lowered = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", lowered).split())


def golds(answers: Sequence[str]) -> list[str]:
    """The texts that count as right: those with something left after normalising, else ""."""
    return [answer for answer in answers if normalised(answer)] or [""]


def exact(prediction: str, answers: Sequence[str]) -> float:
    """1 where the prediction is one of the golds, else 0."""
    said = normalised(prediction)
    return float(any(normalised(gold) == said for gold in golds(answers)))


def holds(text: str, answers: Sequence[str]) -> bool:
    """Whether one of the golds stands in a text, as whole words, both normalised."""
    said = f" {normalised(text)} "
    return any(f" {gold} " in said for gold in map(normalised, answers) if gold)


def f1(prediction: str, answers: Sequence[str]) -> float:
    """The best F1 of words against a gold."""
    return max(_f1(prediction, gold) for gold in golds(answers))


def _f1(prediction: str, gold: str) -> float:
    said, right = normalised(prediction).split(), normalised(gold).split()
    if not said or not right:
        return float(said == right)
    same = sum((Counter(said) & Counter(right)).values())
    if not same:
        return 0.0
    precision, recall = same / len(said), same / len(right)
    return 2 * precision * recall / (precision + recall)
