"""What a study of persuasion will ask of each model, at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rldf_ray.protocols.persuasion.matches import most_matches
from rldf_ray.protocols.persuasion.settings import (
    DebaterSection,
    LengthSection,
    PersuasionSettings,
)
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.protocols.study import Estimated

CHARACTERS_A_TOKEN = 4
TOKENS_A_WORD = 2
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

    def turns(debater: DebaterSection, times: int, speakers: int, most: int) -> None:
        """All turns of one side, whose arguments have `most` tokens."""
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

    def verdicts(judge: str, story: bool, heard: int) -> None:
        """One in either position."""
        if settings.reasons_first:
            ask(judge, 2, story, heard, 1, settings.judge_tokens)
            heard += settings.judge_tokens
        ask(judge, 2, story, heard, 1, 1)

    def dialogues(
        sides: Sequence[DebaterSection], length: LengthSection, asker: str | None, times: int
    ) -> None:
        """A debate or consultancy, held so many times, and judged in both positions."""
        most = TOKENS_A_WORD * length.most
        heard = len(sides) * settings.rounds * most
        for debater in sides:
            turns(debater, times, len(sides), most)
        judges = settings.judges if asker is None else (asker,)
        # After the last round the verdict serves where it is not thought about.
        aside = settings.rounds if settings.reasons_first else settings.rounds - 1
        for judge in judges:
            verdicts(judge, False, heard)
            ask(judge, 2 * aside, False, heard, 1, 1)
        # Whether a side conceded.
        ask(judges[0], times * len(sides), False, heard, 1, 1)
        if asker is not None:
            asked = times * (settings.rounds - 1)
            ask(asker, asked, False, heard, 1, settings.judge_tokens)

    if "naive" in settings.protocols:
        for judge in settings.judges:
            verdicts(judge, False, 0)
    if "expert" in settings.protocols:
        for judge in dict.fromkeys(settings.expert or judge for judge in settings.judges):
            verdicts(judge, True, 0)
    for interactive in settings.interactive:
        twice = 2 if interactive or settings.order == "sequential" else 1
        for asker in settings.judges if interactive else (None,):
            if "debate" in settings.protocols:
                for one, other in most_matches(settings):
                    sides = [settings.debaters[one], settings.debaters[other]]
                    dialogues(sides, settings.debate_length, asker, twice)
            if "consultancy" in settings.protocols:
                for debater in 2 * list(settings.debaters.values()):
                    length = settings.consultancy_length
                    dialogues([debater], length, asker, 2 if interactive else 1)
    return [
        Estimated(speaker=m, calls=n, prompt=prompt[m], generated=generated[m])
        for m, n in calls.items()
    ]
