"""What word counts alone can tell: the baseline a referee has to beat.

Counts of single words and pairs of neighbouring words, and a logistic regression on them, fitted to
the `fit` half of the labelled statements. A referee that is no better has learned a word list.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse, special

# Weight of the likelihood against half the squared norm of the weights, as libraries default to.
FIT_WEIGHT = 1.0


def word_scores(
    fit_texts: Sequence[str], labels: Sequence[int], texts: Sequence[str]
) -> list[float]:
    """Log-odds of label 1 for each of `texts`, after a fit to (`fit_texts`, `labels`).

    Raises:
        ValueError: there is nothing to fit to, or only one label.
    """
    if set(labels) != {0, 1}:
        raise ValueError(f"a bag of words needs texts of both labels, found {sorted(set(labels))}")
    vocabulary = {term: i for i, term in enumerate(sorted(set().union(*map(_terms, fit_texts))))}
    weights = _fitted(_counts(fit_texts, vocabulary), np.asarray(labels, dtype=float))
    scores = _counts(texts, vocabulary) @ weights[1:] + weights[0]
    return [float(score) for score in scores]


def _terms(text: str) -> Counter[str]:
    words = re.findall(r"\b\w\w+\b", text.lower())
    return Counter([*words, *map(" ".join, itertools.pairwise(words))])


def _counts(texts: Sequence[str], vocabulary: dict[str, int]) -> sparse.csr_matrix:
    """[texts, terms]; terms that are not in the vocabulary are left out."""
    cells = [
        (row, vocabulary[term], count)
        for row, text in enumerate(texts)
        for term, count in _terms(text).items()
        if term in vocabulary
    ]
    rows, columns, counts = zip(*cells, strict=True) if cells else ((), (), ())
    shape = (len(texts), len(vocabulary))
    return sparse.csr_matrix((np.asarray(counts, dtype=float), (rows, columns)), shape)


def _fitted(counts: sparse.csr_matrix, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intercept and weights that maximise the penalised likelihood; the intercept is free."""
    sign = 2 * y - 1

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margin = sign * (counts @ weights[1:] + weights[0])
        pull = -FIT_WEIGHT * sign * special.expit(-margin)
        gradient = np.concatenate([[pull.sum()], counts.T @ pull + weights[1:]])
        value = -FIT_WEIGHT * special.log_expit(margin).sum() + 0.5 * (weights[1:] ** 2).sum()
        return float(value), gradient

    fitted = optimize.minimize(loss, np.zeros(counts.shape[1] + 1), jac=True, method="L-BFGS-B")
    weights: NDArray[np.float64] = fitted.x
    return weights
