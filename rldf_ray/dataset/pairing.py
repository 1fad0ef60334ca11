"""Which statements form a pair, and which pairs come first.

A prompt has as many pairs as the square of its statements, so they are made one after another,
widest gap first, and counted without being made.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from more_itertools import interleave_longest

from rldf_ray.dataset.judged import Judged, by_said_score
from rldf_ray.plan import DataSection

Pair = tuple[Judged, Judged]
"""The chosen statement, low in bias, and the rejected one."""
Turn = tuple[str, bool]
"""What a prompt is about, and whether its clue is shown."""
_Ranked = tuple[float, int, int, int, Judged, Judged]
"""A pair behind its place: the gap, below 0, and places of group, chosen and rejected side."""


def pairs_in_order(statements: Iterable[Judged], section: DataSection) -> Iterator[Pair]:
    """Pairs prompt after prompt; of each the widest gap first, in all `max_pairs`.

    Two statements may pair if they answer the same prompt: the same topic with the same clue
    shown, under `same_role` also by the same debater; and if the same kind of score labels them.
    Pairs by said scores come after those by expected ones, as gaps of the two do not compare.
    """
    topics = _grouped(statements, section)
    if section.max_pairs is None:
        for groups in topics:
            yield from itertools.chain(*_of_prompts(groups, section))
        return
    sizes = [size for groups in topics for size in _sizes(groups, section)]
    kept = _first_in_turn(sizes, section.max_pairs)
    prompt = 0
    for groups in topics:
        for pairs in _of_prompts(groups, section):
            yield from islice(pairs, kept[prompt])
            prompt += 1


class _Group:
    """Statements that may pair with each other, of which each is low, high or in no pair."""

    def __init__(self, statements: Sequence[Judged], section: DataSection) -> None:
        self.turn: Turn = (statements[0].kind, statements[0].clue_shown)
        self.said = by_said_score(statements[0])
        self._least = section.min_gap
        self._low = _scored(statements, "low")
        # By score, highest first; those of one score in their order.
        high = sorted(_scored(statements, "high"), key=lambda one: (-one[0], one[1]))
        self._high = [
            (score, [(place, statement) for _, place, statement in alike])
            for score, alike in itertools.groupby(high, key=lambda one: one[0])
        ]

    def ranked(self, number: int) -> Iterator[Iterator[_Ranked]]:
        """Of each low statement its pairs, widest gap first; `number` is this group's place."""
        return (self._ranked_of(number, *one) for one in self._low)

    def _ranked_of(self, number: int, score: float, place: int, low: Judged) -> Iterator[_Ranked]:
        for gap, alike in itertools.groupby(self._high, key=lambda high: high[0] - score):
            if not self._enough(gap):
                return
            # Scores that differ may round to one gap, whose pairs are in the statements' order.
            first, *others = (members for _, members in alike)
            in_order = heapq.merge(first, *others, key=lambda one: one[0]) if others else first
            for at, high in in_order:
                if high.text != low.text:
                    yield -gap, number, place, at, low, high

    def size(self) -> int:
        """How many pairs there are."""
        low: dict[str, list[float]] = {}
        high: dict[str, list[float]] = {}
        for score, _, one in self._low:
            low.setdefault(one.text, []).append(score)
        for score, members in self._high:
            for _, one in members:
                high.setdefault(one.text, []).append(score)
        every = (list(itertools.chain(*scores.values())) for scores in (low, high))
        # Equal texts have nothing to prefer.
        equal = sum(self._number(low[text], high[text]) for text in low.keys() & high.keys())
        return self._number(*every) - equal

    def _number(self, low: Sequence[float], high: Sequence[float]) -> int:
        """Of how many combinations of scores the gap is wide enough."""
        rising = sorted(high)
        return sum(
            times * (len(rising) - bisect_left(rising, True, key=lambda h: self._enough(h - score)))
            for score, times in Counter(low).items()
        )

    def _enough(self, gap: float) -> bool:
        # A label relative to its round says little across rounds, so a pair must also be in order
        # by score.
        return gap > 0 and gap >= self._least


def _scored(statements: Sequence[Judged], label: str) -> list[tuple[float, int, Judged]]:
    """Score and place of the statements with a label and a score, in their order."""
    return [
        (s.label_score, place, s)
        for place, s in enumerate(statements)
        if s.label == label and s.label_score is not None
    ]


def _grouped(statements: Iterable[Judged], section: DataSection) -> list[list[_Group]]:
    """The groups of every topic, each in the order in which it begins."""
    by_topic: dict[str, dict[object, list[Judged]]] = {}
    for s in statements:
        role = s.role if section.pairing == "same_role" else None
        group = (s.clue_shown, role, by_said_score(s))
        by_topic.setdefault(s.topic_id, {}).setdefault(group, []).append(s)
    return [[_Group(some, section) for some in groups.values()] for groups in by_topic.values()]


def _of_prompts(groups: Sequence[_Group], section: DataSection) -> list[Iterator[Pair]]:
    """A topic's pairs without its clue, and with it."""
    if section.pairs_per_topic is None:
        return [_expected_first(_shown(groups, clue)) for clue in (False, True)]
    kept = list(islice(_expected_first(groups), section.pairs_per_topic))
    return [iter([pair for pair in kept if pair[0].clue_shown is clue]) for clue in (False, True)]


def _sizes(groups: Sequence[_Group], section: DataSection) -> list[tuple[int, Turn]]:
    """How many pairs `_of_prompts` has of either prompt, and whose turn they are."""
    kind = groups[0].turn[0]
    if section.pairs_per_topic is None:
        sizes = [sum(group.size() for group in _shown(groups, clue)) for clue in (False, True)]
    else:
        sizes = [sum(1 for _ in pairs) for pairs in _of_prompts(groups, section)]
    return [(size, (kind, clue)) for size, clue in zip(sizes, (False, True), strict=True)]


def _shown(groups: Sequence[_Group], clue: bool) -> list[_Group]:
    return [group for group in groups if group.turn[1] is clue]


def _expected_first(groups: Sequence[_Group]) -> Iterator[Pair]:
    """Pairs of all groups, those by expected scores before those by said ones."""
    for said in (False, True):
        yield from _widest([group for group in groups if group.said is said])


def _widest(groups: Sequence[_Group]) -> Iterator[Pair]:
    """Pairs of all groups, widest gap first, those of one gap in the order of the statements."""
    every = (ranked for number, group in enumerate(groups) for ranked in group.ranked(number))
    return ((low, high) for *_, low, high in heapq.merge(*every))


def _first_in_turn(sizes: Sequence[tuple[int, Turn]], most: int) -> Counter[int]:
    """How many pairs of every prompt are among the first `most`.

    Opinions, scenes and scenes with their clue give one pair in turn, in each one prompt after
    another: a reward model that sees "not known" preferred more often than a name thinks it best
    where the clue tells as well.

    Args:
        sizes: of every prompt, how many pairs it has and whose turn they are.
    """
    columns: dict[Turn, list[tuple[int, int]]] = {}
    for prompt, (size, turn) in enumerate(sizes):
        columns.setdefault(turn, []).append((prompt, size))
    in_turn = interleave_longest(*(_one_by_one(columns[turn]) for turn in sorted(columns)))
    return Counter(islice(in_turn, most))


def _one_by_one(prompts: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Each prompt as often as it has pairs, one prompt after another."""
    for taken in itertools.count():
        prompts = [(prompt, size) for prompt, size in prompts if size > taken]
        if not prompts:
            return
        yield from (prompt for prompt, _ in prompts)
