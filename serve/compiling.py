"""Whether an engine can compile a JSON schema in time: tried first, in a process of its own.

How long that takes cannot be read off a schema: `([a-z]?){100}` has 12 characters and takes 20 s,
in which an engine compiles for nobody else. So a child of a replica compiles every new schema in a
fork of itself with so much processor time and no more.

    replica --> this module as a program (the tokenizer is loaded) --> a fork for every schema
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import resource
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any

from rldf_ray.storage.json_text import json_text

# Of processor time, so that a busy machine refuses no more than an idle one.
MOST_S = 5
REMEMBERED = 1000

log = logging.getLogger("ray.serve")


class Compiling:
    """The program that tries schemas for the tokenizer in `folder`; started with the first."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._program: subprocess.Popen[str] | None = None
        self._turn = asyncio.Lock()
        self._known: OrderedDict[str, bool] = OrderedDict()

    async def in_time(self, schema: Any) -> bool:
        """Whether `schema` compiles within `MOST_S`; what it is otherwise, the engine says."""
        text = json_text(schema)
        place = hashlib.sha256(text.encode("utf-8")).hexdigest()
        async with self._turn:
            if place not in self._known:
                try:
                    self._known[place] = await _whole(asyncio.to_thread(self._tried, text))
                except OSError:
                    log.exception("a schema could not be tried; the engine compiles it untried")
                    return True
                if len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
            return self._known[place]

    def close(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program.wait()
            self._program = None

    def _tried(self, text: str) -> bool:
        """Ask the program; ends by itself, as every try does."""
        if self._program is None or self._program.poll() is not None:
            self._program = subprocess.Popen(
                [sys.executable, "-m", __name__, self._folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
            )
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.write(text + "\n")
        self._program.stdin.flush()
        answer = self._program.stdout.readline()
        if not answer:
            raise BrokenPipeError("the program that tries schemas has ended")
        return answer.strip() == "true"


async def _whole(work: Coroutine[Any, Any, bool]) -> bool:
    """The result of `work`, which goes on to its end if nobody waits for it: one at a time."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    finally:
        await asyncio.wait([task])


def main(folder: str) -> None:
    """Answer every line, a schema, with `true` or `false`, until there are no more."""
    import xgrammar
    from transformers import AutoTokenizer

    # A program inherits that its children are not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    vocabulary = xgrammar.TokenizerInfo.from_huggingface(tokenizer)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _compile(xgrammar, vocabulary, line)
        _, status = os.waitpid(child, 0)
        print("false" if os.WIFSIGNALED(status) else "true", flush=True)


def _compile(xgrammar: Any, vocabulary: Any, schema: str) -> None:
    """In the fork: ends with it, by a signal where the time is up."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S + 1))
    try:
        xgrammar.GrammarCompiler(vocabulary, max_threads=1).compile_json_schema(schema)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
