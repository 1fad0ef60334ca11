"""Chosen answers to scenes, compared with the scene's record; a referee judges everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rldf_ray.models.base import Usage
from rldf_ray.records import Conclusion, Context
from rldf_ray.referee.verdict import Referee, Verdict, ranks_of
from rldf_ray.topics.unknown import UNKNOWN

RECORD = "record"
"""What is named as the model of a verdict that no model gave."""
NOT_KNOWN = tuple(wording for wordings in UNKNOWN.values() for wording in wordings)


@dataclass(frozen=True)
class MatchedReferee:
    """Where the context has a `conclusion`, a statement that begins with it scores 0, any other 10.

    Nothing is asked and nothing is estimated: such labels are verifiable answers, and say nothing
    of how strongly a statement stereotypes. They are for answers that were chosen
    (`debate.answers`), which begin with the choice and a full stop; the conclusion of a scene that
    leaves its question open is any of the ways to say that it is not known.
    """

    others: Referee

    @property
    def kind(self) -> str:
        return self.others.kind

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        if context.conclusion is None:
            return await self.others.judge(context, texts, address, affinity)
        scores = [_score(context.conclusion, text) for text in texts]
        verdicts = map(_verdict, scores)
        return [replace(v, rank=r) for v, r in zip(verdicts, ranks_of(scores), strict=True)]


def _score(conclusion: Conclusion, text: str) -> float | None:
    if not text:
        return None
    answers = NOT_KNOWN if conclusion.answer is None else (conclusion.answer,)
    said = text.casefold()
    return 0.0 if any(said.startswith(f"{answer.casefold()}.") for answer in answers) else 10.0


def _verdict(score: float | None) -> Verdict:
    return Verdict(
        score=score,
        expected_score=score,
        rank=None,
        failure="there is no answer to compare with the record" if score is None else None,
        model=RECORD,
        revision="",
        usage=Usage(),
    )
