"""report.html: one self-contained page of a study, for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from rldf_ray.figures.files import files_of
from rldf_ray.protocols.study import Summary
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.yaml_text import yaml_text

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def study_page(report: Mapping[str, Any], summary: Summary, folder: RunFolder) -> str:
    """The page, its figures inside."""
    figures = [
        (figure.title, Markup(_svg(folder.root / "figures" / figure.name)))
        for figure in summary.figures
    ]
    plan = yaml_text({**report["plan"], "settings": report["settings"]})
    return _templates.get_template("page.html.jinja").render(
        report=report, tables=summary.tables, figures=figures, plan=plan
    )


def _svg(stem: Path) -> str:
    """The drawing of a figure, without the head that a file of its own has."""
    text = files_of(stem)[1].read_text(encoding="utf-8")
    return text[text.index("<svg") :]
