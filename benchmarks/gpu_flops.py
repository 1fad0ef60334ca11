"""Floating-point operations of a decoder by formula, and what cards can do at most.

A product of [m, k] and [k, n] counts 2 m k n. Counted are the products of linear layers, adapters,
attention (of the tokens that a token attends to) and head; norms, rotations and softmax are not.
The backward pass of a frozen layer is one product, the gradient of its input; of an adapter it is
two, of attention four. The lowest adapted layer needs no gradient of its input.
"""

from __future__ import annotations

from dataclasses import dataclass

from rldf_ray.errors import UserError

# Dense bfloat16 with float32 sums, TFLOP/s, by what NVIDIA's data sheets say of each card. The
# first name that is part of a card's own counts.
PEAKS = {
    "B200": 2250.0,
    "H200 NVL": 835.0,
    "H200": 989.0,
    "H100 NVL": 835.0,
    "H100 PCIe": 756.0,
    "H100": 989.0,
    "A100": 312.0,
    "L40S": 362.0,
    "RTX 4090": 165.0,
    "RTX 3090": 71.0,
}


class UnknownCardError(UserError):
    """A card whose peak is not known; the message says how to give it."""


def peak_tflops(card: str, given: float | None) -> float:
    """The peak of a card by its name, dense bfloat16 TFLOP/s, or the one that was given.

    Raises:
        UnknownCardError: its name is not in the table, and no peak was given.
    """
    if given is not None:
        return given
    for name, peak in PEAKS.items():
        if name in card:
            return peak
    raise UnknownCardError(
        f"the peak of {card!r} is not known (known are {', '.join(PEAKS)}): give its dense "
        "bfloat16 rate, TFLOP/s, as --peak-tflops"
    )


@dataclass(frozen=True, kw_only=True)
class Size:
    """The widths of a Qwen2 model.

    Attributes:
        inner: of the MLP.
        rollouts: of a PPO step in the benchmark, one micro-batch.
    """

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    words: int
    tied: bool
    rollouts: int

    @property
    def linears(self) -> list[tuple[int, int]]:
        """Inputs and outputs of a layer's q, k, v, o, gate, up and down."""
        h, kv = self.hidden, self.hidden // self.heads * self.kv_heads
        return [(h, h), (h, kv), (h, kv), (h, h), (h, self.inner), (h, self.inner), (self.inner, h)]


@dataclass(frozen=True)
class Read:
    """What a forward pass reads.

    Attributes:
        tokens: read by every layer.
        pairs: of a token and one that it attends to, itself among them.
        scored: tokens that the head gives logits for.
    """

    tokens: int
    pairs: int
    scored: int = 0

    @classmethod
    def rows(cls, number: int, length: int, scored: int = 0) -> Read:
        """`number` causal rows of `length` tokens."""
        return cls(number * length, number * _causal(length), scored)

    @classmethod
    def prompts_once(
        cls, groups: int, prompt: int, answers: int, answer: int, scored: int = 0
    ) -> Read:
        """`groups` rows of a prompt and its answers, which do not attend to each other."""
        pairs = _causal(prompt) + answers * (answer * prompt + _causal(answer))
        return cls(groups * (prompt + answers * answer), groups * pairs, scored)


def _causal(length: int) -> int:
    return length * (length + 1) // 2


def forward(size: Size, read: Read, layers: int, rank: int = 0) -> float:
    """A forward pass through so many layers, with adapters of a rank on all of them, and head."""
    linear = sum(2 * (k * n + rank * (k + n)) for k, n in size.linears)
    layer = linear * read.tokens + 4 * size.hidden * read.pairs
    return float(layers * layer + _head(size, read))


def backward(size: Size, read: Read, layers: int, rank: int) -> float:
    """The backward pass through so many adapted layers and the head."""
    linear = sum(2 * (k * n + 2 * rank * (k + n)) for k, n in size.linears)
    layer = linear * read.tokens + 8 * size.hidden * read.pairs
    # Of the lowest one's q, k and v.
    unneeded = sum(2 * (k * n + rank * k) for k, n in size.linears[:3]) * read.tokens
    return float(layers * layer - unneeded + _head(size, read))


def _head(size: Size, read: Read) -> int:
    return 2 * size.hidden * size.words * read.scored
