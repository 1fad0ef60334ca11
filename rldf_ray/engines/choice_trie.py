"""Exact probabilities over a fixed set of answers, from next-token log-probabilities.

An answer may take several tokens, and one answer may begin another ("1" and "10"). The answers are
laid out as a trie of tokens; at each node where more than one continuation is allowed, the model's
next-token distribution is renormalised over the allowed ones. That is the distribution guided
decoding samples from. Guided greedy decoding takes the likeliest token at every node (`said`),
which need not lead to the likeliest answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class ChoiceTrie:
    """`sequences[choice]` are its token ids, ended by `end_id`."""

    sequences: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, encoded: Mapping[str, Sequence[int]], end_id: int) -> ChoiceTrie:
        return cls({choice: (*ids, end_id) for choice, ids in encoded.items()})

    def branches(self) -> dict[Prefix, tuple[int, ...]]:
        """The allowed next tokens after every prefix at which there is more than one."""
        allowed: dict[Prefix, set[int]] = {}
        for ids in self.sequences.values():
            for depth, token in enumerate(ids):
                allowed.setdefault(ids[:depth], set()).add(token)
        return {
            prefix: tuple(sorted(tokens)) for prefix, tokens in allowed.items() if len(tokens) > 1
        }

    def probabilities(
        self, next_logprobs: Mapping[Prefix, Mapping[int, float]]
    ) -> dict[str, float]:
        """Probability of every choice.

        Args:
            next_logprobs: for every prefix of `branches()`, the natural log-probability of each
                allowed next token (any constant offset cancels).
        """
        normalised = {prefix: _softmax(options) for prefix, options in next_logprobs.items()}
        return {
            choice: math.prod(
                normalised[ids[:depth]][token]
                for depth, token in enumerate(ids)
                # A prefix with one continuation is forced: guided decoding takes it with
                # certainty, however unlikely the model thinks it.
                if ids[:depth] in normalised
            )
            for choice, ids in self.sequences.items()
        }

    def said(self, next_logprobs: Mapping[Prefix, Mapping[int, float]]) -> str:
        """The choice that guided greedy decoding would produce."""
        candidates = dict(self.sequences)
        for depth in range(max(len(ids) for ids in candidates.values())):
            prefix = next(iter(candidates.values()))[:depth]
            if prefix in next_logprobs:
                options = next_logprobs[prefix]
                # Sorted, so that of equally likely tokens the lowest id wins, as in an argmax.
                best = max(sorted(options), key=lambda token: options[token])
                candidates = {c: ids for c, ids in candidates.items() if ids[depth] == best}
            if len(candidates) == 1:
                break
        return next(iter(candidates))


def _softmax(logprobs: Mapping[int, float]) -> dict[int, float]:
    top = max(logprobs.values())
    weights = {token: math.exp(value - top) for token, value in logprobs.items()}
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}
