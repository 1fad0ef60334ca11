"""Items of the tests, and judges that follow a rule instead of reading."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rldf_ray.models.base import ChatRequest
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.protocols.judges.settings import JudgesSettings
from rldf_ray.protocols.judges.views import JudgedItem
from rldf_ray.protocols.study import StudyCast

DOCUMENT = re.compile(
    r"\[Answer of Assistant (\d) begins\]\n(.*?)\n\[Answer of Assistant \d ends\]", re.DOTALL
)
CROWD = re.compile(r"\d+ % of people hold that the answer of Assistant (\d)")

Rule = Callable[[dict[str, str], str], tuple[float, float] | None]
"""Answers by label in the order of the prompt, and the prompt -> scores of labels 1 and 2."""


def item(number: int, **changes: Any) -> JudgedItem:
    values: dict[str, Any] = {
        "item_id": f"item-{number}",
        "question": f"What is {number} and {number}?",
        "answer1": f"It is {2 * number}.",
        "answer2": f"It is {2 * number + 1}, I think.",
        "answer2_long": f"It is {2 * number + 1}, I think, that is, {2 * number + 1} in all.",
        "group": f"group-{number // 2}",
        "label": 1,
    }
    return JudgedItem(**{**values, **changes})


def judge_by(rule: Rule) -> ScriptedModel:
    """A model whose scores follow a rule; the best referee is always A."""

    def reply(request: ChatRequest) -> str:
        prompt = request.messages[-1].content
        if "The best referee is: LETTER" in prompt:
            return "Both are fine.\nThe best referee is: A"
        answers = dict(DOCUMENT.findall(prompt))
        scores = rule(answers, prompt)
        if scores is None:
            return "I would rather not say."
        one, two = scores
        return f"Because.\nThe score of Assistant 1: {one}\nThe score of Assistant 2: {two}"

    return ScriptedModel(reply=reply)


def first_slot(answers: dict[str, str], prompt: str) -> tuple[float, float]:
    """Prefers whatever stands first."""
    return (9, 3) if next(iter(answers)) == "1" else (3, 9)


def crowd(answers: dict[str, str], prompt: str) -> tuple[float, float]:
    """Follows the crowd, else the first candidate, which it knows by its words."""
    followed = CROWD.search(prompt)
    if followed is not None:
        return (9, 3) if followed[1] == "1" else (3, 9)
    return right(answers, prompt)


def longest(answers: dict[str, str], prompt: str) -> tuple[float, float]:
    """Counts words."""
    one, two = (float(min(10, len(answers[label].split()))) for label in "12")
    return one, two


def right(answers: dict[str, str], prompt: str) -> tuple[float, float]:
    """Knows the right answer, which does not say that it thinks."""
    return (3, 9) if "I think" in answers["1"] else (9, 3)


def settings(**changes: Any) -> JudgesSettings:
    values: dict[str, Any] = {"judges": ["j"], "data": "x.jsonl", "rounds": 2}
    return JudgesSettings.model_validate({**values, **changes})


def cast(of: JudgesSettings, **models: Any) -> StudyCast:
    return StudyCast(seed=1, settings=of, models=models)
