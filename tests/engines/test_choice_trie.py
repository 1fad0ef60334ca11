"""`ChoiceTrie` against brute force: every answer's probability, and what greedy decoding says."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.engines.choice_trie import ChoiceTrie, Prefix

END = 99
# Three tokens and short answers, so that answers often begin alike or begin one another.
answers = st.lists(
    st.lists(st.integers(0, 2), max_size=4).map(tuple), min_size=1, max_size=8, unique=True
)


@dataclass(frozen=True)
class Language:
    """Next-token log-probabilities after any prefix, up to a constant."""

    seed: int

    def logprob(self, prefix: Prefix, token: int) -> float:
        return -((hash((self.seed, prefix, token)) % 997) / 100)


languages = st.builds(Language, st.integers(0, 2**32))


def trie_of(encoded: list[tuple[int, ...]]) -> ChoiceTrie:
    return ChoiceTrie.of({str(ids): ids for ids in encoded}, END)


def asked(trie: ChoiceTrie, language: Language) -> dict[Prefix, dict[int, float]]:
    """What an engine answers: the allowed tokens' log-probabilities at every branch."""
    return {
        prefix: {token: language.logprob(prefix, token) for token in tokens}
        for prefix, tokens in trie.branches().items()
    }


def allowed(trie: ChoiceTrie, prefix: Prefix) -> list[int]:
    depth = len(prefix)
    ids = trie.sequences.values()
    return sorted({i[depth] for i in ids if len(i) > depth and i[:depth] == prefix})


def brute_force(trie: ChoiceTrie, language: Language) -> dict[str, float]:
    """Guided decoding, one token at a time, branch or not."""
    found = {}
    for choice, ids in trie.sequences.items():
        probability = 1.0
        for depth, token in enumerate(ids):
            options = allowed(trie, ids[:depth])
            weights = [math.exp(language.logprob(ids[:depth], option)) for option in options]
            probability *= weights[options.index(token)] / sum(weights)
        found[choice] = probability
    return found


def greedy(trie: ChoiceTrie, language: Language) -> str:
    """The lowest id wins a tie, as in an engine's argmax."""
    prefix: Prefix = ()
    while not prefix or prefix[-1] != END:
        options = allowed(trie, prefix)
        logprobs = {token: language.logprob(prefix, token) for token in options}
        best = min(token for token in options if logprobs[token] == max(logprobs.values()))
        prefix = (*prefix, best)
    return next(choice for choice, ids in trie.sequences.items() if ids == prefix)


@settings(deadline=None, max_examples=60)
@given(answers, languages)
def test_probabilities_equal_brute_force(
    encoded: list[tuple[int, ...]], language: Language
) -> None:
    trie = trie_of(encoded)
    probabilities = trie.probabilities(asked(trie, language))
    assert sum(probabilities.values()) == pytest.approx(1)
    assert probabilities == pytest.approx(brute_force(trie, language))


@settings(deadline=None, max_examples=60)
@given(answers, languages)
def test_said_is_what_greedy_decoding_says(
    encoded: list[tuple[int, ...]], language: Language
) -> None:
    trie = trie_of(encoded)
    assert trie.said(asked(trie, language)) == greedy(trie, language)


@settings(deadline=None, max_examples=60)
@given(answers, languages, st.floats(-50, 50))
def test_a_constant_offset_changes_nothing(
    encoded: list[tuple[int, ...]], language: Language, offset: float
) -> None:
    trie = trie_of(encoded)
    plain = asked(trie, language)
    shifted = {
        prefix: {token: value + offset for token, value in options.items()}
        for prefix, options in plain.items()
    }
    assert trie.probabilities(shifted) == pytest.approx(trie.probabilities(plain))


@settings(deadline=None, max_examples=60)
@given(answers)
def test_branches_are_the_places_with_more_than_one_way_on(
    encoded: list[tuple[int, ...]],
) -> None:
    trie = trie_of(encoded)
    prefixes = {ids[:depth] for ids in trie.sequences.values() for depth in range(len(ids))}
    ways = {prefix: tuple(allowed(trie, prefix)) for prefix in prefixes}
    assert trie.branches() == {prefix: on for prefix, on in ways.items() if len(on) > 1}


def test_an_answer_that_begins_another() -> None:
    trie = ChoiceTrie.of({"1": (1,), "10": (1, 0), "2": (2,)}, END)
    assert trie.branches() == {(): (1, 2), (1,): (0, END)}
    logprobs = {
        (): {1: math.log(0.6), 2: math.log(0.2)},
        (1,): {0: math.log(0.1), END: math.log(0.3)},
    }
    assert trie.probabilities(logprobs) == pytest.approx({"1": 9 / 16, "10": 3 / 16, "2": 4 / 16})
    assert trie.said(logprobs) == "1"


def test_greedy_decoding_may_miss_the_likeliest_answer() -> None:
    trie = ChoiceTrie.of({"a": (1, 1), "b": (1, 2), "c": (2,)}, END)
    logprobs = {
        (): {1: math.log(0.6), 2: math.log(0.4)},
        (1,): {1: math.log(0.5), 2: math.log(0.5)},
    }
    assert trie.probabilities(logprobs) == pytest.approx({"a": 0.3, "b": 0.3, "c": 0.4})
    assert trie.said(logprobs) == "a"


def test_a_single_answer_needs_no_engine() -> None:
    trie = ChoiceTrie.of({"only": (4, 5)}, END)
    assert trie.branches() == {}
    assert trie.probabilities({}) == {"only": 1.0}
    assert trie.said({}) == "only"


def test_very_unlikely_tokens_do_not_underflow() -> None:
    trie = ChoiceTrie.of({"a": (1,), "b": (2,)}, END)
    assert trie.probabilities({(): {1: -9000.0, 2: -9000.0}}) == {"a": 0.5, "b": 0.5}
