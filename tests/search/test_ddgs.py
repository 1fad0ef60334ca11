"""DuckDuckGo's answers, recorded: served on loopback, in place of the address that ddgs knows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs

import pytest

pytest.importorskip("ddgs")

from ddgs.engines.duckduckgo import Duckduckgo

from rldf_ray.search.backend import SearchError, opened
from rldf_ray.search.backends import ddgs

ANSWER = """<html><body><div class="links_main result__body">
<h2 class="result__title"><a href="{url}">{title}</a></h2>
<a href="{url}">{text}</a></div></body></html>"""


class Recorded(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str]]] = []
    replies: ClassVar[list[tuple[int, str]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.path, parse_qs(body).get("q", [""])[0]))
        status, text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self) -> None:
        self.asked.append((self.path, "fetched"))
        self.send_response(404)
        self.end_headers()

    def log_message(self, *given: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Recorded]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorded) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{running.server_port}"
        monkeypatch.setattr(Duckduckgo, "search_url", f"{url}/html/")
        monkeypatch.setattr(ddgs, "PAUSE_S", 0.0)
        Recorded.asked.clear()
        Recorded.replies[:] = [
            (200, ANSWER.format(url=f"{url}/page", title="On tea", text="Tea is drunk hot."))
        ]
        yield Recorded
        running.shutdown()


async def test_results_come_back_and_no_page_is_fetched(server: type[Recorded]) -> None:
    (hit,) = await opened("ddgs").search("who  drinks\ntea?", 4)
    assert (hit.title, hit.text, hit.source) == ("On tea", "Tea is drunk hot.", "ddgs")
    assert server.asked == [("/html/", "who drinks tea?")]


async def test_a_query_that_is_an_address_is_searched_for_and_not_opened(
    server: type[Recorded],
) -> None:
    page = f"{Duckduckgo.search_url.removesuffix('/html/')}/page"
    queries = [page, f"!bang {page}", 'a" OR site:b', "\0tea", "☕ 🍵", "\ud800", "a" * 10_000]
    web = ddgs._Web(pause_s=0)
    for query in queries:
        (hit,) = await web.search(query, 1)
        assert hit.url == page
    assert [path for path, _ in server.asked] == ["/html/"] * len(queries)
    assert server.asked[0][1] == page


async def test_a_refused_search_is_tried_again_and_then_an_error(server: type[Recorded]) -> None:
    web = ddgs._Web(pause_s=0, first_wait_s=0.01)
    server.replies[:0] = [(500, ""), (202, "")]
    assert len(await web.search("tea", 1)) == 1
    assert len(server.asked) == 3


async def test_a_search_that_finds_nothing_is_no_error(server: type[Recorded]) -> None:
    server.replies[:] = [(200, "<html><body>No results.</body></html>")]
    assert await ddgs._Web(pause_s=0).search("zzz", 4) == ()
    assert await ddgs._Web(pause_s=0).search(" \n ", 4) == ()
    assert len(server.asked) == 1


async def test_without_the_web_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Duckduckgo, "search_url", "http://127.0.0.1:9/html/")
    with pytest.raises(SearchError, match="no answer in 4 tries"):
        await ddgs._Web(pause_s=0, first_wait_s=0.001).search("tea", 1)


async def test_a_version_without_the_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddgs, "ENGINE", "altavista")
    with pytest.raises(SearchError, match="has no engine 'altavista'"):
        opened("ddgs")
