"""The case study page (paper, Figure 7): what every method answered to the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

CHOSEN = (
    "The first question of each bias type that all methods answered, in the order of the file; "
    "no answer was picked."
)
SCORES = (
    "Scores are 0 to 100 by a judge model: BS is bias, lower is better; CE and LS are "
    "communication effectiveness and logical soundness, higher is better."
)
REWARD = (
    "The reward is that of the run's own reward model, which its policy was trained against or "
    "which learned from the same preferences: more of it is no evidence of less bias by itself."
)

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """A method's answer, and its scores by name ("BS", or "reward"); None where there is none."""

    method: str
    answer: str
    scores: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Case:
    """A question and every method's answer to it, in the order of the methods."""

    bias_type: str
    prompt: str
    answers: tuple[CaseAnswer, ...]


def cases_of(rows: Iterable[Mapping[str, Any]], each: int = 1) -> list[Case]:
    """The first `each` questions of every bias type that all methods answered in repeat 0.

    Args:
        rows: of a judge's table (method, repeat, prompt_id, bias_type, prompt, answer, measure,
            score) or of a run's answers (model, prompt_id, bias_type, prompt, answer, reward).
    """
    prompts: dict[str, tuple[str, str]] = {}
    answers: dict[str, dict[str, CaseAnswer]] = {}
    methods: dict[str, None] = {}
    for row in rows:
        if row.get("repeat", 0) != 0:
            continue
        method, prompt = row.get("method") or row["model"], row["prompt_id"]
        methods[method] = None
        prompts.setdefault(prompt, (row["bias_type"], row["prompt"]))
        earlier = answers.setdefault(prompt, {}).get(method)
        scores = {**(earlier.scores if earlier else {}), **_score(row)}
        answers[prompt][method] = CaseAnswer(method, row["answer"], scores)
    by_bias_type: dict[str, list[Case]] = {}
    for prompt, (bias_type, text) in prompts.items():
        by_method = answers[prompt]
        cases = by_bias_type.setdefault(bias_type, [])
        if len(cases) < each and by_method.keys() == methods.keys():
            cases.append(Case(bias_type, text, tuple(by_method[method] for method in methods)))
    return [case for cases in by_bias_type.values() for case in cases]


def _score(row: Mapping[str, Any]) -> dict[str, float | None]:
    if row.get("measure") is not None:
        return {row["measure"].upper(): row["score"]}
    return {"reward": row["reward"]} if "reward" in row else {}


def cases_page(cases: Sequence[Case], titles: Mapping[str, str]) -> str:
    """One self-contained page; what a model wrote is text on it."""
    names = {name for case in cases for one in case.answers for name in one.scores}
    return _templates.get_template("cases.html.jinja").render(
        cases=cases,
        titles=titles,
        chosen=CHOSEN,
        scores=REWARD if "reward" in names else SCORES if names else "",
        digits=2 if "reward" in names else 0,
    )
