"""Code and docs name sources that a reader has: papers, public code, pages of docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rldf_ray.plan import plan_fields
from rldf_ray.studies.plans import study_fields

ROOT = Path(__file__).parents[2]
FOLDERS = ("rldf_ray", "serve", "tune", "benchmarks", "docs", "examples", "tests")
PROTOCOLS = ("evince", "judges", "mabrf", "persuasion")
WRITTEN = {".py", ".md", ".yaml", ".txt", ".jinja", ".html", ".js", ".ipynb", ".toml"}

READING = re.compile(r"METHOD-[a-z]")
# The paper's sections that docs/method.md explains are RLDF's: no other protocol has them.
POINT = re.compile(r"\bMETHOD\b|\b[Cc]hoices? \d|\b[Nn]otes? \d|\(P\d|\bP\d+\)")
PART = r"(?:paper|METHOD|the paper's code|choice)\b[^;]*|[A-Z][a-z]+(?: et al\.)? \d{4}[^;]*"
SOURCE = re.compile(rf"(?:{PART})(?:; (?:{PART}))*")


def written(*folders: Path) -> list[Path]:
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in WRITTEN]
    assert len(files) > 10
    return files


def matches(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    lines = ((path, line) for path in files for line in path.read_text("utf-8").splitlines())
    return [f"{path.relative_to(ROOT)}: {line}" for path, line in lines if pattern.search(line)]


def test_no_file_names_a_reading_that_is_not_in_the_project() -> None:
    files = [*written(*(ROOT / name for name in FOLDERS)), *ROOT.glob("*.md")]
    assert matches(READING, files) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_names_no_points_of_a_list_that_nobody_has(protocol: str) -> None:
    assert matches(POINT, written(ROOT / "rldf_ray/protocols" / protocol)) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_paper_is_named_where_the_protocol_begins(protocol: str) -> None:
    head = (ROOT / "rldf_ray/protocols" / protocol / "__init__.py").read_text("utf-8")
    assert re.search(r"The paper is [A-Z][^*]+ \d{4},\s\*[^*]+\*", head)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_field_s_source_is_a_paper_its_code_or_a_choice(protocol: str) -> None:
    sources = {f.path: f.source for f in (*study_fields(protocol), *plan_fields()) if f.source}
    assert any(path.startswith("settings.") for path in sources)
    assert {path: s for path, s in sources.items() if not SOURCE.fullmatch(s)} == {}


@pytest.mark.parametrize(
    "text",
    ["(choice 9)", "choices 12, 13", "note 24", "(P2)", "1.5 and (P9, P10)", "P11)", "METHOD 9.6"],
)
def test_what_is_a_point_of_a_list(text: str) -> None:
    assert POINT.search(text)
    assert not SOURCE.fullmatch("10.1") and not SOURCE.fullmatch("P8")


@pytest.mark.parametrize("text", ["(a choice)", "P3, P4 and so on", "choices: 1", "the notes"])
def test_what_is_none(text: str) -> None:
    assert not POINT.search(text)
