"""What a study of MABRF will ask of each model, at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rldf_ray.protocols.mabrf.agents import LIST_TOKENS
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.protocols.study import Estimated

CHARACTERS_A_TOKEN = 4
SKELETON = 200
"""Tokens of a prompt besides the account and the steps."""
CHOICE = 4
"""Tokens of an answer that is the number of an option."""


def estimate(items: Sequence[MabrfItem], settings: MabrfSettings) -> list[Estimated]:
    """Every item through all passes in every arm, every text as long as allowed."""
    calls: Counter[str] = Counter()
    prompt: Counter[str] = Counter()
    generated: Counter[str] = Counter()
    loop = settings.loop

    def ask(
        model: str, times: int, extra: int, written: int, of: Sequence[MabrfItem] = items
    ) -> None:
        accounts = sum(len(item.context) + len(item.question) for item in of) // CHARACTERS_A_TOKEN
        calls[model] += times * len(of)
        prompt[model] += times * (accounts + (SKELETON + extra) * len(of))
        generated[model] += times * written * len(of)

    said = loop.max_tokens
    searching = len(settings.searching)
    results = loop.searched * loop.hits * loop.hit_tokens
    if settings.kind == "squad":
        plain = sum("search" not in arm and arm != "empty" for arm in settings.squad.arms)
        reading = plain + searching * sum("search" in arm for arm in settings.squad.arms)
        ask(settings.solver, reading, said, settings.squad.max_tokens)
        ask(settings.searcher, 2 * searching, 0, LIST_TOKENS)
        ask(settings.searcher, searching, results, said)
    else:
        arms, passes = len(settings.searches), loop.max_passes
        verdicts = 1 + loop.retests + arms * passes
        ask(settings.solver, 1, 0, said)
        ask(settings.judge, verdicts * (1 + loop.reask), said, said // 2)
        ask(settings.rephraser, arms * passes, 2 * said, said)
        chosen = [item for item in items if item.options]
        free = [item for item in items if not item.options]
        for several, written in ((chosen, CHOICE), (free, said)):
            ask(settings.solver, 1, said, written, several)
            ask(settings.terminator, arms, said, written, several)
        ask(settings.searcher, searching * (passes + 1), said, LIST_TOKENS)
        ask(settings.searcher, searching * passes, results, said)
    return [
        Estimated(speaker=m, calls=n, prompt=prompt[m], generated=generated[m])
        for m, n in calls.items()
        if n
    ]
