"""An OpenAI-compatible server on loopback that misbehaves on demand."""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.models.openai_checked import Reply
from rldf_ray.models.openai_reply import completions_of
from rldf_ray.models.scripted import instance, sentences

# A client that never brings about what an answer is held back for is to fail, not to hang.
HELD_S = 120.0


@dataclass(frozen=True)
class Answer:
    """What the server does with one request.

    Attributes:
        once: the answer is held back until this is set, and at most for `HELD_S`.
        delay_s: and for so long after it.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False
    once: threading.Event | None = None


def ok(body: dict[str, Any], **changes: Any) -> Answer:
    """A chat completion of as many samples as `body` asks for."""
    texts = [f"answer {i}" for i in range(body.get("n", 1))]
    return completion(*texts, **changes)


def completion(*texts: str, **changes: Any) -> Answer:
    choices = [
        {
            "index": i,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
            "logprobs": None,
        }
        for i, text in enumerate(texts)
    ]
    return Answer(
        body={
            "id": "chat-1",
            "object": "chat.completion",
            "created": 1,
            "model": "tiny-chat-0101",
            "choices": choices,
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
            **changes,
        }
    )


def made_up() -> Callable[[dict[str, Any]], Answer]:
    """Answers of no model: choices and JSON where they are asked for, else sentences."""
    numbers = itertools.count()

    def answer(body: dict[str, Any]) -> Answer:
        number = next(numbers)
        choices = body.get("structured_outputs", {}).get("choice")
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if choices:
            return completion(choices[number * 7 % len(choices)])
        return completion(json.dumps(instance(schema, number)) if schema else sentences(number))

    return answer


def with_top(text: str, *positions: dict[str, float]) -> Answer:
    """`text`, with the likeliest tokens of every position and their probabilities."""
    answer = completion(text)
    content = [
        {
            "token": next(iter(top)),
            "logprob": math.log(next(iter(top.values()))),
            "bytes": None,
            "top_logprobs": [
                {"token": token, "logprob": math.log(probability), "bytes": None}
                for token, probability in top.items()
            ],
        }
        for top in positions
    ]
    answer.body["choices"][0]["logprobs"] = {"content": content, "refusal": None}
    return answer


def completed(answer: Answer, request: ChatRequest) -> Completion:
    """What an endpoint's reply comes to, without a server."""
    (one,) = completions_of(Reply.model_validate(answer.body), request, "m")
    return one


def refusal(status: int, message: str = "no", **headers: str) -> Answer:
    return Answer(status, {"error": {"message": message, "code": None}}, dict(headers))


@dataclass(frozen=True)
class Received:
    at_s: float
    path: str
    authorization: str
    body: dict[str, Any]


@dataclass
class Server:
    """Answers with what `script` holds, then as `otherwise` says."""

    script: list[Answer] = field(default_factory=list)
    otherwise: Callable[[dict[str, Any]], Answer] = ok
    received: list[Received] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Received) -> Answer:
        with self.lock:
            self.received.append(request)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            answer = self.script.pop(0) if self.script else self.otherwise(request.body)
        if answer.once is not None:
            answer.once.wait(HELD_S)
        self.ended.wait(answer.delay_s)
        with self.lock:
            self.at_once -= 1
        return answer

    @property
    def gaps_s(self) -> list[float]:
        times = [request.at_s for request in self.received]
        return [later - earlier for earlier, later in itertools.pairwise(times)]


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet: two would wait for each other

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            authorization = self.headers.get("Authorization", "")
            answer = server.answer(Received(time.monotonic(), self.path, authorization, body))
            if answer.drop:
                self.close_connection = True
                return
            content = answer.body if isinstance(answer.body, bytes) else encoded(answer.body)
            headers = {"Content-Type": "application/json", **answer.headers}
            try:
                self.send_response(answer.status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client did not wait, as the test meant it to

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler(server))
    http.daemon_threads = True
    http.block_on_close = False
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        http.server_close()
        thread.join()
