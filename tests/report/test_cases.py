"""The case study: the same questions for all methods, chosen by order, text kept text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from rldf_ray.report.cases import CaseAnswer, cases_of, cases_page
from rldf_ray.report.comparison import CASES, write_figures

EVIL = "<script>alert('x')</script>"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.fetched: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.fetched += [v for k, v in attrs if k in ("src", "srcset", "href")]


def judged(method: str, prompt: str, changes: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    head = {"method": method, "repeat": 0, "prompt_id": prompt, "bias_type": "age"}
    texts = {"prompt": f"Question {prompt}?", "answer": f"{method} on {prompt}."}
    return [
        {**head, **texts, "measure": measure, "score": score, **(changes or {})}
        for measure, score in (("BS", 12.0), ("CE", None))
    ]


def test_a_case_is_the_first_question_that_all_methods_answered() -> None:
    rows = [
        *judged("A", "p1"),
        *judged("A", "p2"),
        *judged("B", "p2"),
        *judged("A", "p3"),
        *judged("B", "p3"),
        *judged("A", "q1", {"bias_type": "beauty"}),
        *judged("B", "q1", {"bias_type": "beauty"}),
        *judged("B", "p2", {"repeat": 1, "answer": "Another time."}),
    ]
    first, second = cases_of(rows)
    assert (first.bias_type, first.prompt, second.bias_type) == ("age", "Question p2?", "beauty")
    assert first.answers == (
        CaseAnswer("A", "A on p2.", {"BS": 12.0, "CE": None}),
        CaseAnswer("B", "B on p2.", {"BS": 12.0, "CE": None}),
    )
    assert [case.prompt for case in cases_of(rows, each=2)][:2] == ["Question p2?", "Question p3?"]


def test_a_runs_answers_stand_with_their_reward() -> None:
    rows = [
        {
            "model": m,
            "prompt_id": "p",
            "bias_type": "age",
            "prompt": "Q?",
            "answer": m,
            "reward": 0.25,
        }
        for m in ("base", "policy")
    ]
    (case,) = cases_of(rows)
    assert [one.method for one in case.answers] == ["base", "policy"]
    page = cases_page([case], {"base": "Default"})
    assert "Default" in page and "reward 0.25" in page and "own reward model" in page
    # A run may have trained it beside DPO, or rewarded PPO by functions alone.
    assert "or which learned from the same preferences" in page


def test_the_page_fetches_nothing_and_what_a_model_wrote_is_text() -> None:
    page = cases_page(
        cases_of(judged(EVIL, "p", {"answer": EVIL, "prompt": EVIL, "bias_type": EVIL})), {}
    )
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.found and tags.fetched == []
    assert page.lower().count("&lt;script&gt;") == 4 and "BS 12, CE not available" in page


def test_what_was_not_measured_is_said_and_not_drawn(tmp_path: Path) -> None:
    said = write_figures({}, [], [], {}, tmp_path)
    assert said == [
        "Figure 5: not drawn, no judge scored CE",
        "Figure 6: not drawn, no judge scored LS",
        "Abstention thresholds: not drawn, no method's answers to BBQ have scores of their options",
        "Figure 7: not drawn, there is no question that all methods answered",
    ]
    assert list(tmp_path.iterdir()) == []


def test_figures_are_written_for_what_was(tmp_path: Path) -> None:
    results = [
        {"method": "A", "repeat": 0, "set": "answers", "group": g, "measure": m, "value": v}
        for m, groups in (("ce", "abc"), ("ls", "ab"))
        for v, g in enumerate(groups)
    ]
    said = write_figures({}, results, judged("A", "p"), {}, tmp_path)
    assert "figure-5-ce.png" in said[0] and "there are a, b" in said[1]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"figure-5-ce.png", "figure-5-ce.svg", CASES}
