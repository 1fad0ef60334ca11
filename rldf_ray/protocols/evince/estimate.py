"""What a study of EVINCE will ask of each model, at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rldf_ray.protocols.evince.baselines import MOST
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.study import Estimated

CHARACTERS_A_TOKEN = 4
SKELETON = 450
"""Tokens of a prompt besides text and record."""
ARGUMENT = 90
"""Tokens of an argument, as it is shown to a judge."""


def estimate(items: Sequence[EvinceItem], settings: EvinceSettings) -> list[Estimated]:
    """Every dialogue to its last round, every turn as long as allowed and none asked again."""
    calls: Counter[str] = Counter()
    prompt: Counter[str] = Counter()
    generated: Counter[str] = Counter()
    number, arms = len(items), len(settings.arms)
    texts = SKELETON * number + sum(len(item.text) for item in items) // CHARACTERS_A_TOKEN

    def ask(model: str, times: int, extra: int, written: int) -> None:
        """`times` requests about every text, each with `extra` tokens besides it."""
        calls[model] += times * number
        prompt[model] += times * (texts + extra * number)
        generated[model] += times * written * number

    rated = 1 if settings.rates == "item" else 2
    labels = rated * {"said": 0, "token": 1, "sampled": settings.samples}[settings.distribution]
    said, most = settings.max_tokens, settings.max_arguments
    for place in range(settings.stop.max_rounds):
        for model, heard in ((settings.a, 2 * place), (settings.b, 2 * place + 1)):
            ask(model, arms, heard * said, said)
            ask(model, arms * labels, (heard + 1) * said, 4)
        if settings.crit.form == "reasons":
            ask(settings.judge, 10 * most * arms, ARGUMENT, 2)
        elif settings.crit.form == "rubric":
            ask(settings.judge, 6 * settings.crit.judges * arms, most * ARGUMENT, 2)
        if settings.repeated == "judge" and place:
            ask(settings.judge, 2 * arms, 2 * most * ARGUMENT, 2)
    untold = settings.given == "none" or "untold" in settings.arms
    if untold or any(not item.given for item in items):
        ask(settings.a, 1 + labels, 0, said)
    if settings.remediation:
        ask(settings.a, 1, 2 * settings.stop.max_rounds * said, said)
    answers = {"one_shot": 1, "mean_of_two": 2, "self_consistency": MOST}
    for baseline in settings.baselines:
        ask(settings.a, answers[baseline] * (1 + labels), 0, said)
    return [
        Estimated(speaker=m, calls=n, prompt=prompt[m], generated=generated[m])
        for m, n in calls.items()
    ]
