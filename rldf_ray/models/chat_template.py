"""How a model's chats are written: the one place that renders its chat template.

    <user's turn> <assistant's turn begins>|opened|          what an engine is given
    <user's turn> <assistant's turn begins>|before|answer|after|   what the template makes of a chat

Templates differ in `opened` and `before`: reasoning models have an open `<think>` in the first, or
an empty thought in the second, others a blank. Both, and `after`, are read off whole chats that the
template renders, and compared with others that it renders; one that has no such form is refused.
Trainers, scorers, engines and server all go by it, so they agree on what a finished chat is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from more_itertools import longest_common_prefix, split_at

from rldf_ray.errors import UserError
from rldf_ray.models.embedded import resolve_model
from rldf_ray.models.template_values import with_defaults
from rldf_ray.models.thinking import BEGINS, ENDS, Spoken, split_thinking

Messages = Sequence[dict[str, str]]

QUESTION, RULES, ANSWER = "Which question?", "These rules.", "This answer"
ASKED = [{"role": "user", "content": QUESTION}]
RULED = [{"role": "system", "content": RULES}, *ASKED]
AGAIN = [*ASKED, {"role": "assistant", "content": "An earlier one."}, *ASKED]


class ChatTemplateError(UserError):
    """A model has no chat template, or one whose finished chats cannot be told from their parts."""


@dataclass(frozen=True)
class AnsweredChat:
    """A finished chat as token ids, in three parts that follow one another."""

    prompt: list[int]
    answer: list[int]
    closing: list[int]

    @property
    def ids(self) -> list[int]:
        return [*self.prompt, *self.answer, *self.closing]

    def cut(self, length: int) -> list[int]:
        """At most `length` ids, the answer cut on the right.

        The closing ids are kept, so that a scalar is always read at the same place.
        """
        room = max(0, length - len(self.prompt) - len(self.closing))
        return [*self.prompt, *self.answer[:room], *self.closing][:length]


class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        model: whose it is, for messages.
        values: given to the template with every chat (a plan's `chat_template_kwargs`). They become
            its defaults in `tokenizer`: whoever loads a model that is saved with it renders alike.

    Attributes:
        folds_system: whether system messages go into the first user's turn, as it has no place for
            them.
        opened, before, after: text around an answer, as above.
        added_end: the end-of-sequence token where `after` has none to end a turn with.
        closing: ids of `after` and `added_end`.
        written: the template itself, without `values`.
        begins_thought: whether what is generated begins inside a thought.

    Raises:
        ChatTemplateError: there is none, or it is not of this form.
    """

    def __init__(
        self,
        tokenizer: Any,
        model: str = "the model",
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer, self._model = tokenizer, model
        self.written = tokenizer.chat_template
        if not getattr(tokenizer, "chat_template", None):
            raise ChatTemplateError(
                f"{model} has no chat template, so it is a base model: name one that follows "
                "instructions (often called NAME-Instruct), or put a template into its folder as "
                "chat_template.jinja"
            )
        if values:
            tokenizer.chat_template = with_defaults(tokenizer.chat_template, values)
        self.folds_system = not self._keeps_system()
        self.opened, self.before, self.after = self._around_answers()
        last = self.text(ASKED, generate=True).rpartition(QUESTION)[2]
        self.begins_thought = last.rfind(BEGINS) > last.rfind(ENDS)
        special, vocabulary = self._special_ids(), tokenizer.get_vocab()
        # Tags that are left out of texts as other special tokens are.
        self._special_tags = {
            vocabulary[tag]: tag for tag in (BEGINS, ENDS) if vocabulary.get(tag) in special
        }
        for asked in (ASKED, RULED, AGAIN):
            self._compare(asked)
        self.added_end = ""
        self.closing = self.answered(ASKED, ANSWER).closing
        if not set(self.closing) & special:
            if tokenizer.eos_token is None:
                raise self._refusal("ends an answer with no token that a policy could stop at")
            self.added_end = tokenizer.eos_token
            self.closing = self.answered(ASKED, ANSWER).closing

    def describe(self) -> str:
        """What a reader should know of it."""
        remarks = [f"an answer ends with {self.after + self.added_end!r}"]
        if self.added_end:
            remarks.append(f"{self.added_end!r} is added, as the template has no end of a turn")
        if self.folds_system:
            remarks.append("it has no system role: its text goes into the first user's turn")
        if self.opened:
            remarks.append(f"{self.opened!r} is generated after and left out of finished chats")
        if self.before:
            remarks.append(f"{self.before!r} stands before an answer")
        return "; ".join(remarks)

    def shown(self, messages: Messages) -> list[dict[str, str]]:
        """The messages as the template takes them, system text folded where it has to be.

        A developer is the system: templates know one of the two at most, and that one.
        """
        rest = [
            {**message, "role": "system"} if message["role"] == "developer" else dict(message)
            for message in messages
        ]
        if not self.folds_system:
            return rest
        system = [_words(message) for message in rest if message["role"] == "system"]
        rest = [message for message in rest if message["role"] != "system"]
        first = next((message for message in rest if message["role"] == "user"), None)
        if system and first is None:
            rest.insert(0, first := {"role": "user", "content": ""})
        if system and first is not None:
            first["content"] = "\n\n".join(filter(None, [*system, _words(first)]))
        return rest

    def text(self, messages: Messages, *, generate: bool) -> str:
        """A conversation; with `generate`, up to where the assistant is to go on."""
        return self._rendered(self.shown(messages), generate)

    def prompt_ids(self, messages: Messages) -> list[int]:
        """What an engine is given to answer freely."""
        return self._encoded(self.text(messages, generate=True))

    def answer_begins(self, messages: Messages) -> list[int]:
        """A conversation up to the first word of an answer, with no thought left to think."""
        return self._encoded(self._head(messages))

    def answer_ids(self, answer: str) -> list[int]:
        """An answer after `answer_begins`, with the blank that stands before it."""
        blank = self.before[len(self.before.rstrip(" ")) :]
        return self._encoded(blank + answer)

    def answered(self, messages: Messages, answer: str) -> AnsweredChat:
        """A finished chat, tokenized as a whole."""
        head = self._head(messages)
        said = {"role": "assistant", "content": answer}
        whole = self.text([*messages, said], generate=False)
        if not (whole.startswith(head) and whole.endswith(self.after)):
            raise self._refusal(
                f"writes the finished chat as {_end_of(whole)!r}, and what comes before its answer "
                f"as {_end_of(head)!r}"
            )
        ends = len(whole) - len(self.after)
        whole += self.added_end
        read = self.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        bounds = read["offset_mapping"]
        prompt = sum(end <= len(head) for _, end in bounds)
        closing = sum(begin >= ends for begin, _ in bounds)
        ids: list[int] = read["input_ids"]
        last = len(ids) - closing
        return AnsweredChat(ids[:prompt], ids[prompt:last], ids[last:])

    def finished(self, prompt: Sequence[int], said: Sequence[int]) -> AnsweredChat:
        """The finished chat of what an engine was given and what it said, without its thoughts.

        Ids stay as they are where nothing has to be added between the two or left out.
        """
        spoken = self.spoken(said)
        if not self.opened and not self.before and not spoken.thought:
            return AnsweredChat(list(prompt), self._without_end(said), self.closing)
        given = prompt[: len(prompt) - len(self._encoded(self.opened))]
        before = self._encoded(self.before.rstrip(" "))
        return AnsweredChat([*given, *before], self.answer_ids(spoken.answer.strip()), self.closing)

    def spoken(self, said: Sequence[int], text: str | None = None) -> Spoken:
        """The thinking and the answer of what an engine said after `prompt_ids`.

        Args:
            text: of `said`, where an engine has it already; without special tokens.
        """
        tags = self._special_tags
        if text is None or not tags.keys().isdisjoint(said):
            parts = split_at(said, tags.__contains__, keep_separator=True)
            text = "".join(tags.get(part[0]) or self._decoded(part) for part in parts if part)
        return split_thinking(text, begun=self.begins_thought)

    def _head(self, messages: Messages) -> str:
        begun = self.text(messages, generate=True).removesuffix(self.opened)
        # A blank belongs to the token of the word after it.
        return begun + self.before.rstrip(" ")

    def _encoded(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _decoded(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def _without_end(self, said: Sequence[int]) -> list[int]:
        """What was said up to the closing ids, of which an engine gives all, some or none."""
        ids = list(said)
        if ids and ids[-1] == self.tokenizer.eos_token_id:
            ids.pop()
        for number in range(len(self.closing), 0, -1):
            if ids[-number:] == self.closing[:number]:
                return ids[:-number]
        return ids

    def _rendered(self, messages: Messages, generate: bool) -> str:
        from jinja2 import TemplateError

        try:
            text: str = self.tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=generate
            )
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            raise self._refusal(f"does not take messages of {roles}: {error}") from error
        return text

    def _keeps_system(self) -> bool:
        try:
            return RULES in self._rendered(RULED, True)
        except ChatTemplateError:
            self._rendered(ASKED, True)
            return False

    def _around_answers(self) -> tuple[str, str, str]:
        begun = self.text(ASKED, generate=True)
        whole = self.text([*ASKED, {"role": "assistant", "content": ANSWER}], generate=False)
        left, said, after = whole.rpartition(ANSWER)
        shared = "".join(longest_common_prefix([begun, left]))
        if not said or QUESTION not in shared:
            raise self._refusal(f"does not show question and answer as they are: {whole!r}")
        return begun[len(shared) :], left[len(shared) :], after

    def _compare(self, asked: Messages) -> None:
        """What is put together of parts is what the template renders."""
        begun = self.text(asked, generate=True)
        whole = self.text([*asked, {"role": "assistant", "content": ANSWER}], generate=False)
        made = begun.removesuffix(self.opened) + self.before + ANSWER + self.after
        if not begun.endswith(self.opened) or made != whole:
            raise self._refusal(f"writes {whole!r} where other chats of its own make {made!r}")

    def _special_ids(self) -> set[int]:
        added = self.tokenizer.added_tokens_decoder.items()
        return {*self.tokenizer.all_special_ids, *(i for i, token in added if token.special)}

    def _refusal(self, what: str) -> ChatTemplateError:
        return ChatTemplateError(
            f"{self._model}: its chat template {what}; mend it (chat_template.jinja in the model's "
            "folder), or name another model"
        )


def chat_template(model: str, values: Mapping[str, Any] | None = None) -> ChatTemplate:
    """The chat template of anything that `resolve_model` takes."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolve_model(model))
    return ChatTemplate(tokenizer, f"model {model}", values)


def _words(message: dict[str, Any]) -> str:
    """The text of a message, which an OpenAI client may send in parts."""
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _end_of(text: str) -> str:
    return text if len(text) <= 200 else f"...{text[-200:]}"
