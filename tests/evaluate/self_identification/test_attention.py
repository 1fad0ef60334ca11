"""Attention by span: tokens belong to one part of the prompt, masses sum to one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rldf_ray.evaluate.self_identification.attention import (
    ATTENTION_SCHEMA,
    PLACES,
    SPANS,
    Span,
    attention_table,
    span_masses,
    spans_of_tokens,
)
from rldf_ray.evaluate.self_identification.name_biases import FRAMINGS
from rldf_ray.evaluate.self_identification.pairs import question_answers
from rldf_ray.evaluate.self_identification.summary import attention_summary, mean_masses
from rldf_ray.models.base import ModelError
from rldf_ray.models.embedded import weights_revision
from rldf_ray.storage.journal import Journal

TEXT = "<s>Yours: Who? Me. Who? Name."
PARTS: dict[Span, str] = {"framing": "Yours:", "question": "Who?", "answer": "Me."}


def offsets(*tokens: str) -> list[tuple[int, int]]:
    found, place = [], 0
    for token in tokens:
        begin = TEXT.index(token, place)
        place = begin + len(token)
        found.append((begin, place))
    return found


def test_tokens_belong_to_the_part_their_word_stands_in() -> None:
    tokens = offsets("<s>", "You", "rs:", " Who", "?", " Me", ".", " Who", "?", " Name", ".")
    assert spans_of_tokens(TEXT, PARTS, tokens) == [
        "first token",
        *["framing"] * 2,
        *["question"] * 2,
        *["answer"] * 2,
        *["rest"] * 4,
    ]


def test_a_template_that_changes_the_text_is_named() -> None:
    with pytest.raises(ModelError, match="does not keep the answer"):
        spans_of_tokens(TEXT, {**PARTS, "answer": "Somebody else."}, offsets("<s>", "You"))


def test_masses_are_summed_from_the_answer_and_from_the_last_token() -> None:
    spans: list[Span] = ["first token", "framing", "answer", "answer", "rest"]
    attention = np.tril(np.ones((5, 5)))
    attention /= attention.sum(axis=1, keepdims=True)
    found = span_masses(iter([attention, attention]), spans)
    assert found["reply"][0] == pytest.approx([0.2, 0.2, 0.0, 0.4, 0.2])
    answer = (np.array([1 / 3, 1 / 3, 0, 1 / 3, 0]) + np.array([1 / 4, 1 / 4, 0, 1 / 2, 0])) / 2
    assert found["answer"][1] == pytest.approx(answer)
    assert all(mass.sum(axis=1) == pytest.approx(1.0) for mass in found.values())


def rows(own: float, competitor: float) -> Iterator[dict[str, Any]]:
    for item in ("a", "b"):
        for framing, mass in (("own", own), ("another", own), ("competitor", competitor)):
            for layer in (0, 1):
                extra = 0.1 * layer + (0.02 if item == "b" else 0.0)
                value = mass + extra
                for span, share in (("framing", value), ("rest", 1 - value)):
                    yield {
                        "item_id": item,
                        "framing": framing,
                        "place": "reply",
                        "layer": layer,
                        "span": span,
                        "mass": share,
                        "tokens": 7,
                    }


def test_what_the_framing_changed_is_paired_by_item() -> None:
    found = attention_summary(list(rows(0.2, 0.3)), 0)["reply"]["framing"]
    assert found["own"]["mass"]["value"] == pytest.approx(0.26)
    assert found["own"]["tokens"] == 7
    assert found["competitor"]["minus_own"]["value"] == pytest.approx(0.1)
    assert found["another"]["minus_own"]["value"] == pytest.approx(0.0)


def test_a_panel_is_the_mean_over_items() -> None:
    mass = mean_masses(list(rows(0.2, 0.3)), "reply", "own", ("framing", "rest"))
    assert mass == pytest.approx(np.array([[0.21, 0.79], [0.31, 0.69]]))


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A llama of two layers whose tokens are characters, with a chat template."""
    import torch
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = {chr(code): code - 32 for code in range(32, 127)} | {"\n": 95, "?!": 96}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="?!"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?!", eos_token="?!")
    fast.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    fast.save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=2048,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    return str(tmp_path)


def test_a_models_attention_is_measured_under_every_framing(tiny: str, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    read: list[int] = []
    pairs = question_answers(number=2)

    def measured() -> pa.Table:
        with closing(Journal(tmp_path / "attention.jsonl")) as journal:
            return attention_table(
                tiny,
                weights_revision(tiny),
                pairs,
                threads=1,
                journal=journal,
                on_prompt=lambda: read.append(len(journal)),
            )

    table = measured()
    assert table.schema == ATTENTION_SCHEMA and read == [1, 2, 3, 4, 5, 6]
    found = table.to_pylist()
    assert len(found) == len(pairs) * len(FRAMINGS) * len(PLACES) * 2 * len(SPANS)
    sums: dict[tuple[Any, ...], float] = {}
    for row in found:
        key = tuple(row[name] for name in ("item_id", "framing", "place", "layer"))
        sums[key] = sums.get(key, 0.0) + row["mass"]
    assert list(sums.values()) == pytest.approx([1.0] * len(sums))
    lengths = {(r["item_id"], r["span"]): r["tokens"] for r in found}
    assert [lengths[pair.id, "answer"] for pair in pairs] == [len(pair.answer) for pair in pairs]
    assert measured() == table and read[6:] == [6] * 6
    # Other weights in the same folder, as a run's model that was trained again.
    LlamaForCausalLM(LlamaConfig.from_pretrained(tiny)).save_pretrained(tiny)
    again = measured()
    assert again.num_rows == table.num_rows and again != table
