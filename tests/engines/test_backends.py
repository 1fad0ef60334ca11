"""A backend is a file in a folder, and nothing else knows its name."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from rldf_ray.cluster.placement import Resources, place
from rldf_ray.console import Progress
from rldf_ray.engines import backends
from rldf_ray.engines.speakers import Speakers
from rldf_ray.models.base import ChatRequest, Message
from rldf_ray.plan import PlanError, Speaker
from rldf_ray.plan.speaker import backend_names, named_backends
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import plan_with

PARROT = """
from contextlib import contextmanager

from rldf_ray.plan.speaker import BackendFacts

FACTS = BackendFacts(form="WORD", paid=True, local=False, on_engines=False)


def check(model):
    if not model.isalpha():
        raise ValueError("after 'parrot:' comes one word")


@contextmanager
def start(speaker, context):
    from rldf_ray.models.base import Completion, Usage

    class Parrot:
        name = str(speaker)

        async def complete(self, request):
            usage = Usage(prompt=1, generated=1)
            return (
                Completion(
                    text=speaker.model,
                    finish_reason="stop",
                    usage=usage,
                    model=self.name,
                    revision="base",
                ),
            )

    yield Parrot()
"""


@pytest.fixture
def parrot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "backends"
    folder.mkdir()
    (folder / "parrot.py").write_text(PARROT, encoding="utf-8")
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(folder)])
    yield
    sys.modules.pop(f"{backends.__name__}.parrot", None)


def test_the_backends_are_the_files_of_the_folder() -> None:
    assert backend_names() == ("openai", "pine", "scripted", "stock", "trained", "vllm")
    assert named_backends() == ("openai", "pine", "scripted", "stock", "vllm")


@pytest.mark.usefixtures("parrot")
def test_a_file_more_is_a_backend_more(tmp_path: Path) -> None:
    plan = plan_with("referee.kind=prompted", "teacher=parrot:hello")
    assert plan.speakers() == (Speaker("parrot", "hello"),)
    speakers = Speakers(
        plan=plan,
        folder=RunFolder(tmp_path),
        placement=place(plan, Resources(cpus=4, gpus=0, memory_gib=8)),
        progress=Progress(Console(quiet=True)),
    )
    request = ChatRequest(messages=(Message("user", "Hi"),), max_tokens=8, address="a")
    (answer,) = asyncio.run(speakers.of("debate").complete(request))
    assert answer.text == "hello" and speakers.paid_usage.generated == 1
    speakers.end()


@pytest.mark.usefixtures("parrot")
def test_a_backend_says_what_stands_after_its_colon() -> None:
    with pytest.raises(PlanError, match="after 'parrot:' comes one word"):
        plan_with("teacher=parrot:7")
    with pytest.raises(PlanError, match="allowed: null, 'openai:MODEL', 'parrot:WORD'"):
        plan_with("teacher=gpt")


@pytest.mark.parametrize("text", ["vllm:/a/b:c", "openai:org/name", "scripted:0.5", "gpt"])
def test_a_speaker_is_written_as_it_was_read(text: str) -> None:
    assert str(Speaker.parse(text)) == text
