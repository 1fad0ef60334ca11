"""Ranking on a shared tree gives what reading every prompt and answer anew gives."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

from rldf_ray.evaluate.bbq.prompt import ItemPrompt, ask
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.evaluate.ranking.prefix_tree import TokenQuestion
from rldf_ray.evaluate.ranking.ranking import rank_answers, rank_options, reads_trees
from rldf_ray.evaluate.ranking.scores import best_option
from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.embedded import embedded_model_folder
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQError

ITEMS = load_bbq(SCENES, None, 4, 0).items[:8]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_folder())
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def ranked(
    folder: Path, asked: list[ItemPrompt], tokens: int, summed: bool = False
) -> dict[int, tuple[float, ...]]:
    found: dict[int, tuple[float, ...]] = {}
    settings: dict[str, Any] = {"device": "cpu", "dtype": "float32", "threads": 1}
    for part in rank_answers(folder, asked, tokens=tokens, summed=summed, **settings):
        found |= part
    return found


def plainly(folder: Path, asked: ItemPrompt, summed: bool = False) -> list[float]:
    """Every answer after a prompt of its own, in one ordinary forward pass each."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompt = ChatTemplate(tokenizer).prompt_ids(asked.messages)
    scores = []
    for text in asked.answers:
        answer = tokenizer.encode(text, add_special_tokens=False)
        with torch.no_grad():
            logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        logprobs = logits.log_softmax(-1)[range(len(answer)), answer]
        scores.append(float(logprobs.sum() if summed else logprobs.mean()))
    return scores


@pytest.mark.parametrize("mode", ["rank", "letter"])
@pytest.mark.parametrize("tokens", [1, 200, 10_000])
def test_a_shared_tree_gives_the_plain_scores(tiny_model: Path, mode: Any, tokens: int) -> None:
    asked = [ask(item, mode) for item in ITEMS]
    found = ranked(tiny_model, asked, tokens)
    assert sorted(found) == list(range(len(asked)))
    for place, one in enumerate(asked):
        assert found[place] == pytest.approx(plainly(tiny_model, one), abs=1e-5)


def test_a_sum_is_the_likelihood_of_the_whole_answer(tiny_model: Path) -> None:
    asked = [ask(item, "rank_sum") for item in ITEMS[:4]]
    assert asked == [ask(item, "rank") for item in ITEMS[:4]]
    found = ranked(tiny_model, asked, 200, summed=True)
    for place, one in enumerate(asked):
        assert found[place] == pytest.approx(plainly(tiny_model, one, summed=True), abs=1e-4)


def test_items_are_ranked_as_published_in_the_training_template(tiny_model: Path) -> None:
    settings: dict[str, Any] = {"device": "cpu", "dtype": "float32", "threads": 1, "tokens": 300}
    found: dict[int, Any] = {}
    for part in rank_options(tiny_model, ITEMS, **settings):
        found |= part
    assert found == ranked(tiny_model, [ask(item, "rank") for item in ITEMS], 300)


def test_the_first_part_says_that_the_model_is_loaded(tiny_model: Path) -> None:
    settings: dict[str, Any] = {"device": "cpu", "dtype": "float32", "threads": 1, "tokens": 300}
    first, *others = rank_options(tiny_model, ITEMS, **settings)
    assert first == {} and all(others)


def test_an_order_moves_the_scores_along(tiny_model: Path) -> None:
    straight = ranked(tiny_model, [ask(ITEMS[0], "rank")], 300)[0]
    turned = ranked(tiny_model, [ask(ITEMS[0], "rank", (2, 0, 1))], 300)[0]
    assert turned == pytest.approx([straight[2], straight[0], straight[1]], abs=1e-5)


def test_a_model_that_mixes_branches_is_noticed_and_read_one_by_one(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer with a running state passes what it read on, whatever the mask says."""
    from transformers import LlamaForCausalLM

    plain = LlamaForCausalLM.forward

    def leaking(self: Any, input_ids: Any, **options: Any) -> Any:
        before = torch.cumsum(input_ids, 1) % 50  # all tokens before, of other branches as well
        return plain(self, before, **options)

    model = LlamaForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    question = TokenQuestion(0, [5, 6, 7], [[8, 9, 3], [10, 11, 4]])
    assert reads_trees(model, question)
    monkeypatch.setattr(LlamaForCausalLM, "forward", leaking)
    monkeypatch.setattr("rldf_ray.evaluate.ranking.ranking.MOST_DIFFERENCE", 1e-4)
    assert not reads_trees(model, question)
    asked = [ask(item, "rank") for item in ITEMS[:2]]
    # Read one by one, nothing depends on how much would fit into a tree.
    assert ranked(tiny_model, asked, 1) == ranked(tiny_model, asked, 10_000)


def test_an_empty_answer_is_an_error(tiny_model: Path) -> None:
    asked = ItemPrompt(({"role": "user", "content": "Who?"},), ("", "b", "c"), (0, 1, 2))
    with pytest.raises(BBQError, match="has no token"):
        ranked(tiny_model, [asked], 100)


def test_the_most_likely_option_is_the_prediction() -> None:
    assert best_option((-2.0, -1.0, -3.0)) == 1
    assert best_option((-1.0, -1.0, -3.0)) == 0


def test_ray_can_stream_what_is_ranked() -> None:
    assert inspect.isgeneratorfunction(rank_options)


def test_a_broken_model_gives_no_answers(tiny_model: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    torch.nn.init.constant_(model.get_output_embeddings().weight, float("nan"))
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    with pytest.raises(BBQError, match="not finite"):
        ranked(tmp_path, [ask(item, "rank") for item in ITEMS], 64)
