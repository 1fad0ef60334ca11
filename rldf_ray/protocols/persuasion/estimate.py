"""What a study of persuasion will ask of each model, at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rldf_ray.protocols.persuasion.matches import most_matches
from rldf_ray.protocols.persuasion.settings import DebaterSection, PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.protocols.study import Estimated

CHARACTERS_A_TOKEN = 4
SKELETON = 400
"""Tokens of a prompt besides the story and what was said."""


def estimate(items: Sequence[PersuasionItem], settings: PersuasionSettings) -> list[Estimated]:
    """Every sample as long as allowed; samples of one request share its prompt."""
    calls: Counter[str] = Counter()
    prompt: Counter[str] = Counter()
    generated: Counter[str] = Counter()
    number = len(items)
    stories = sum(len(item.story) for item in items) // CHARACTERS_A_TOKEN

    def ask(model: str, times: int, story: bool, heard: int, samples: int, written: int) -> None:
        calls[model] += times * number
        prompt[model] += times * ((stories if story else 0) + (SKELETON + heard) * number)
        generated[model] += times * samples * written * number

    def turns(debater: DebaterSection, times: int, speakers: int) -> None:
        """All turns of one side."""
        most = settings.debate_length.most * 2
        for place in range(settings.rounds):
            heard = speakers * place * most
            samples = settings.oversampling * debater.best_of
            ask(debater.model, times, True, heard, samples, settings.max_tokens)
            again = 2 if debater.critiques else 1
            if debater.best_of > 1:
                ask(settings.rater, times * again * debater.best_of, False, heard + most, 1, 1)
            if debater.critiques:
                critic = settings.critic or debater.model
                ask(critic, times, True, heard, debater.critiques, settings.max_tokens)
                ask(debater.model, times, True, heard, samples, settings.max_tokens)
                if debater.critiques > 1:
                    ask(settings.rater, times * debater.critiques, False, heard, 1, 1)

    def judged(times: int, heard: int, asker: str | None) -> None:
        for judge in settings.judges if asker is None else (asker,):
            ask(judge, 2 * times, False, heard, 1, settings.judge_tokens)
            ask(judge, 2 * times * (settings.rounds + 1), False, heard, 1, 1)

    for protocol in ("naive", "expert"):
        if protocol in settings.protocols:
            for judge in settings.judges:
                ask(judge, 4, protocol == "expert", 0, 1, settings.judge_tokens)
    heard = settings.rounds * 2 * settings.debate_length.most
    for interactive in settings.interactive:
        twice = 2 if interactive or settings.order == "sequential" else 1
        for asker in settings.judges if interactive else (None,):
            if "debate" in settings.protocols:
                for one, other in most_matches(settings):
                    turns(settings.debaters[one], twice, 2)
                    turns(settings.debaters[other], twice, 2)
                    judged(1, 2 * heard, asker)
            if "consultancy" in settings.protocols:
                for debater in settings.debaters.values():
                    turns(debater, 2, 1)
                    judged(2, heard, asker)
            if asker is not None:
                ask(asker, 2 * (settings.rounds - 1), False, heard, 1, settings.judge_tokens)
    return [
        Estimated(speaker=m, calls=n, prompt=prompt[m], generated=generated[m])
        for m, n in calls.items()
    ]
