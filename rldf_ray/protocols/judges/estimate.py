"""What a study of judges will ask of each model, at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rldf_ray.protocols.judges.settings import JudgesSettings
from rldf_ray.protocols.judges.views import JudgedItem
from rldf_ray.protocols.study import Estimated

CHARACTERS_A_TOKEN = 4
SKELETON = 350
"""Tokens of a prompt besides question, answers and history."""


def estimate(items: Sequence[JudgedItem], settings: JudgesSettings) -> list[Estimated]:
    """Every text as long as the settings allow, and every verdict asked for again."""
    views = len(settings.conditions) - ("rerun" in settings.conditions) * (1 - settings.reruns)
    answers = sum(len(i.question) + len(i.answer1) + len(i.answer2) for i in items)
    read = SKELETON * len(items) + answers / CHARACTERS_A_TOKEN
    calls: Counter[str] = Counter()
    prompt: Counter[str] = Counter()

    def ask(model: str, history: float, times: int = 1 + settings.reask) -> None:
        calls[model] += len(items) * views * times
        prompt[model] += round(views * times * (read + len(items) * history))

    said = settings.max_tokens
    for model in settings.alone:
        ask(model, 0)
    for model in settings.alone if settings.plain else ():
        ask(model, 0)
    for judge, critic in settings.debates:
        for number in range(1, settings.rounds + 1):
            heard = 1 if settings.critic_view == "last_judge" else 2 * number - 1
            ask(critic, heard * said, times=1)
            ask(judge, 2 * number * said)
    for judge, pool in settings.above_pools():
        for _ in settings.meta.modes:
            ask(judge, len(pool) * said)
    generated = {model: float(number * said) for model, number in calls.items()}
    writer = settings.verbosity.generator
    if writer is not None and "verbosity" in settings.conditions:
        lacking = [i for i in items if i.answer2_long is None]
        calls[writer] += len(lacking)
        texts = sum(len(i.question) + len(i.answer2) for i in lacking)
        prompt[writer] += SKELETON * len(lacking) + texts // CHARACTERS_A_TOKEN
        generated[writer] = generated.get(writer, 0) + len(lacking) * settings.verbosity.max_tokens
    return [
        Estimated(speaker=m, calls=n, prompt=prompt[m], generated=generated[m])
        for m, n in calls.items()
    ]
