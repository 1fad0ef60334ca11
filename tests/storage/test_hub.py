"""The hub gets what was listed, in one commit, privately unless told otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import httpx2
import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from rldf_ray.storage.hub import HubError, check_name, hub_client, listing, upload

TOKEN = "hf_0123456789"


def fake_hub(*, public: bool = False) -> Any:
    """A hub with the real one's signatures; `public` is what its repositories are."""
    hub = create_autospec(HfApi(token=TOKEN))
    hub.token = TOKEN
    hub.repo_info.return_value.private = not public
    return hub


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"weights")
    return path


@pytest.mark.parametrize("kind", ["model", "dataset"])
@pytest.mark.parametrize("public", [False, True])
def test_all_files_are_one_commit(file: Path, kind: Any, public: bool) -> None:
    hub = fake_hub(public=public)
    files = {"README.md": b"a card", "model.safetensors": file}
    assert upload(hub, "me/mine", kind, files, public=public, message="why") is public
    hub.create_repo.assert_called_once_with(
        "me/mine", repo_type=kind, private=not public, exist_ok=True
    )
    (name, operations), options = hub.create_commit.call_args
    assert (name, options) == ("me/mine", {"commit_message": "why", "repo_type": kind})
    assert {o.path_in_repo: o.path_or_fileobj for o in operations} == {
        "README.md": b"a card",
        "model.safetensors": str(file),
    }


def test_nothing_private_goes_where_everybody_reads(file: Path) -> None:
    hub = fake_hub(public=True)
    with pytest.raises(HubError, match="the model me/mine is there already and public"):
        upload(hub, "me/mine", "model", {"a": file}, public=False, message="why")
    hub.create_commit.assert_not_called()


def test_a_private_repository_stays_private_and_that_is_reported(file: Path) -> None:
    hub = fake_hub(public=False)
    assert not upload(hub, "me/mine", "model", {"a": file}, public=True, message="why")


@pytest.mark.parametrize(
    "error",
    [
        HfHubHTTPError(
            f"403 Forbidden for {TOKEN}",
            response=httpx2.Response(403, request=httpx2.Request("POST", "https://hub")),
        ),
        httpx2.ConnectError(f"no way to the hub with {TOKEN}"),
        ValueError("Invalid metadata in README.md"),
    ],
)
def test_a_refusal_is_one_message_without_the_token(file: Path, error: Exception) -> None:
    hub = fake_hub()
    hub.create_commit.side_effect = error
    with pytest.raises(HubError, match="the hub, model me/mine: ") as raised:
        upload(hub, "me/mine", "model", {"a": file}, public=False, message="why")
    assert TOKEN not in str(raised.value)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("name", ["mine", "me/mine/x", "/tmp/mine", "me/", "me/a--b", ""])
def test_a_name_that_is_none_there_is_refused_before_anything_is_made(
    file: Path, name: str
) -> None:
    hub = fake_hub()
    for attempt in (
        lambda: check_name(name),
        lambda: upload(hub, name, "model", {"a": file}, public=False, message="why"),
    ):
        with pytest.raises(HubError, match="allowed is USER/NAME"):
            attempt()
    hub.create_repo.assert_not_called()


def test_sizes_are_in_bytes_and_added_up(file: Path) -> None:
    lines = listing({"README.md": "für".encode(), "model.safetensors": file})
    assert [line.split() for line in lines] == [
        ["4", "README.md"],
        ["7", "model.safetensors"],
        ["11", "bytes", "in", "2", "files"],
    ]


def test_the_token_is_the_environments_or_a_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(HubError, match=r"HF_TOKEN .*hf auth login"):
        hub_client()
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    assert hub_client().token == TOKEN
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert hub_client().token == "hf_other"
