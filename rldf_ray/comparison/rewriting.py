"""MABRF as a method: the model reasons, its reasoning is judged and rewritten, then it answers.

One model plays all roles. What it answers by are the best steps (`protocols/mabrf/loop.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from rldf_ray.comparison.thinking import Scene, Think, Thinker, Thought, render, sampling_of
from rldf_ray.models.base import Message
from rldf_ray.plan import Plan
from rldf_ray.protocols.mabrf.agents import Agents
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.loop import Rewritten, Solved, rewrite
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.protocols.seats import Seats
from rldf_ray.search.backend import SearchBackend, opened

ARM, WITH_SEARCH = "loop", "search"
"""What begins the addresses of the loop; rows share those before it, and one journal."""
PROMPTS = "protocols/mabrf/"


def thinking(corpus: str | None) -> Think:
    """The loop, looking evidence up in a corpus or folder of texts where one is given."""

    async def think(thinker: Thinker, scene: Scene) -> Thought:
        address = f"{thinker.scope}/{scene.group}/{scene.name}"
        agents = Agents(
            item=MabrfItem(
                item_id=address,
                group=scene.family,
                context=scene.context,
                question=scene.question,
                options=tuple(text for _, text in scene.options),
            ),
            settings=MabrfSettings(),
            seats=Seats(item=address, models={"model": thinker.model}, seed=thinker.seed),
            search=None if corpus is None else _corpus(corpus),
        )
        steps = await agents.steps()
        verdict = await agents.judge(steps, "first") if steps else None
        solved = Solved(steps=steps, answer=None, verdict=verdict)
        found = await rewrite(agents, solved, ARM if corpus is None else WITH_SEARCH)
        best = found.steps
        shown = {"question": scene.question, "options": scene.options}
        question = Message("user", render("cot_think", context=scene.context, **shown))
        again = Message("user", render("answer_after", **shown))
        return Thought(best, (question, Message("assistant", best), again), _counts(solved, found))

    return think


def _counts(solved: Solved, found: Rewritten) -> dict[str, int]:
    """Whether a rewriting was taken, and how many verdicts, of them all, did not parse.

    A loop whose judge finds no bias, or cannot be read, ends with the steps that it began with.
    """
    judged = [(solved.steps, solved.verdict)]
    judged += [(one.candidate, one.verdict) for one in found.passes]
    return {
        "loops": 1,
        "rewritten": int(any(one.accepted for one in found.passes)),
        "no_verdict": sum(bool(text) and verdict is None for text, verdict in judged),
    }


def depends(plan: Plan, seed: int, scenes: Sequence[Scene]) -> tuple[object, ...]:
    """The plan's own prompts for MABRF, where it has some.

    Steps have limits of their own: `debate.max_tokens` only keeps the hash of finished answers.
    """
    texts = (plan.prompts or {}).items()
    own = sorted((name, text) for name, text in texts if name.startswith(PROMPTS))
    return (*sampling_of(plan, plan.debate.max_tokens), *([own] if own else []))


def corpus_digest(corpus: str) -> str:
    """The digest of a corpus or folder of texts, which answers depend on.

    Raises:
        SearchError: there is none.
    """
    return _corpus(corpus).digest


@cache
def _corpus(corpus: str) -> SearchBackend:
    return opened(f"local:{corpus}")
