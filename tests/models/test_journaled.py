"""`JournaledModel`: what was finished is never asked again, however the program ended."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.models import journaled
from rldf_ray.models.base import ChatRequest, Completion, Message, ModelError, Usage
from rldf_ray.models.journaled import JournaledModel, settled
from rldf_ray.models.limits import Budget
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan import Endpoint
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.json_text import NotFiniteError

ROOT = Path(__file__).resolve().parents[2]
REQUEST = ChatRequest(messages=(Message("user", "Hello?"),), max_tokens=64, address="call/0")
KILLS = 4

# Makes 80 calls, 8 at a time, and writes down every one that reaches the model, which answers only
# so many of them: however late the kill comes, there is something left to do.
PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from rldf_ray.models.base import ChatRequest, Message
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.storage.journal import Journal

folder = Path(sys.argv[1])
delay_s = float(sys.argv[2])
answers_left = int(sys.argv[3])


def request(i):
    scores = tuple(map(str, range(11))) if i % 3 == 0 else None
    return ChatRequest(
        messages=(Message("user", f"Question {i}?"),),
        max_tokens=64,
        seed=i,
        n=1 + i % 2,
        choices=scores,
        choice_probabilities=scores is not None,
        address=f"call/{i}",
    )


class Counted(ScriptedModel):
    async def complete(self, request):
        with (folder / "asked").open("a") as asked:
            asked.write(request.address + "\\n")
        global answers_left
        answers_left -= 1
        if answers_left < 0:
            await asyncio.sleep(3600)
        return await super().complete(request)


async def main():
    model = JournaledModel(Counted(delay_s=delay_s), Journal(folder / "journal.jsonl"))
    seats = asyncio.Semaphore(8)

    async def one(i):
        async with seats:
            return [repr(sample) for sample in await model.complete(request(i))]

    results = await asyncio.gather(*(one(i) for i in range(80)))
    usage = model.usage.prompt + model.usage.generated
    (folder / "results.json").write_text(json.dumps([results, usage]))


asyncio.run(main())
"""

OPEN: list[Journal] = []


def opened(path: Path) -> Journal:
    """A journal that is closed after the test."""
    OPEN.append(Journal(path))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def _no_journal_stays_open() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


class Recorded:
    """Answers with what it was given and keeps the requests."""

    def __init__(self, *samples: Completion) -> None:
        self.samples = samples
        self.asked: list[ChatRequest] = []

    @property
    def name(self) -> str:
        return "recorded"

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        self.asked.append(request)
        return self.samples


def ask(model: JournaledModel, request: ChatRequest = REQUEST) -> tuple[Completion, ...]:
    return asyncio.run(model.complete(request))


texts = st.text(max_size=20) | st.sampled_from(["a\nb\r\x85\u2028", "\ud800", '"\\', "\x00"])
logprobs = st.floats(max_value=0.0, allow_nan=False, allow_infinity=False)
completions = st.builds(
    Completion,
    text=texts,
    finish_reason=st.sampled_from(["stop", "length"]),
    usage=st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    model=texts,
    revision=texts,
    prompt_ids=st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
    token_ids=st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
    logprobs=st.none() | st.lists(logprobs, max_size=4).map(tuple),
    choice_probabilities=st.none() | st.dictionaries(texts, st.floats(0, 1), max_size=3),
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journals") / "journal.jsonl"


@settings(deadline=None, max_examples=60)
@given(samples=st.lists(completions, min_size=1, max_size=3))
def test_answers_come_back_exactly_as_they_were(scratch: Path, samples: list[Completion]) -> None:
    scratch.unlink(missing_ok=True)
    model = Recorded(*samples)
    first = ask(JournaledModel(model, opened(scratch)))
    again = ask(JournaledModel(model, opened(scratch)))
    assert again == first == tuple(samples)
    assert [repr(sample) for sample in again] == [repr(sample) for sample in samples]
    assert len(model.asked) == 1


def test_finished_calls_are_answered_from_the_journal(tmp_path: Path) -> None:
    scripted = ScriptedModel()
    model = JournaledModel(scripted, opened(tmp_path / "journal.jsonl"))
    requests = [replace(REQUEST, address=f"call/{i}") for i in range(3)]
    first = [ask(model, request) for request in requests]
    assert (model.made, model.reused, model.name) == (3, 0, "scripted")

    later = JournaledModel(scripted, opened(tmp_path / "journal.jsonl"))
    assert [ask(later, request) for request in requests] == first
    assert (later.made, later.reused) == (0, 3)
    assert later.usage == model.usage != Usage()


@pytest.mark.parametrize(
    "changed",
    [
        replace(REQUEST, messages=(Message("user", "Hello!"),)),
        replace(REQUEST, messages=(Message("system", "Hello?"),)),
        replace(REQUEST, seed=1),
        replace(REQUEST, temperature=0.5),
        replace(REQUEST, n=2),
        replace(REQUEST, choices=("a", "b")),
        replace(REQUEST, json_schema={"type": "string"}),
    ],
)
def test_a_changed_request_is_made_again_and_replaces_the_old_one(
    tmp_path: Path, changed: ChatRequest
) -> None:
    path = tmp_path / "journal.jsonl"
    ask(JournaledModel(ScriptedModel(), opened(path)))
    second = JournaledModel(ScriptedModel(), opened(path))
    answer = ask(second, changed)
    assert second.made == 1
    third = JournaledModel(ScriptedModel(), opened(path))
    assert ask(third, changed) == answer
    assert third.reused == 1


def test_another_model_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    ask(JournaledModel(ScriptedModel(), opened(path)))
    other = Recorded(
        Completion(text="hi", finish_reason="stop", usage=Usage(), model="recorded", revision="1")
    )
    ask(JournaledModel(other, opened(path)))
    assert len(other.asked) == 1


def test_a_failed_call_is_not_remembered(tmp_path: Path) -> None:
    def fail(request: ChatRequest) -> str:
        raise ModelError("out of order")

    path = tmp_path / "journal.jsonl"
    with pytest.raises(ModelError):
        ask(JournaledModel(ScriptedModel(reply=fail), opened(path)))
    model = JournaledModel(ScriptedModel(), opened(path))
    ask(model)
    assert (model.made, model.reused) == (1, 0)


def test_two_journals_do_not_know_of_each_other(tmp_path: Path) -> None:
    scripted = ScriptedModel()
    debates = JournaledModel(scripted, opened(tmp_path / "debates.jsonl"))
    topics = JournaledModel(scripted, opened(tmp_path / "topics.jsonl"))
    assert ask(debates) == ask(topics)
    assert (debates.made, topics.made, topics.reused) == (1, 1, 0)
    assert ask(debates) == ask(topics)
    assert (debates.reused, topics.reused) == (1, 1)


def test_special_numbers_survive(tmp_path: Path) -> None:
    sample = Completion(
        text="x",
        finish_reason="stop",
        usage=Usage(),
        model="m",
        revision="r",
        logprobs=(-sys.float_info.max, -0.0, -5e-324, -1 / 3),
    )
    ask(JournaledModel(Recorded(sample), opened(tmp_path / "j")))
    (again,) = ask(JournaledModel(Recorded(), opened(tmp_path / "j")))
    assert repr(again.logprobs) == repr(sample.logprobs)


@pytest.mark.parametrize("number", [math.nan, -math.inf])
def test_an_answer_of_no_numbers_is_an_error_and_not_kept(tmp_path: Path, number: float) -> None:
    """Other programs could not read the file, and nothing follows from such an answer."""
    sample = Completion(
        text="x",
        finish_reason="stop",
        usage=Usage(),
        model="m",
        revision="r",
        logprobs=(number,),
    )
    with pytest.raises(NotFiniteError, match=r"call/0 .*samples\[0\]\.logprobs\[0\]"):
        ask(JournaledModel(Recorded(sample), opened(tmp_path / "j")))
    assert (tmp_path / "j").read_bytes() == b""


# --- kills


def start(folder: Path, delay_s: float = 0.0, answers: int = 80) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(delay_s), str(answers)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def finished(folder: Path) -> list[str]:
    """Addresses of the whole lines of the journal."""
    path = folder / "journal.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line)["address"] for line in lines]


def asked(folder: Path) -> list[str]:
    path = folder / "asked"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def wait_until(condition: Callable[[], bool], program: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert program.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)


def kill_somewhere(folder: Path, chance: random.Random) -> None:
    """Start the program and kill it once it has finished some more calls."""
    target = len(finished(folder)) + chance.randint(1, 15)
    program = start(folder, delay_s=0.02, answers=19)
    try:
        wait_until(lambda: len(finished(folder)) >= target, program)
        time.sleep(chance.uniform(0, 0.02))
    finally:
        program.kill()
        program.wait()


def test_nothing_is_lost_or_repeated_over_kills(tmp_path: Path) -> None:
    chance = random.Random(7)
    undisturbed = tmp_path / "undisturbed"
    killed = tmp_path / "killed"
    undisturbed.mkdir()
    killed.mkdir()
    assert start(undisturbed).wait(timeout=300) == 0

    for _ in range(KILLS):
        before, asked_before = finished(killed), asked(killed)
        kill_somewhere(killed, chance)
        assert finished(killed)[: len(before)] == before
        assert not set(asked(killed)[len(asked_before) :]) & set(before)
    with (killed / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"address":"call/79","requ')

    before, asked_before = finished(killed), asked(killed)
    assert 0 < len(before) < 80
    assert start(killed).wait(timeout=300) == 0
    every = {f"call/{i}" for i in range(80)}
    assert set(asked(killed)[len(asked_before) :]) == every - set(before)
    assert sorted(finished(killed)) == sorted(every)

    results = (killed / "results.json").read_bytes()
    assert results == (undisturbed / "results.json").read_bytes()


def test_a_call_goes_on_when_its_caller_is_cancelled_and_is_remembered(tmp_path: Path) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    class Held(ScriptedModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            begun.set()
            await may_end.wait()
            return await super().complete(request)

    journal = opened(tmp_path / "journal.jsonl")
    model = JournaledModel(Held(), journal)

    async def cancelled() -> None:
        caller = asyncio.create_task(model.complete(REQUEST))
        await begun.wait()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        assert len(journal) == 0
        may_end.set()
        await model.settle()

    asyncio.run(cancelled())
    assert len(journal) == 1 and model.made == 1


def test_a_call_that_fails_after_its_caller_is_gone_is_no_noise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    class Failing(ScriptedModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            begun.set()
            await may_end.wait()
            raise ModelError("gone")

    model = JournaledModel(Failing(), opened(tmp_path / "journal.jsonl"))

    async def cancelled() -> None:
        caller = asyncio.create_task(model.complete(REQUEST))
        await begun.wait()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        may_end.set()
        await model.settle()

    asyncio.run(cancelled())
    assert caplog.records == []


class ChargingModel(ScriptedModel):
    """Fails under "fails" at once; answers what was sent when it is told that the run has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()

    def send_no_more(self) -> None:
        self.ended.set()

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        if request.address == "fails":
            raise ModelError("no")
        await self.ended.wait()
        return await super().complete(request)


@pytest.mark.parametrize("siblings", ["cancelled", "left"])
def test_what_was_sent_before_a_failure_is_waited_for_and_kept(
    tmp_path: Path, siblings: str
) -> None:
    journal = opened(tmp_path / "journal.jsonl")

    async def whole() -> None:
        model = JournaledModel(ChargingModel(), journal)
        calls = [model.complete(replace(REQUEST, address=a)) for a in ("kept", "fails")]

        async def work() -> None:
            if siblings == "left":
                await asyncio.gather(*calls)
            try:
                async with asyncio.TaskGroup() as group:
                    for call in calls:
                        group.create_task(call)
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None

        with pytest.raises(ModelError, match="no"):
            await settled(work(), [model])

    asyncio.run(whole())
    assert [entry["address"] for entry in journal.entries()] == ["kept"]


def test_what_costs_nothing_is_not_waited_for_after_a_failure(tmp_path: Path) -> None:
    class Hanging(ScriptedModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            if request.address == "fails":
                raise ModelError("no")
            await asyncio.sleep(3600)
            return await super().complete(request)

    model = JournaledModel(Hanging(), opened(tmp_path / "journal.jsonl"))

    async def work() -> None:
        await asyncio.gather(*(model.complete(replace(REQUEST, address=a)) for a in ("a", "fails")))

    with pytest.raises(ModelError, match="no"):
        asyncio.run(settled(work(), [model]))


def test_an_interruption_waits_for_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal.jsonl")

    async def whole() -> None:
        model = JournaledModel(ChargingModel(), journal)
        work = asyncio.create_task(settled(model.complete(REQUEST), [model]))
        await asyncio.sleep(0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(whole())
    assert len(journal) == 0


def test_a_wait_for_what_was_sent_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journaled, "MOMENT_S", 0.0)

    class Slow(ChargingModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            samples = await super().complete(request)
            await asyncio.sleep(0.05)
            return samples

    async def whole() -> None:
        model = JournaledModel(Slow(), opened(tmp_path / "journal.jsonl"))
        await asyncio.gather(
            settled(model.complete(replace(REQUEST, address="fails")), [model]),
            model.complete(REQUEST),
            return_exceptions=True,
        )

    asyncio.run(whole())
    assert "waiting for 1 calls to scripted" in caplog.text


class Earlier:
    """Another run's answers by the digest of their request."""

    def __init__(self, journal: Journal) -> None:
        self._known = {entry["request"]: entry["samples"] for entry in journal.entries()}

    def samples(self, request: str) -> list[dict[str, Any]] | None:
        return self._known.get(request)


async def test_what_another_run_asked_is_not_asked_again(tmp_path: Path) -> None:
    other, own = Journal(tmp_path / "other.jsonl"), Journal(tmp_path / "own.jsonl")
    (said,) = await JournaledModel(ScriptedModel(), other).complete(REQUEST)
    model = JournaledModel(ScriptedModel(), own, Earlier(other))
    assert await model.complete(REQUEST) == (said,)
    await model.complete(replace(REQUEST, seed=5))
    assert (model.made, model.reused) == (1, 1)
    # The journal holds what this run made; the usage is what its results cost.
    assert len(own) == 1
    assert model.usage.generated > said.usage.generated


async def test_what_an_earlier_version_wrote_down_by_name_alone_is_found_too(
    tmp_path: Path,
) -> None:
    other = Journal(tmp_path / "other.jsonl")
    (said,) = await JournaledModel(ScriptedModel(), other).complete(REQUEST)
    for once, made in ((True, 0), (False, 1)):
        own = Journal(tmp_path / f"{once}.jsonl")
        model = JournaledModel(ScriptedModel(), own, Earlier(other), "here", once_by_name=once)
        assert await model.complete(REQUEST) == (said,) and model.made == made


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda line: b"\0" * len(line) + b"\n",
        lambda line: b"\0\0" + line,
        lambda line: line[:30] + line,
        lambda line: b"\xff\xfe\n",
        lambda line: b"[1, 2]\n",
        lambda line: b'{"address": 7}\n',
        lambda line: b"[" * 100_000 + b"\n",
        lambda line: line.replace(b'"text"', b'"words"'),
        lambda line: line.replace(b'"text"', b'"new":1,"text"'),
        lambda line: line.replace(b'"request"', b'"asked"'),
        lambda line: line.replace(b'"samples"', b'"answers"'),
    ],
)
def test_an_unreadable_line_is_skipped_and_said_and_its_call_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoilt: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "journal.jsonl"
    requests = [replace(REQUEST, address=f"call/{i}") for i in range(3)]
    first = JournaledModel(ScriptedModel(), opened(path))
    answers = [ask(first, request) for request in requests]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + spoilt(lines[1]) + lines[2])

    for made in (1, 0):
        caplog.clear()
        model = JournaledModel(ScriptedModel(), opened(path))
        assert [ask(model, request) for request in requests] == answers
        assert (model.made, model.reused) == (made, 3 - made)
        assert made == 0 or len(caplog.records) == 1
    assert Budget.of(Endpoint(budget_tokens=1000), ("scripted",), opened(path)).spent != Usage()
