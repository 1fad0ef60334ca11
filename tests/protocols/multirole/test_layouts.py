"""Both layouts say the same; only `shared` lets debaters and rounds share their prompts."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import takewhile

import pytest

from rldf_ray.protocols.multirole.debate import MultiRoleDebate
from rldf_ray.protocols.multirole.debater import Debater
from rldf_ray.protocols.multirole.layouts import Layout, debate_examples, system_prompt
from rldf_ray.records import Context
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.unknown import UNKNOWN, Wordings, two_wordings
from tests.fakes import RecordingModel

LAYOUTS: tuple[Layout, ...] = ("shared", "paper")


def prompts(layout: Layout, rounds: int = 3, examples: int = 0) -> dict[str, str]:
    """What every turn was asked with, by address, as one text."""
    # The same statements whatever was asked, so that the layouts can be compared.
    model = RecordingModel(lambda r: f"Said at {r.address}." if "/role/" in r.address else None)
    table = bias_type("age").identities[:3]
    debaters = [
        Debater(
            identity=identity,
            model=model,
            max_tokens=48,
            temperature=1.0,
            top_p=0.95,
            seed=5,
            layout=layout,
            table=table,
            examples=examples,
        )
        for identity in table
    ]
    protocol = MultiRoleDebate(rounds, "simultaneous", "said")
    asyncio.run(
        protocol.hold(Context("Should cats vote"), debaters, PromptedReferee(model, 5), "d")
    )
    return {r.address: "\n".join(m.content for m in r.messages) for r in model.asked("/role/")}


def test_both_layouts_say_the_same_in_another_order() -> None:
    shared, paper = prompts("shared"), prompts("paper")
    for address in shared:
        assert sorted(shared[address].replace("\n", " ").split()) == sorted(
            paper[address].replace("\n", " ").split()
        )


@pytest.mark.parametrize("number", [2, 3])
def test_shared_debaters_have_all_but_their_turn_in_common(number: int) -> None:
    asked = prompts("shared")
    texts = [asked[f"d/round/{number}/role/{seat}"] for seat in range(3)]
    turn = max(len(text.rpartition("\n\n")[2]) for text in texts)
    common = list(takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False)))
    assert len(common) >= len(texts[0]) - turn


def test_a_shared_round_begins_with_the_whole_round_before() -> None:
    asked = prompts("shared")
    before, after = asked["d/round/2/role/0"], asked["d/round/3/role/2"]
    assert after.startswith(before.rpartition("\n\n")[0])


def test_the_role_stands_before_the_topic_in_the_papers_layout() -> None:
    for layout in LAYOUTS:
        for seat, identity in enumerate(bias_type("age").identities[:3]):
            text = prompts(layout, rounds=1)[f"d/round/1/role/{seat}"]
            first = text.index(f"You are {identity.article} {identity.name}") < text.index("cats")
            assert first == (layout == "paper")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everybody_at_the_table_is_told_of_before_the_topic(layout: Layout) -> None:
    text = prompts(layout, rounds=1)["d/round/1/role/1"]
    for identity in bias_type("age").identities[:3]:
        assert text.index(f"{identity.name}: {identity.background}") < text.index("cats")


@pytest.mark.parametrize("wordings", UNKNOWN)
def test_judgement_debates_name_two_wordings_each_and_all_equally_often(wordings: Wordings) -> None:
    listed = UNKNOWN[wordings]
    prompts = [
        system_prompt((), 0, "judgement", two_wordings(wordings, start))
        for start in range(3 * len(listed))
    ]
    named = [[words for words in listed if f'"{words}"' in prompt] for prompt in prompts]
    assert {len(words) for words in named} == {2}
    assert set(Counter(words for two in named for words in two).values()) == {6}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_examples_no_prompt_speaks_of_other_debates(layout: Layout) -> None:
    assert not any("other debates" in text for text in prompts(layout).values())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("number", [1, 3])
def test_examples_stand_before_all_that_differs_between_debates(
    layout: Layout, number: int
) -> None:
    shown, hidden = debate_examples(6)[:number], debate_examples(6)[number:]
    without, asked = prompts(layout), prompts(layout, examples=number)
    table = "People who may sit at the table:"
    for address, text in asked.items():
        for example in shown:
            words = f"{example.topic}: {example.text} [mark {example.score:.1f}]"
            assert text.index(words) < text.index(table)
        assert not any(example.text in text for example in hidden)
        # The rest of the prompt is as it is without them.
        assert text[text.index(table) :] == without[address][without[address].index(table) :]
    assert len({text[: text.index(table)] for text in asked.values()}) == 1
