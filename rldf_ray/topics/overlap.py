"""Do training topics repeat what a model is evaluated on? Word 8-grams, and the same words.

Evaluation texts are handed down by the pipeline, as debates know nothing of evaluations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rldf_ray.records import Topic

NGRAM = 8
"""Words in a row that two texts of different origin hardly share by chance."""

Overlap = Literal["ngram", "same_words"]

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True)
class EvaluationTexts:
    """What a model will be evaluated on, as `overlap` looks it up.

    Attributes:
        items: how many items they are from.
    """

    items: int
    _ngrams: frozenset[int]
    _same_words: frozenset[str]

    @classmethod
    def of(cls, items: Sequence[Sequence[str]], wholes: Iterable[str] = ()) -> EvaluationTexts:
        """Of each item its texts, for example context and question.

        Args:
            wholes: other texts of the items, such as prompts, that share a wording with texts of
                other items: only what has all of its words in common repeats one.
        """
        texts = {text for item in items for text in item}
        return cls(
            items=len(items),
            _ngrams=frozenset(gram for text in texts for gram in _ngrams(text)),
            _same_words=frozenset(map(_bag, (*texts, *wholes))),
        )

    def overlap(self, topic: Topic) -> Overlap | None:
        """How a topic repeats an evaluation text, with its clue or question too."""
        return self.overlap_of(topic.text, details=(topic.clue, topic.question))

    def overlap_of(self, *texts: str, details: Iterable[str | None] = ()) -> Overlap | None:
        """How one of several texts repeats an evaluation text; None if none does.

        ngram: a text or a detail has eight words in a row with one in common.
        same_words: a text is one, but for the order of the words, case and punctuation.

        Args:
            details: what may be that of many items, such as a scene's question; None is nothing.
        """
        parts = (*texts, *(detail for detail in details if detail))
        if any(gram in self._ngrams for part in parts for gram in _ngrams(part)):
            return "ngram"
        return "same_words" if any(_bag(text) in self._same_words for text in texts) else None


NOTHING_EVALUATED = EvaluationTexts(0, frozenset(), frozenset())


def topic_texts(topics: Iterable[Topic], prompts: Iterable[str] = ()) -> EvaluationTexts:
    """Topics that a model will be asked about, and in what words, as `overlap` looks them up."""
    return EvaluationTexts.of(
        [(topic.text, *filter(None, (topic.clue, topic.question))) for topic in topics], prompts
    )


def overlap_counts(topics: Iterable[Topic], evaluated: EvaluationTexts) -> dict[Overlap, int]:
    """How many topics overlap in either way."""
    overlaps = [evaluated.overlap(topic) for topic in topics]
    return {"ngram": overlaps.count("ngram"), "same_words": overlaps.count("same_words")}


def _ngrams(text: str) -> Iterator[int]:
    # Hashes, since the n-grams of all BBQ are a million; they are never written down.
    said = words(text)
    return (hash(tuple(said[i : i + NGRAM])) for i in range(len(said) - NGRAM + 1))


def _bag(text: str) -> str:
    return " ".join(sorted(words(text)))


def words(text: str) -> list[str]:
    """Its words, lower case and without punctuation."""
    return _WORD.findall(text.lower())
