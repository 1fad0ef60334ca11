"""Attention of a small model while it is shown answers as its own or as others' (paper, Figure 2).

The prompt is read once, with eager attention, which keeps the weights. From two places the mass is
summed over parts of the prompt: from the tokens of the answer shown, which are the same text under
every framing, and from the last token of the prompt, from which the reply begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from rldf_ray.evaluate.self_identification.name_biases import FRAMINGS, Framing, framing_text, shown
from rldf_ray.evaluate.self_identification.pairs import QuestionAnswer
from rldf_ray.models.base import ModelError
from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.embedded import resolve_model
from rldf_ray.models.template_values import with_defaults
from rldf_ray.storage.digest import digest
from rldf_ray.storage.journal import Journal

Place = Literal["answer", "reply"]
PLACES: tuple[Place, ...] = get_args(Place)
Span = Literal["first token", "framing", "question", "answer", "rest"]
SPANS: tuple[Span, ...] = get_args(Span)

ATTENTION_SCHEMA = pa.schema(
    [
        ("item_id", pa.string()),
        ("framing", pa.string()),
        ("place", pa.string()),
        ("layer", pa.int64()),
        ("span", pa.string()),
        ("mass", pa.float64()),
        ("tokens", pa.int64()),
    ]
)

Offsets = Sequence[tuple[int, int]]


def attention_table(
    folder: str,
    revision: str | None,
    pairs: Sequence[QuestionAnswer],
    *,
    threads: int,
    journal: Journal,
    on_prompt: Callable[[], None],
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Attention mass by item, framing, place, layer and span; columns of ATTENTION_SCHEMA.

    `mass` is the mean over heads (and over the tokens of the place), in [0, 1]; over the spans of
    one place and layer it sums to 1. `tokens` is the span's length. A prompt that `journal` has is
    not read again.

    Args:
        revision: of the weights in `folder`, as others may have stood there.

    Raises:
        ModelError: the model's chat template changes the text it is given.
    """
    from transformers import AutoModel, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(threads)
    folder = resolve_model(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    if chat_template_kwargs:
        tokenizer.chat_template = with_defaults(tokenizer.chat_template, chat_template_kwargs)
    # Without the output head, which attention does not depend on.
    model: Any = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.eval().requires_grad_(False).to(device)
    rows: list[dict[str, Any]] = []
    for pair in pairs:
        for framing in FRAMINGS:
            spans, ids = spans_of_prompt(tokenizer, pair, framing)
            address, key = f"attention/{framing}/{pair.id}", digest(folder, revision, ids)
            known = journal.get(address)
            if known is None or known["key"] != key:
                masses = span_masses(_layers(model, ids), spans)
                known = {"key": key, "masses": {p: mass.tolist() for p, mass in masses.items()}}
                journal.append(address, known)
            for place in PLACES:
                rows += _rows(pair, framing, place, np.array(known["masses"][place]), spans)
            on_prompt()
    return pa.Table.from_pylist(rows, schema=ATTENTION_SCHEMA)


def spans_of_prompt(
    tokenizer: Any, pair: QuestionAnswer, framing: Framing
) -> tuple[list[Span], list[int]]:
    """The span of every token of the prompt, and the tokens."""
    messages = [{"role": m.role, "content": m.content} for m in shown(pair, framing)]
    text = ChatTemplate(tokenizer).text(messages, generate=True)
    read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    parts: dict[Span, str] = {
        "framing": framing_text(framing),
        "question": pair.question.strip(),
        "answer": pair.answer.strip(),
    }
    return spans_of_tokens(text, parts, read["offset_mapping"]), read["input_ids"]


def spans_of_tokens(text: str, parts: Mapping[Span, str], offsets: Offsets) -> list[Span]:
    """The span of every token, by where it begins in `text`.

    Args:
        parts: what stands in `text`, in this order.
        offsets: where each token begins and ends, characters.

    Raises:
        ModelError: a part is not in the text.
    """
    bounds: dict[Span, tuple[int, int]] = {}
    begin = 0
    for span, part in parts.items():
        place = text.find(part, begin)
        if place < 0:
            raise ModelError(
                f"the model's chat template does not keep the {span} as it is, so no map can be "
                f"made of it (--no-attention leaves them out): {part!r}"
            )
        begin = place + len(part)
        bounds[span] = (place, begin)
    return ["first token", *(_span_at(offset, text, bounds) for offset in offsets[1:])]


def _span_at(offset: tuple[int, int], text: str, bounds: Mapping[Span, tuple[int, int]]) -> Span:
    token = text[slice(*offset)]
    # A token may begin with the space before its word.
    begin = offset[0] + (len(token) - len(token.lstrip()) if token.strip() else 0)
    for span, (low, high) in bounds.items():
        if low <= begin < high:
            return span
    return "rest"


def span_masses(
    layers: Iterator[NDArray[np.float64]], spans: Sequence[Span]
) -> dict[Place, NDArray[np.float64]]:
    """Mass on each span from both places: place -> [layer, span].

    Args:
        layers: of each layer the mean attention over heads, [query token, key token].
    """
    member = np.array([[span == name for name in SPANS] for span in spans], dtype=float)
    of_answer = np.array([span == "answer" for span in spans])
    by_place: dict[Place, list[NDArray[np.float64]]] = {"answer": [], "reply": []}
    for attention in layers:
        by_span = attention @ member
        by_place["answer"].append(by_span[of_answer].mean(axis=0))
        by_place["reply"].append(by_span[-1])
    return {place: np.stack(rows) for place, rows in by_place.items()}


@torch.inference_mode()
def _layers(model: Any, ids: list[int]) -> Iterator[NDArray[np.float64]]:
    read = torch.tensor([ids], device=model.device)
    attentions = model(input_ids=read, use_cache=False, output_attentions=True).attentions
    return (layer[0].double().mean(dim=0).cpu().numpy() for layer in attentions)


def _rows(
    pair: QuestionAnswer,
    framing: Framing,
    place: Place,
    mass: NDArray[np.float64],
    spans: Sequence[Span],
) -> list[dict[str, Any]]:
    lengths = {span: spans.count(span) for span in SPANS}
    return [
        {
            "item_id": pair.id,
            "framing": framing,
            "place": place,
            "layer": layer,
            "span": span,
            "mass": float(mass[layer, column]),
            "tokens": lengths[span],
        }
        for layer in range(len(mass))
        for column, span in enumerate(SPANS)
    ]
