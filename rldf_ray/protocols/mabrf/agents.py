"""The roles of MABRF, each with its own view of an item (the paper, section 4)."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.prompts import prompts_beside
from rldf_ray.protocols.mabrf.evidence import (
    Evidence,
    Found,
    Searched,
    ordered,
    present,
    same_title,
    snippet,
)
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.lists import ListName, list_schema, parse_list
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.protocols.mabrf.verdict import SCHEMA, Verdict, parse_verdict
from rldf_ray.protocols.seats import Seats
from rldf_ray.search.backend import Hit, SearchBackend, SearchError

render = prompts_beside(__file__)
log = logging.getLogger(__name__)

CHARACTERS_A_TOKEN = 4
LIST_TOKENS = 160
MOST_HITS = 256
"""Asked for at most, where an item's own article does not count."""
_NUMBERED = re.compile(r"^\s*(?:step\s+)?\d+\s*[.):]", re.IGNORECASE | re.MULTILINE)


def step_count(steps: str) -> int:
    """How many numbered steps a text has."""
    return len(_NUMBERED.findall(steps))


@dataclass(frozen=True, kw_only=True)
class Agents:
    """Everybody who works on one item.

    Attributes:
        search: what the search agent asks; None in an arm without search.
    """

    item: MabrfItem
    settings: MabrfSettings
    seats: Seats
    search: SearchBackend | None = None

    @property
    def _scene(self) -> str:
        """Context and question: what everybody but the rephraser is shown first."""
        item = self.item
        return render("account", context=item.context, question=item.question, options=())

    @property
    def _question(self) -> str:
        return render("account", context="", question=self.item.question, options=())

    @property
    def _account(self) -> str:
        """The same with the options."""
        item = self.item
        return render("account", context=item.context, question=item.question, options=item.options)

    @property
    def _choices(self) -> list[str]:
        return [str(place) for place in range(len(self.item.options))]

    async def steps(self) -> str:
        """The solver's numbered steps; empty where it gave none."""
        loop = self.settings.loop
        turn = await self.seats.say(
            "solver",
            self.settings.solver,
            f"{self._account}\n\n{render('steps', most=loop.max_steps)}",
            "solver/steps",
            system=render("solver"),
            max_tokens=loop.max_tokens,
            temperature=loop.temperature,
        )
        return turn.text.strip()

    async def answer(self, steps: str) -> str | None:
        """The solver's answer by its steps; None where it is none of the options."""
        asked = f"{self._account}\n\n[Reasoning]\n{steps}\n\n"
        if not self.item.options:
            return await self._free("solver", self.settings.solver, f"{asked}{render('answer')}")
        choice = await self.seats.choose(
            "solver",
            self.settings.solver,
            f"{asked}{render('choose')}",
            self._choices,
            "solver/answer",
            render("solver"),
        )
        return choice.value

    async def judge(self, steps: str, place: str, temperature: float = 0.0) -> Verdict | None:
        """The judge's verdict on steps; None where none of its texts holds one.

        It is shown neither the answer nor who wrote the steps.
        """
        asked = f"{self._scene}\n\n{render('judge', steps=steps)}"
        for attempt in range(self.settings.loop.reask + 1):
            turn = await self.seats.say(
                "judge",
                self.settings.judge,
                asked,
                f"{place}/judge{f'/again {attempt}' if attempt else ''}",
                system=render("judge_system"),
                max_tokens=self.settings.loop.max_tokens,
                temperature=temperature,
                json_schema=SCHEMA,
            )
            verdict = parse_verdict(turn.text)
            if verdict is not None:
                return verdict
        return None

    async def rephrase(
        self, steps: str, reason: str, summary: str, refused: str, place: str
    ) -> str:
        """The steps without the bias that the judge named; empty where nothing was written.

        Args:
            summary: what was found; empty for a rewriting without evidence.
            refused: the judge's reason against the rewriting before, if it was not taken.
        """
        loop = self.settings.loop
        prompt = render(
            "rephrase",
            steps=steps,
            reason=reason,
            summary=summary,
            refused=refused,
            number=max(1, step_count(steps)),
        )
        turn = await self.seats.say(
            "rephraser",
            self.settings.rephraser,
            prompt,
            f"{place}/rephrase",
            system=render("rephraser"),
            max_tokens=loop.max_tokens,
            temperature=loop.temperature,
        )
        return turn.text.strip()

    async def terminate(self, steps: str, place: str) -> str | None:
        """The final answer by the best steps; None where it is none of the options."""
        name = self.settings.terminator
        if not self.item.options:
            asked = f"{self._account}\n\n{render('terminate_free', steps=steps)}"
            return await self._free("terminator", name, asked, f"{place}/terminate")
        choice = await self.seats.choose(
            "terminator",
            name,
            f"{self._account}\n\n{render('terminate', steps=steps)}",
            self._choices,
            f"{place}/terminate",
            render("solver"),
        )
        return choice.value

    async def _free(
        self, seat: str, name: str, asked: str, place: str = "solver/answer"
    ) -> str | None:
        turn = await self.seats.say(
            seat,
            name,
            asked,
            place,
            system=render("solver"),
            max_tokens=self.settings.loop.max_tokens,
            temperature=0.0,
        )
        return turn.text.strip() or None

    async def look_up(self, steps: str, place: str) -> Evidence:
        """Groups, queries, results, and what the results say (section 4.1)."""
        loop = self.settings.loop
        named = [] if self._reads else await self._groups()
        asked = render("queries", steps=steps, number=loop.queries)
        untold = self._reads and self.settings.squad.queries_from == "question"
        scene = self._question if untold else self._scene
        written = await self._listed(
            f"{scene}\n\n{asked}", "queries", loop.queries, f"{place}/queries"
        )
        queries = ordered(written or [], named)
        chosen = queries if self._reads else queries[: loop.searched]
        searched = await self.searched(chosen)
        found = searched.found
        most = loop.hit_tokens * CHARACTERS_A_TOKEN
        told = [snippet(one.hit.text, one.query, most) for one in found]
        return Evidence(
            queries=tuple(queries),
            parsed=written is not None,
            searched=tuple(chosen),
            found=tuple(found),
            told=tuple(told),
            failed=tuple(searched.failed),
            empty_queries=tuple(searched.empty),
            summary=await self.summary(found, told, f"{place}/summary") if found else "",
        )

    @property
    def _reads(self) -> bool:
        """Whether it looks up for a reader, as in the paper's code: all queries, nobody in them."""
        return self.settings.kind == "squad"

    async def _groups(self) -> list[str]:
        groups = await self._listed(f"{self._scene}\n\n{render('groups')}", "groups", 8, "groups")
        return present(groups or [], self._scene)

    async def searched(self, queries: Sequence[str]) -> Searched:
        """What the searches of queries come to."""
        ended = Searched()
        seen: set[tuple[str, str]] = set()
        for query in queries:
            try:
                hits = await self._hits(query)
            except SearchError as error:
                log.warning("a search failed: %s", error)
                ended.failed.append(query)
                continue
            if not hits:
                ended.empty.append(query)
            for hit in hits:
                if (hit.title, hit.text) not in seen:
                    seen.add((hit.title, hit.text))
                    ended.found.append(Found(query, hit))
        return ended

    async def _hits(self, query: str) -> list[Hit]:
        """The best hits that count, as many as are wanted where there are so many."""
        assert self.search is not None
        wanted = asked = self.settings.loop.hits
        while True:
            hits = await self.search.search(query, asked)
            counting = [hit for hit in hits if not self._own(hit)][:wanted]
            if len(counting) == wanted or len(hits) < asked or asked >= MOST_HITS:
                return counting
            asked = min(4 * asked, MOST_HITS)

    def _own(self, hit: Hit) -> bool:
        """Whether a hit is of the item's own article, where those do not count."""
        return (
            self.settings.leave_out_gold
            and bool(hit.title)
            and same_title(hit.title, self.item.title)
        )

    async def summary(self, found: Sequence[Found], told: Sequence[str], place: str) -> str:
        """What the results say, each line with its source."""
        hits = [
            {"query": one.query, "title": one.hit.title, "url": one.hit.url, "text": text}
            for one, text in zip(found, told, strict=True)
        ]
        # What a reader is to find in the results does not come from its own paragraph.
        scene = self._question if self._reads else self._scene
        turn = await self.seats.say(
            "searcher",
            self.settings.searcher,
            f"{scene}\n\n{render('summary', hits=hits)}",
            place,
            system=render("searcher"),
            max_tokens=self.settings.loop.max_tokens,
            temperature=0.0,
        )
        return turn.text.strip()

    async def _listed(self, asked: str, name: ListName, most: int, place: str) -> list[str] | None:
        """A list of texts; None where the reply is none."""
        turn = await self.seats.say(
            "searcher",
            self.settings.searcher,
            asked,
            place,
            system=render("searcher"),
            max_tokens=LIST_TOKENS,
            temperature=0.0,
            json_schema=list_schema(name, most),
        )
        return parse_list(turn.text, name)
