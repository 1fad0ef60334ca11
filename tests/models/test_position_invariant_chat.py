"""The embedded model as a position-invariant one: free text, exact, and the control as stock."""

from __future__ import annotations

import pytest
import torch

from rldf_ray.models.base import ChatRequest, Message, ModelError
from rldf_ray.models.embedded import resolve_model
from rldf_ray.models.position_invariant_chat import PositionInvariantChat
from rldf_ray.protocols.judges.prompt import render, segments
from rldf_ray.protocols.judges.views import JudgedItem, clean, swapped_with_labels

pytestmark = pytest.mark.slow

QUESTIONS = (
    ("What is the capital of France?", "Paris.", "Lyon, I believe."),
    ("How many legs has a spider?", "It has eight legs.", "Six, as all insects have."),
    ("Who wrote Hamlet?", "William Shakespeare wrote it around 1600.", "It was Marlowe."),
    ("What do bees make?", "Honey, and wax for their combs.", "They make milk."),
)
ITEMS = [
    JudgedItem(
        item_id=f"{n}-{i}", question=f"{question} Say it to {n} people.", answer1=a, answer2=b
    )
    for n in range(5)
    for i, (question, a, b) in enumerate(QUESTIONS)
]


def model(invariant: bool) -> PositionInvariantChat:
    return PositionInvariantChat(
        "embedded",
        name="embedded",
        revision="base",
        device="cpu",
        dtype="float32",
        invariant=invariant,
        longest=2048,
    )


@pytest.fixture(scope="module")
def pine() -> PositionInvariantChat:
    return model(invariant=True)


@pytest.fixture(scope="module")
def stock() -> PositionInvariantChat:
    return model(invariant=False)


def asked(item: JudgedItem, swapped: bool, tokens: int = 8) -> ChatRequest:
    view = swapped_with_labels(clean(item)) if swapped else clean(item)
    prompt = segments("judge", view)
    return ChatRequest(
        messages=(Message("system", render("helper")), Message("user", prompt.text)),
        max_tokens=tokens,
        temperature=0.0,
        documents=prompt.documents,
    )


def test_the_order_of_the_answers_leaves_twenty_verdicts_as_they_are(
    pine: PositionInvariantChat, stock: PositionInvariantChat
) -> None:
    for item in ITEMS:
        (there,), (back,) = (pine.answer(asked(item, swapped)) for swapped in (False, True))
        assert there.text == back.text, item
    # The control is the same code and tokens without that.
    controls = [
        [stock.answer(asked(item, swapped))[0].text for swapped in (False, True)]
        for item in ITEMS[:8]
    ]
    assert any(there != back for there, back in controls)


def test_the_control_says_what_transformers_says(stock: PositionInvariantChat) -> None:
    from transformers import AutoModelForCausalLM

    own = AutoModelForCausalLM.from_pretrained(resolve_model("embedded"), dtype=torch.float32)
    for item in ITEMS[:4]:
        (said,) = stock.answer(asked(item, swapped=False))
        ids = torch.tensor([said.prompt_ids])
        whole = own.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False
        )
        assert tuple(whole[0, ids.shape[1] :].tolist()) == said.token_ids


def test_the_same_seed_draws_the_same_text_and_samples_differ(pine: PositionInvariantChat) -> None:
    from dataclasses import replace

    request = replace(asked(ITEMS[0], swapped=False), temperature=1.0, top_p=0.95, n=3, seed=5)
    first, again = pine.answer(request), pine.answer(request)
    assert [c.text for c in first] == [c.text for c in again]
    assert len({c.text for c in first}) == 3
    assert [c.usage.prompt > 0 for c in first] == [True, False, False]


def test_what_it_cannot_do_is_refused(pine: PositionInvariantChat) -> None:
    from dataclasses import replace

    request = asked(ITEMS[0], swapped=False)
    with pytest.raises(ModelError, match="takes no choices"):
        pine.answer(replace(request, choices=("1", "2")))
    with pytest.raises(ModelError, match=r"exceed engines\.max_model_len=2048"):
        pine.answer(replace(request, max_tokens=2000))
    with pytest.raises(ModelError, match="do not stand in its last message"):
        pine.answer(replace(request, documents=("another text",)))
