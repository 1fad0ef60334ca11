"""Reading two documents and writing an answer, with three attentions, as work to be measured."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from benchmarks.gpu_flops import Read, Size, forward
from benchmarks.gpu_models import TOKENS, random_model
from benchmarks.gpu_timing import Work
from rldf_ray.models.position_invariant import PositionInvariant

Parts = list[list[int]]
"""Token ids of prefix, both documents and suffix."""


class Attention(Protocol):
    """One way to read and to write."""

    def read(self, parts: Parts) -> Any:
        """A prompt; returns what `write` goes on from."""

    def write(self, begun: Any) -> None:
        """An answer, greedily."""


class OwnCode:
    """The product's decoder: documents as a set, or where they stand with stock attention."""

    def __init__(self, model: Any, written: int, *, invariant: bool) -> None:
        self._reader = PositionInvariant(model)
        self._written, self._invariant = written, invariant

    def read(self, parts: Parts) -> Any:
        prefix, *documents, suffix = parts
        whole = [prefix + [token for document in documents for token in document], suffix]
        logits, reading = self._reader.read(parts if self._invariant else whole, self._written)
        return int(logits[-1].argmax()), reading

    def write(self, begun: Any) -> None:
        token, reading = begun
        for _ in range(self._written):
            token = int(self._reader.follow(token, reading).argmax())


class Transformers:
    """transformers' own decoder with torch's SDPA, and its cache."""

    def __init__(self, model: Any, written: int) -> None:
        self._model, self._written = model, written

    @torch.no_grad()
    def read(self, parts: Parts) -> Any:
        whole = [token for part in parts for token in part]
        # The others give logits of the whole suffix, too.
        output = self._model(**self._ids(whole), use_cache=True, logits_to_keep=len(parts[-1]))
        return int(output.logits[0, -1].argmax()), output.past_key_values

    @torch.no_grad()
    def write(self, begun: Any) -> None:
        token, cache = begun
        for _ in range(self._written):
            output = self._model(**self._ids([token]), past_key_values=cache, use_cache=True)
            token = int(output.logits[0, -1].argmax())

    def _ids(self, tokens: list[int]) -> dict[str, Any]:
        return {"input_ids": torch.tensor([tokens], device=self._model.device)}


INVARIANT, SAME_CODE, STOCK = "position-invariant", "stock, same code", "transformers"


@dataclass(frozen=True, kw_only=True)
class MeasuredReading:
    """Two documents, read and answered.

    Attributes:
        dtype: "bfloat16" or "float32".
        prefix, suffix: tokens around the documents.
        written: tokens of the answer.
    """

    size: Size
    device: str
    dtype: str
    prefix: int
    suffix: int
    written: int

    def works(self, documents: int) -> Iterator[tuple[str, Work]]:
        """For documents of so many tokens each; every way is counted as stock attention."""
        model = random_model(self.size, getattr(torch, self.dtype), self.device)
        ways: dict[str, Attention] = {
            INVARIANT: OwnCode(model, self.written, invariant=True),
            SAME_CODE: OwnCode(model, self.written, invariant=False),
            STOCK: Transformers(model, self.written),
        }
        for name, way in ways.items():
            yield f"{name}, read", self._read(way, documents)
            yield f"{name}, write", self._write(way, documents)

    def _read(self, way: Attention, documents: int) -> Work:
        total = self.prefix + 2 * documents + self.suffix
        read = Read.rows(1, total, self.suffix)
        return Work(
            tokens=total,
            flops=forward(self.size, read, self.size.layers),
            prepare=lambda number: self.parts(documents, number),
            run=way.read,
        )

    def _write(self, way: Attention, documents: int) -> Work:
        total = self.prefix + 2 * documents + self.suffix
        pairs = sum(range(total + 1, total + self.written + 1))
        return Work(
            tokens=self.written,
            flops=forward(self.size, Read(self.written, pairs, self.written), self.size.layers),
            prepare=lambda number: way.read(self.parts(documents, number)),
            run=way.write,
        )

    def parts(self, documents: int, seed: int) -> Parts:
        """Random ids."""
        draw = random.Random(seed)
        lengths = (self.prefix, documents, documents, self.suffix)
        return [[draw.randrange(len(TOKENS), self.size.words) for _ in range(n)] for n in lengths]
