"""BBQ downloaded: all of it into the cache, once, or an error that says how to go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldf_ray.evaluate.bbq.hub import CATEGORIES, bbq_folder, downloaded
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.sets.bbq.data import METADATA, METADATA_FOLDERS, load_bbq
from rldf_ray.sets.bbq.items import BBQError


@pytest.fixture(params=METADATA_FOLDERS)
def repository(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A checkout like the authors', each category of four of our own items."""
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    root = tmp_path / "BBQ"
    (root / "data").mkdir(parents=True)
    (root / request.param).mkdir()
    lines = (SCENES / "Age.jsonl").read_text(encoding="utf-8").splitlines()[:4]
    for name in CATEGORIES:
        rows = [json.dumps({**json.loads(line), "category": name}) for line in lines]
        (root / f"data/{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    targets = "".join(f"{name},{n},0\n" for name in CATEGORIES for n in range(4))
    csv = root / request.param / METADATA
    csv.write_text("category,example_id,target_loc\n" + targets, encoding="utf-8")
    return root


def test_all_categories_and_targets_are_fetched_once(repository: Path, tmp_path: Path) -> None:
    folder = downloaded(str(repository))
    found = load_bbq(folder)
    assert {item.category for item in found.items} == set(CATEGORIES) and len(CATEGORIES) == 11
    assert found.why_no_bias_scores is None
    assert downloaded(str(tmp_path / "gone")) == folder
    assert bbq_folder("hub") == folder


def test_a_download_that_fails_says_how_to_go_on_and_leaves_nothing(
    repository: Path, tmp_path: Path
) -> None:
    (repository / "data/SES.jsonl").rename(repository / "elsewhere")
    with pytest.raises(BBQError, match=r"SES\.jsonl.* give a checkout .* --bbq DIR"):
        downloaded(str(repository))
    assert not (tmp_path / "cache/bbq").exists()
    (repository / "elsewhere").rename(repository / "data/SES.jsonl")
    assert len(load_bbq(downloaded(str(repository))).items) == 4 * 11


def test_without_the_stereotyped_answers_the_file_is_named(repository: Path) -> None:
    (csv,) = repository.glob(f"*/{METADATA}")
    csv.unlink()
    with pytest.raises(BBQError, match=rf"{METADATA}.* give a checkout"):
        downloaded(str(repository))


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert bbq_folder(str(tmp_path)) == tmp_path
