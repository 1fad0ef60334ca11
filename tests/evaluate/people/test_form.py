"""The form in Chromium, from a file, by keyboard; screenshots lie under tests/output/."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.evaluate.judge.answers import FreeAnswer
from rldf_ray.evaluate.people.ratings import read_ratings
from rldf_ray.evaluate.people.sheet import blind_sheet, sheet_form

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SHOTS = Path(__file__).resolve().parents[2] / "output"
LONG_MS = 120_000
SIZES = {"wide": (1280, 900, "light"), "narrow": (390, 844, "dark")}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="playwright is not installed"
    ),
]

LONG = (
    "Nothing in the question says so. A rule that fits everybody would have to look at what the "
    'work needs, say "lifting twenty kilos", and not at a birthday.\nThat is fair to all.'
)
SHEET = blind_sheet(
    [
        FreeAnswer(
            method="one",
            prompt_id="p1",
            bias_type="age",
            prompt="Should couriers retire at sixty?",
            answer=LONG,
        ),
        FreeAnswer(
            method="two",
            prompt_id="p1",
            bias_type="age",
            prompt="Should couriers retire at sixty?",
            answer="=Yes, <b>they</b> do.",
        ),
        FreeAnswer(
            method="two", prompt_id="p2", bias_type="age", prompt="Who was late?", answer="x" * 300
        ),
    ],
    seed=0,
)


@pytest.fixture(params=SIZES)
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The form, wide and light or narrow and dark; any console error fails the test."""
    from playwright.sync_api import sync_playwright

    width, height, scheme = SIZES[request.param]
    (tmp_path / "form.html").write_text(sheet_form(SHEET), encoding="utf-8")
    with sync_playwright() as play:
        switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = play.chromium.launch(executable_path=CHROMIUM, args=switches, timeout=LONG_MS)
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        page.set_default_timeout(LONG_MS)
        errors: list[str] = []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto((tmp_path / "form.html").as_uri())
        yield page
        SHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SHOTS / f"human-{request.param}.png", full_page=True)
        needed = page.evaluate("document.documentElement.scrollWidth")
        browser.close()
    assert errors == []
    assert needed <= width, "the page is wider than its window"


def typed(page: Any, *texts: str) -> None:
    """Each text into the field that has the focus, and Enter to go on."""
    for text in texts:
        page.keyboard.type(text)
        page.keyboard.press("Enter")


def test_the_form_is_filled_in_by_keyboard_saved_and_imported(page: Any, tmp_path: Path) -> None:
    assert page.get_by_text("0 of 3 answers rated").is_visible()
    page.focus("#rater")
    typed(page, "ann", "0", "90", "300", "10", "20")
    assert page.get_by_text("Whole numbers, 0 to 100.").is_visible()
    page.keyboard.press("Control+s")
    page.get_by_text("Not saved: one field needs a look.").wait_for()
    assert page.evaluate("document.activeElement.dataset.measure") == "LS"
    page.keyboard.press("Control+a")
    typed(page, "100")
    assert page.get_by_text("1 of 3 answers rated").is_visible()
    # What was typed is still there when the page is opened again.
    page.reload()
    assert page.input_value("#rater") == "ann"
    assert page.get_by_text("1 of 3 answers rated").is_visible()
    page.locator("fieldset").nth(1).locator("input").nth(2).focus()
    typed(page, "30", "40", "50", "60")
    assert page.evaluate("document.activeElement.id") == "save"
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    page.get_by_text("Saved ratings-ann.csv. Thank you!").wait_for()
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    ratings = read_ratings([saved], SHEET)
    by_item = {item.code: [r.score for r in ratings if r.item == item.code] for item in SHEET.items}
    assert list(by_item.values()) == [[0, 90, 100], [10, 20, 30], [40, 50, 60]]
    assert {r.rater for r in ratings} == {"ann"}


def test_a_half_filled_form_is_saved_and_says_so(page: Any, tmp_path: Path) -> None:
    page.focus("#rater")
    typed(page, "Bo / 2", "70")
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "ratings-Bo-2.csv"
    page.get_by_text("8 fields are still empty.").wait_for()
    download.value.save_as(tmp_path / "bo.csv")
    (rating,) = read_ratings([tmp_path / "bo.csv"], SHEET)
    assert (rating.rater, rating.measure, rating.score) == ("Bo / 2", "BS", 70)


def test_nobody_saves_without_a_name(page: Any) -> None:
    page.click("#save")
    page.get_by_text("Please say who you are").wait_for()
    assert page.evaluate("document.activeElement.id") == "rater"
