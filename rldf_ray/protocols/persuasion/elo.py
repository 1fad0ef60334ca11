"""Elo ratings of debaters by Bradley-Terry, with intervals that resample stories.

The scale is the paper's, the fit a choice. Aggregate: a node a debater. Correct and incorrect: two
nodes a debater, and matches only between a correct and an incorrect one. Debates of a debater with
itself are left out of the aggregate; ratings are anchored so that their mean is 1500. Who is
connected to nobody by a chain of matches has no rating.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import choix
import numpy as np
from scipy import optimize, sparse
from scipy.sparse import csgraph

from rldf_ray.stats import LEAST_CLUSTERS, Estimate, interval

MEAN, SCALE = 1500.0, 400.0 / np.log(10)
REGULARISATION = 1e-2
RESAMPLES = 200

Node = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Win:
    """One judged debate in one position, as a win.

    Attributes:
        group: the story, which intervals resample.
    """

    winner: Node
    loser: Node
    group: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Ratings of nodes, and the same on resamples of stories.

    Attributes:
        elo: [nodes]. resampled: [resamples, nodes].
        played: verdicts that a node took part in.
    """

    nodes: tuple[Node, ...]
    elo: np.ndarray
    resampled: np.ndarray
    played: tuple[int, ...]

    def ratings(self) -> dict[Node, Estimate]:
        """Elo of each node with a 95 % interval, where there are enough stories."""
        estimates = {}
        for place, node in enumerate(self.nodes):
            low = high = None
            if len(self.resampled):
                low, high = (float(end) for end in interval(self.resampled[:, place]))
            estimates[node] = Estimate(float(self.elo[place]), low, high, self.played[place])
        return estimates


def draws(stories: int, seed: int) -> np.ndarray:
    """Resamples of stories by their places, [resamples, stories]; the same for the same seed.

    None of fewer stories than `LEAST_CLUSTERS`.
    """
    generator = np.random.default_rng(seed)
    number = RESAMPLES if stories >= LEAST_CLUSTERS else 0
    return generator.integers(0, max(1, stories), (number, stories))


def fit(wins: Sequence[Win], stories: Sequence[Hashable], drawn: np.ndarray) -> Fit:
    """Elo of every node that is connected to others; none of fewer than two.

    Args:
        stories: all of the study, to which the places in `drawn` refer.
    """
    nodes = connected(wins)
    if len(nodes) < 2:
        return Fit(nodes=(), elo=np.empty(0), resampled=np.empty((0, 0)), played=())
    used = [win for win in wins if win.winner in nodes and win.loser in nodes]
    by_story: dict[Hashable, list[Win]] = defaultdict(list)
    for win in used:
        by_story[win.group].append(win)
    groups = [by_story[story] for story in stories]
    again = [_fitted([win for place in row for win in groups[place]], nodes) for row in drawn]
    return Fit(
        nodes=tuple(nodes),
        elo=_fitted(used, nodes),
        resampled=np.array(again).reshape(len(again), len(nodes)),
        played=tuple(sum(node in (win.winner, win.loser) for win in used) for node in nodes),
    )


def _fitted(wins: Sequence[Win], nodes: Sequence[Node]) -> np.ndarray:
    """Ratings by maximum likelihood, a little drawn to their mean so that no win is infinite."""
    place = {node: i for i, node in enumerate(nodes)}
    data = [(place[win.winner], place[win.loser]) for win in wins]
    strengths = choix.opt_pairwise(len(nodes), data, alpha=REGULARISATION)
    elo: np.ndarray = MEAN + SCALE * (strengths - strengths.mean())
    return elo


def connected(wins: Iterable[Win]) -> list[Node]:
    """The nodes of the largest connected part, by name; the first of equals."""
    pairs = [(win.winner, win.loser) for win in wins if win.winner != win.loser]
    nodes = sorted({node for pair in pairs for node in pair})
    if not nodes:
        return []
    place = {node: i for i, node in enumerate(nodes)}
    rows, columns = [place[one] for one, _ in pairs], [place[other] for _, other in pairs]
    matches = sparse.coo_array((np.ones(len(pairs)), (rows, columns)), (len(nodes), len(nodes)))
    _, part = csgraph.connected_components(matches, directed=False)
    largest = np.bincount(part).argmax()
    return [node for node, of in zip(nodes, part, strict=True) if of == largest]


def least_squares(rates: Mapping[tuple[Node, Node], float]) -> dict[Node, float]:
    """The paper's fit: predicted against observed win rates, unweighted, mean 1500; a check."""
    nodes = sorted({node for pair in rates for node in pair})
    place = {node: i for i, node in enumerate(nodes)}

    def off(values: np.ndarray) -> list[float]:
        return [
            1 / (1 + 10 ** ((values[place[b]] - values[place[a]]) / 400)) - rate
            for (a, b), rate in rates.items()
        ]

    fit = optimize.least_squares(off, np.full(len(nodes), MEAN), bounds=(0, 3000))
    shifted = fit.x - fit.x.mean() + MEAN
    return dict(zip(nodes, map(float, shifted), strict=True))
