"""What is known of the model that a run began as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from rldf_ray.models.base_model import BaseModel, base_model
from rldf_ray.models.embedded import LICENSE, gguf_file

OTHER = "---\nlicense: other\nlicense_name: own-terms\nlicense_link: LICENSE\n---\n# A model\n"


def test_the_embedded_models_licence_is_what_its_file_says() -> None:
    gguf = pytest.importorskip("gguf")
    fields = gguf.GGUFReader(gguf_file()).fields
    assert fields["general.license"].contents() == LICENSE == base_model("embedded").license
    assert fields["general.organization"].contents() == "HuggingFaceTB"


def test_a_folders_own_card_has_its_licence(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(OTHER, encoding="utf-8")
    assert base_model(str(tmp_path)) == BaseModel(
        license="other", license_name="own-terms", license_link="LICENSE"
    )


@pytest.mark.parametrize(
    "card", [None, "# no head", "---\n- a list\n---\n", "---\nlicense: [a, b]\n---\n"]
)
def test_a_folder_that_does_not_say_has_none(tmp_path: Path, card: str | None) -> None:
    if card is not None:
        (tmp_path / "README.md").write_text(card, encoding="utf-8")
    assert base_model(str(tmp_path)) == BaseModel()


def test_a_folder_of_the_hubs_cache_is_that_model(tmp_path: Path) -> None:
    folder = tmp_path / "models--some--model-7b" / "snapshots" / "0123abc"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    assert base_model(str(folder)) == BaseModel(hub_id="some/model-7b", license="mit")


def test_a_hub_id_is_looked_up_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = tmp_path / "README.md"
    fetched.write_text("---\nlicense: mit\nbase_model: an/ancestor\n---\n", encoding="utf-8")
    asked: list[Any] = []

    def download(*args: Any, **options: Any) -> str:
        asked.append(args)
        return str(fetched)

    monkeypatch.setattr("huggingface_hub.repocard.hf_hub_download", download)
    assert base_model("some/model") == BaseModel(hub_id="some/model", license="mit")
    assert asked == [("some/model", "README.md")]


def test_a_hub_that_cannot_be_reached_leaves_the_licence_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr("huggingface_hub.repocard.hf_hub_download", download)
    assert base_model("some/model") == BaseModel(hub_id="some/model")


def test_an_address_is_not_fetched_for_its_card() -> None:
    assert base_model("s3://bucket/model") == BaseModel()
