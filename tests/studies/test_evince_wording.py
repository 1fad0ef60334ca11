"""No page, table, figure or sheet calls a label the right one, least of all a middle one."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rldf_ray.console import Progress
from rldf_ray.models.base import ChatRequest
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from tests.protocols.evince.script import Script, percent, turn
from tests.studies.conftest import Played
from tests.studies.test_evince import PLAN, rldf, texts

PRAISE = re.compile(
    r"\b(?:in)?(?:correct(?:ly|ness|ed)?|right(?:ly)?|true|truth|accura(?:te|cy)|unbiased|fair(?:er|ly)?"
    r"|objective|wrong(?:ly)?|error|gold|best label|proper|valid label|balanced|impartial)\b",
    re.IGNORECASE,
)
DENIED = re.compile(r"\b(?:no label|not|nobody|no page|never)\b", re.IGNORECASE)


# The dialogue settles between the two given labels, which differ by three steps.
class FailingOnce(Script):
    """A script whose A says nothing that can be used about the last text."""

    def _text(self, request: ChatRequest) -> str:
        failing = request.address.startswith("t3/main/A")
        return "no turn" if failing else super()._text(request)


SCRIPT = FailingOnce(
    {
        **{f"A{n}": turn(70, 20, 10, 0, 0, label="negative", quote="a scandal") for n in (1, 2)},
        **{f"B{n}": turn(0, 0, 20, 60, 20, label="positive", claim=f"c{n}") for n in (1, 2)},
        "A3": turn(0, 20, 60, 20, 0),
        "B3": turn(0, 20, 60, 20, 0),
        "one shot": {"reason": "r", "distribution": percent(0, 0, 0, 100, 0)},
    }
)


@pytest.fixture
def out(tmp_path: Path, played_by: Played) -> Path:
    """Every kind of page and table there is: all arms and baselines, a failure, a decision."""
    data = texts(tmp_path)
    text = data.read_text(encoding="utf-8").replace('"ben": "neutral"', '"ben": "positive"')
    data.write_text(text, encoding="utf-8")
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN % data, encoding="utf-8")
    played_by(SCRIPT)
    run_study("evince", load_study("evince", str(plan)), tmp_path / "out", Progress())
    sheet = (tmp_path / "out/review.csv").read_text(encoding="utf-8-sig")
    assert sheet.startswith("item_id,")
    rldf("evince", "decide", tmp_path / "out", tmp_path / "out/review.csv")
    return tmp_path / "out"


def sentences(path: Path) -> list[str]:
    """What a reader sees of a file, a sentence or cell each."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        text = "\n".join(strings(json.loads(text)))
    if path.suffix in (".html", ".svg"):
        text = re.sub(r"<(script|style|pre)\b.*?</\1>", " ", text, flags=re.DOTALL)
        text = html.unescape(re.sub(r"<[^>]*>", "\n", text))
    return [" ".join(part.split()) for part in re.split(r"(?<=[.;:!?])\s|\n|[|&]", text)]


def strings(value: object) -> Iterator[str]:
    """The texts in a JSON value, but for the plan's, whose settings are no words of ours."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            if name not in ("plan", "settings"):
                yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def praised(text: str) -> bool:
    """Whether a sentence calls something correct, and does not say that it is not."""
    return bool(PRAISE.search(text)) and not DENIED.search(text)


def test_what_the_test_looks_for() -> None:
    assert praised("The middle label is the correct one.")
    assert praised("S is fairer than D and R.")
    assert not praised("No label here is a correct one because it lies between others.")
    assert not praised("Labels toward the mayor.")


def test_nothing_that_a_study_writes_calls_a_label_correct(out: Path) -> None:
    suffixes = {".html", ".md", ".tex", ".csv", ".svg", ".json"}
    files = [
        path
        for path in out.rglob("*")
        if path.suffix in suffixes and not {"journal", "stages"} & set(path.parts)
    ]
    names = {path.name for path in files}
    assert {"report.html", "remediation.html", "review.html", "review.csv", "all.md"} <= names
    assert {"report.json", "remediation.json", "labels-1.tex", "triangle.svg"} <= names
    assert {"failures.md", "information.md", "differences.md", "duality.md"} <= names
    found = [(path.name, text) for path in files for text in sentences(path) if praised(text)]
    assert found == []
    # The case is one in which a middle label could have been called so.
    assert "neutral" in (out / "review.csv").read_text(encoding="utf-8")
