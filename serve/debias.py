"""POST /v1/debias: one question through MABRF's loop now, streamed as server-sent events.

solved -> pass ... -> answer -> done      (or error)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rldf_ray.apps.serve import unfolding
from rldf_ray.apps.serve.bodies import DebiasBody, content_of
from rldf_ray.apps.serve.body import BodyError
from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.protocol_settings import mabrf_settings
from rldf_ray.apps.serve.served_model import ServedChatModel
from rldf_ray.apps.serve.service import Service
from rldf_ray.apps.serve.unfolding import Tell
from rldf_ray.errors import UserError
from rldf_ray.protocols.mabrf.agents import Agents
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.loop import Pass, changed, mitigate, solve
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.protocols.mabrf.verdict import Verdict
from rldf_ray.protocols.seats import Seats
from rldf_ray.search.backend import SearchBackend, opened

log = logging.getLogger("rldf.serve")


class CorpusGoneError(UserError):
    """A corpus of the settings cannot be opened; the message says nothing of where it lies."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A request that can be answered."""

    item: MabrfItem
    settings: MabrfSettings
    search: SearchBackend | None


@dataclass
class Corpora:
    """Texts that may be searched: each is opened once, as an index is read-only and many may ask.

    Attributes:
        where: a corpus or a folder of texts, by the name that the server's settings give it.
    """

    where: Mapping[str, str]
    _opening: dict[str, asyncio.Task[SearchBackend]] = field(default_factory=dict)

    async def find(self, name: str) -> SearchBackend:
        """The corpus of that name; a path of a request is never opened.

        Raises:
            BodyError: there is none.
            CorpusGoneError: it could be opened when the server was started, and cannot now.
        """
        if name not in self.where:
            allowed = ", ".join(self.where) or "none are served"
            raise BodyError(f"corpus: one of {allowed}", "corpus")
        if name not in self._opening:
            # All of its texts are read, which takes long: in a thread, for all that wait for it.
            work = asyncio.to_thread(opened, f"local:{self.where[name]}")
            self._opening[name] = asyncio.create_task(work)
            self._opening[name].add_done_callback(partial(self._told, name))
        try:
            return await asyncio.shield(self._opening[name])
        except UserError as error:
            raise CorpusGoneError(
                f"the corpus {name} cannot be searched; the server's log has it"
            ) from error

    def _told(self, name: str, task: asyncio.Task[SearchBackend]) -> None:
        """What could not be opened is tried again by the next request."""
        if task.cancelled():
            del self._opening[name]
        elif (error := task.exception()) is not None:
            del self._opening[name]
            log.error("corpora.%s: %s", name, error)


async def checked(body: DebiasBody, service: Service, corpora: Corpora) -> Checked:
    """The item and the settings of its loop.

    Raises:
        BodyError: a limit is exceeded, or there is no such corpus, or no question.
        CorpusGoneError: the corpus cannot be searched.
        UnknownModelError: no such model.
    """
    limits = service.settings.limits
    if body.max_passes > limits.debate_rounds:
        raise BodyError(f"max_passes: at most {limits.debate_rounds} here", "max_passes")
    if body.max_tokens > limits.max_tokens:
        raise BodyError(f"max_tokens: this server takes {limits.max_tokens}", "max_tokens")
    if sum(len(content_of(message)) for message in body.messages) > limits.prompt_characters:
        raise BodyError(f"messages: at most {limits.prompt_characters} characters", "messages")
    service.routes.target(body.model)
    return Checked(
        item=_item(body),
        settings=mabrf_settings(
            options=bool(body.options),
            passes=body.max_passes,
            max_tokens=body.max_tokens,
            searches=body.corpus is not None,
        ),
        search=None if body.corpus is None else await corpora.find(body.corpus),
    )


def _item(body: DebiasBody) -> MabrfItem:
    """The last message is the question; those before it are its context."""
    *before, last = body.messages
    if any(message.role == "tool" or message.tool_calls for message in body.messages):
        raise BodyError("messages: calls of tools are not read here", "messages")
    if last.role != "user":
        raise BodyError("messages: the last one is the user's question", "messages")
    question = content_of(last).strip()
    if not question:
        raise BodyError("messages: the question is empty", "messages")
    return MabrfItem(
        item_id="served",
        group="served",
        context="\n\n".join(filter(None, (content_of(message).strip() for message in before))),
        question=question,
        options=tuple(body.options),
    )


def events(
    body: DebiasBody, found: Checked, service: Service, caller: Caller
) -> AsyncIterator[str]:
    """The loop's events."""
    return unfolding.events(lambda tell: _hold(body, found, service, caller, tell), service, caller)


async def _hold(
    body: DebiasBody, found: Checked, service: Service, caller: Caller, tell: Tell
) -> None:
    model = body.model or service.settings.default_model
    seats = Seats(
        item="served",
        models={
            "model": ServedChatModel(service, caller, model),
            "judge": ServedChatModel(service, caller, service.settings.referee_model),
        },
        seed=body.seed,
    )
    agents = Agents(item=found.item, settings=found.settings, seats=seats, search=found.search)
    solved = await solve(agents)
    tell(
        "solved",
        {
            "model": model,
            "steps": solved.steps,
            "answer": _answer(found.item, solved.answer),
            "verdict": _verdict(solved.verdict),
        },
    )
    ended = await mitigate(agents, solved, "served", on_pass=lambda one: tell("pass", _pass(one)))
    tell(
        "answer",
        {
            "answer": _answer(found.item, ended.answer),
            "steps": ended.steps,
            "verdict": _verdict(ended.verdict),
            "stop": ended.stop,
            "changed": changed(found.item, solved.answer, ended.answer),
        },
    )


def _answer(item: MabrfItem, given: str | None) -> str | None:
    """An option by its number, or a free answer as it is."""
    if given is None or not item.options:
        return given
    return item.options[int(given)]


def _verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    return None if verdict is None else verdict.model_dump()


def _pass(one: Pass) -> dict[str, Any]:
    evidence = one.evidence
    return {
        "number": one.number,
        "steps": one.candidate,
        "verdict": _verdict(one.verdict),
        "accepted": one.accepted,
        "queries": list(evidence.queries) if evidence else [],
        "sources": [{"title": found.hit.title, "url": found.hit.url} for found in evidence.found]
        if evidence
        else [],
        "summary": evidence.summary if evidence else "",
    }
