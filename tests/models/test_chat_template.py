"""What a template makes of a chat is what trainer, scorer, engine and server make of it."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoTokenizer

from rldf_ray.models.chat_template import (
    AnsweredChat,
    ChatTemplate,
    ChatTemplateError,
    chat_template,
)
from rldf_ray.train.reward import _encode
from rldf_ray.train.sft import NO_LOSS, encode

ASKED = [{"role": "user", "content": "Who should lead?"}]
ANSWER = "The one who knows it best."
TURNS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
)
THINKS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
OPENS_THOUGHT = TURNS + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
BOTH = THINKS.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}" + TURNS + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DROPS_SYSTEM = (
    "{% for m in messages if m['role'] != 'system' %}<|im_start|>{{ m['role'] }}\n"
    "{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BLANK = (
    "{% for m in messages %}{% if m['role'] == 'assistant' %}Assistant: {{ m['content'] }}\n\n"
    "{% else %}User: {{ m['content'] }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
NO_END = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
ALL = {
    "thinks": THINKS,
    "opens a thought": OPENS_THOUGHT,
    "both": BOTH,
    "no system": NO_SYSTEM,
    "drops system": DROPS_SYSTEM,
    "blank": BLANK,
    "no end": NO_END,
}


@pytest.fixture(scope="module")
def embedded() -> Any:
    return chat_template("embedded").tokenizer


@pytest.fixture
def tokenizer(embedded: Any) -> Any:
    """The embedded model's, whose template a test may change."""
    before = embedded.chat_template
    yield embedded
    embedded.chat_template = before


def rendered(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    text: str = tokenizer.apply_chat_template(messages, tokenize=False)
    return text


@pytest.mark.parametrize("name", ALL)
def test_what_is_scored_and_learned_is_what_the_template_renders(tokenizer: Any, name: str) -> None:
    tokenizer.chat_template = ALL[name]
    template = ChatTemplate(tokenizer)
    whole = [*ASKED, {"role": "assistant", "content": ANSWER}]
    expected = rendered(tokenizer, whole) + template.added_end
    chat = template.answered(ASKED, ANSWER)
    assert tokenizer.decode(chat.ids) == expected
    assert tokenizer.decode(chat.answer).strip() == ANSWER
    row = {"prompt": ASKED, "completion": whole[1:], "chosen": whole[1:], "rejected": whole[1:]}
    assert _encode(row, template, 512)["chosen_ids"] == chat.ids
    learned = encode(row, template)
    assert learned["input_ids"] == chat.ids
    ids = [i for i in learned["labels"] if i != NO_LOSS]
    assert ids == chat.ids[-len(ids) :] and ids[-len(chat.closing) :] == chat.closing
    assert ANSWER in tokenizer.decode(ids) and "lead?" not in tokenizer.decode(ids)


@pytest.mark.parametrize("name", ALL)
def test_what_an_engine_said_is_scored_as_the_template_renders_it(
    tokenizer: Any, name: str
) -> None:
    tokenizer.chat_template = ALL[name]
    template = ChatTemplate(tokenizer)
    prompt, thought = template.prompt_ids(ASKED), ""
    if "<think>" in ALL[name]:
        thought = "They may mean the team.\n</think>\n\n"
        thought = thought if template.opened or name == "both" else f"<think>\n{thought}"
    said = tokenizer.encode(thought + template.before[-1:].strip("\n") + ANSWER)
    expected = template.answered(ASKED, ANSWER)
    for end in ([], [tokenizer.eos_token_id], template.closing):
        found = template.finished(prompt, [*said, *end])
        assert tokenizer.decode(found.ids) == tokenizer.decode(expected.ids)
        assert found.closing == expected.closing
    begins = template.answer_begins(ASKED)
    assert tokenizer.decode([*begins, *template.answer_ids(ANSWER), *template.closing]) == (
        tokenizer.decode(expected.ids)
    )


def test_a_thought_that_was_cut_has_no_answer(tokenizer: Any) -> None:
    tokenizer.chat_template = OPENS_THOUGHT
    template = ChatTemplate(tokenizer)
    said = tokenizer.encode("They may mean the")
    found = template.finished(template.prompt_ids(ASKED), said)
    assert found.answer == []
    assert tokenizer.decode(found.prompt).endswith("<|im_start|>assistant\n")


def test_a_thought_that_both_forms_open_and_that_was_cut_has_no_answer(tokenizer: Any) -> None:
    tokenizer.chat_template = BOTH
    template = ChatTemplate(tokenizer)
    said = tokenizer.encode("They may mean the")
    assert template.begins_thought and not template.opened
    assert template.finished(template.prompt_ids(ASKED), said).answer == []
    assert not template.spoken(said).ended


@pytest.mark.parametrize("special", [True, False])
def test_thinking_is_split_off_what_an_engine_said(special: bool) -> None:
    from rldf_ray.models.embedded import embedded_model_folder

    tokenizer = AutoTokenizer.from_pretrained(embedded_model_folder())
    tokenizer.add_tokens(["<think>", "</think>"], special_tokens=special)
    template = ChatTemplate(tokenizer)
    said = tokenizer.encode(f"<think>Who?\n</think>\n\n{ANSWER}<|im_end|>")
    text = tokenizer.decode(said, skip_special_tokens=True)
    assert ("</think>" in text) is not special
    for given in (text, None):
        spoken = template.spoken(said, given)
        assert (spoken.thinking, spoken.answer, spoken.ended) == ("Who?", ANSWER, True)
    finished = template.finished(template.prompt_ids(ASKED), said)
    assert finished.ids == template.answered(ASKED, ANSWER).ids
    assert not template.spoken(tokenizer.encode("<think>Who")).ended


def test_what_an_engine_said_without_a_thought_stays_as_it_is(tokenizer: Any) -> None:
    template = ChatTemplate(tokenizer)
    assert template.spoken(tokenizer.encode(f" {ANSWER}\n")).answer == f" {ANSWER}\n"
    assert template.spoken([], " as it is\ufffd").answer == " as it is\ufffd"


@pytest.mark.parametrize("name", ["no system", "drops system"])
def test_system_text_goes_into_the_first_users_turn(tokenizer: Any, name: str) -> None:
    tokenizer.chat_template = ALL[name]
    template = ChatTemplate(tokenizer)
    ruled = [{"role": "system", "content": "Be brief."}, *ASKED]
    folded = [{"role": "user", "content": "Be brief.\n\nWho should lead?"}]
    assert template.shown(ruled) == folded
    assert template.prompt_ids(ruled) == template.prompt_ids(folded)
    assert ruled[1]["content"] == "Who should lead?"
    parts = [{"type": "text", "text": "Be brief."}]
    assert template.shown([{"role": "system", "content": parts}, *ASKED]) == folded
    assert template.shown(ruled[:1]) == [{"role": "user", "content": "Be brief."}]
    assert "no system role" in template.describe()


@pytest.mark.parametrize("name", ALL)
def test_a_developer_is_the_system(tokenizer: Any, name: str) -> None:
    tokenizer.chat_template = ALL[name]
    template = ChatTemplate(tokenizer)
    chats = [
        [{"role": role, "content": "Be brief."}, *ASKED, {"role": role, "content": "Be kind."}]
        for role in ("developer", "system")
    ]
    shown = template.shown(chats[0])
    assert shown == template.shown(chats[1])
    assert [message["role"] for message in chats[0]] == ["developer", "user", "developer"]
    assert not any(message["role"] == "developer" for message in shown)
    assert template.prompt_ids(chats[0][:2]) == template.prompt_ids(chats[1][:2])


def test_a_template_with_a_system_role_keeps_it(tokenizer: Any) -> None:
    template = ChatTemplate(tokenizer)
    ruled = [{"role": "system", "content": "Be brief."}, *ASKED]
    assert template.shown(ruled) == ruled
    assert template.describe() == r"an answer ends with '<|im_end|>\n'"


def test_an_end_is_added_and_said_where_there_is_none(tokenizer: Any) -> None:
    tokenizer.chat_template = NO_END
    template = ChatTemplate(tokenizer)
    assert template.closing[-1] == tokenizer.eos_token_id
    assert "'<|im_end|>' is added" in template.describe()


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (None, "no chat template"),
        ("{{ raise_exception('broken') }}", "broken"),
        ("{% for m in messages %}{{ m['content'] | upper }}{% endfor %}", "as they are"),
        (TURNS.replace("<|im_end|>", "{{ messages | length }}<|im_end|>"), "other chats"),
    ],
)
def test_a_template_of_another_form_is_refused(
    tokenizer: Any, template: str | None, problem: str
) -> None:
    tokenizer.chat_template = template
    with pytest.raises(ChatTemplateError, match=f"model m.*{problem}"):
        ChatTemplate(tokenizer, "model m")


def test_cut_on_the_right_keeps_prompt_and_closing() -> None:
    assert AnsweredChat([1, 2, 3], [4, 5, 6, 7], [8, 9]).cut(7) == [1, 2, 3, 4, 5, 8, 9]
    assert AnsweredChat([1, 2, 3], [4], [8, 9]).cut(4) == [1, 2, 3, 8]
