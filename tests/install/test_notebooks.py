"""The notebooks of `examples/` run as they are, on the embedded model."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.ipynb")))
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RLDF_SERVER", "RLDF_MODEL"):
        monkeypatch.delenv(variable, raising=False)
    book = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    # As it is kept: what it came to is whoever runs it to see.
    assert not any(cell.get("outputs") for cell in book.cells)
    NotebookClient(
        book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    codes = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in codes)
    # The last cell of each shows something.
    assert codes[-1].outputs
