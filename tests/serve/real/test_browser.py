"""The page in Chromium against the real server; screenshots lie under tests/output/."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.running_server import CHECKOUT, Running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SHOTS = CHECKOUT / "tests/output"
# The small run's report has a script on purpose; the frame refuses to run it and says so.
EXPECTED = "document's frame is sandboxed"
LONG_MS = 1_200_000

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="playwright is not installed"
    ),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = play.chromium.launch(executable_path=CHROMIUM, args=switches, timeout=LONG_MS)
        yield browser
        browser.close()


SIZES = {"wide": (1280, 900, "light"), "narrow": (390, 844, "dark")}


@pytest.fixture(params=SIZES)
def page(request: pytest.FixtureRequest, chromium: Any, real_server: Running) -> Iterator[Any]:
    """The page, wide and light or narrow and dark; any console error fails the test."""
    width, height, scheme = SIZES[request.param]
    page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.set_default_timeout(LONG_MS)
    errors: list[str] = []
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(real_server.address)
    page.locator("#ask-button:enabled").wait_for()
    yield page
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=Path(SHOTS, f"{request.node.name.replace('/', '-')}.png"))
    width_needed = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    assert [error for error in errors if EXPECTED not in error] == []
    assert width_needed <= width, "the page is wider than its window"


def test_both_models_answer_side_by_side_with_scores(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#question")
    page.keyboard.type("People over sixty should work from home")
    page.keyboard.press("Control+Enter")
    page.get_by_text("Done.", exact=True).wait_for()
    cards = page.locator("#answers article")
    assert [cards.nth(i).get_attribute("data-model") for i in range(2)] == ["base", "policy"]
    for i in range(2):
        assert cards.nth(i).locator("p").first.inner_text()
        marks = cards.nth(i).locator(".marks").inner_text()
        assert "reward" in marks and "score" in marks


def test_a_debate_unfolds_with_scores_and_ranks(page: Any) -> None:
    page.click('nav a[href="#debate"]')
    page.fill("#topic", "Office hours suit everybody")
    page.fill("#debaters", "2")
    page.fill("#rounds", "1")
    page.click("#debate-button")
    page.get_by_text("Finished").wait_for()
    cards = page.locator("#transcript article")
    assert cards.count() == 2
    places = {cards.nth(i).locator(".marks span").last.inner_text() for i in range(2)}
    assert places == {"place 1", "place 2"}


def test_a_run_is_read_by_keyboard(page: Any) -> None:
    page.click('nav a[href="#run"]')
    report = page.frame_locator("iframe").locator("h1")
    report.wait_for()
    assert report.evaluate("e => getComputedStyle(e).color") == "rgb(0, 128, 0)"
    assert page.title() != "broken out"
    page.focus("#tab-report")
    page.keyboard.press("ArrowRight")
    page.get_by_text("1 to 8 of 8 statements").wait_for()
    page.select_option("#f-bias_type", "beauty")
    page.get_by_text("1 to 4 of 4 statements").wait_for()
    page.get_by_role("button", name="Whole debate").first.focus()
    page.keyboard.press("Enter")
    page.locator("#whole-debate article").nth(3).wait_for()
    page.keyboard.press("Escape")
    assert not page.locator("#whole-debate").is_visible()
    page.click("#tab-answers")
    page.get_by_text("The policy thinks.").wait_for()


@pytest.mark.parametrize("page", ["narrow"], indirect=True)
def test_two_models_argue_over_a_label(page: Any) -> None:
    page.click('nav a[href="#label"]')
    page.fill(
        "#label-text", "The mayor opened the bridge on Monday, two years late. She left early."
    )
    page.select_option("#label-given", "neutral")
    page.fill("#label-rounds", "1")
    page.click("#label-button")
    page.get_by_text("Ends (").wait_for()
    # Five bars for each side, and for the mixture.
    assert page.locator("#dispute meter").count() == 15
    assert page.get_by_text("normalised CE").count() >= 1
    assert page.locator("#dispute li").count() >= 2


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_a_question_is_judged_rewritten_and_answered(page: Any) -> None:
    page.click('nav a[href="#debias"]')
    page.fill("#debias-context", "An old man and a young man waited.")
    page.fill("#debias-question", "Who could not use the phone?")
    page.fill("#debias-options", "The old man\nThe young man\nNot known")
    page.fill("#debias-passes", "1")
    page.click("#debias-button")
    page.get_by_text("tokens.").wait_for()
    cards = page.locator("#debias-steps article")
    assert cards.first.locator("h3").inner_text() == "First reasoning"
    assert cards.last.locator("h3").inner_text().startswith("Answer: ")
