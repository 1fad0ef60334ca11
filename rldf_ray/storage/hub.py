"""Uploads to the Hugging Face hub: files and their card, in one commit, private unless public."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from rldf_ray.errors import UserError
from rldf_ray.storage.hub_card import is_hub_id

Kind = Literal["model", "dataset"]
Files = Mapping[str, Path | bytes]
"""Path in the repository -> the file that is uploaded there, or what is written there."""


class HubError(UserError):
    """Nothing can be uploaded, or the hub refused; the message says why, without the token."""


class Hub(Protocol):
    """The part of `huggingface_hub.HfApi` that is used."""

    token: str | bool | None

    def create_repo(
        self, repo_id: str, *, repo_type: str, private: bool, exist_ok: bool
    ) -> Any: ...

    def repo_info(self, repo_id: str, *, repo_type: str) -> Any: ...

    def create_commit(
        self, repo_id: str, operations: Iterable[Any], *, commit_message: str, repo_type: str
    ) -> Any: ...


def hub_client() -> Hub:
    """The hub, with the token of the environment or of a login.

    Raises:
        HubError: there is none.
    """
    from huggingface_hub import HfApi, get_token

    token = get_token()
    if not token:
        raise HubError(
            "no token of the Hugging Face hub: set HF_TOKEN to one that may write, or log in with "
            "`hf auth login`"
        )
    client: Hub = HfApi(token=token)
    return client


def check_name(name: str) -> None:
    """Nothing where a repository of the hub can have this name.

    Raises:
        HubError: it cannot.
    """
    if name.count("/") != 1 or not is_hub_id(name):
        raise HubError(
            f"{name!r} is no name for the hub; allowed is USER/NAME, of letters, digits, -, _ and ."
        )


def listing(files: Files) -> list[str]:
    """A line a file, with its size in bytes, and one for all of them."""
    sizes = {name: _size(content) for name, content in files.items()}
    lines = [f"{size:>15,}  {name}" for name, size in sizes.items()]
    return [*lines, f"{sum(sizes.values()):>15,}  bytes in {len(sizes)} files"]


def upload(hub: Hub, name: str, kind: Kind, files: Files, *, public: bool, message: str) -> bool:
    """Make the repository if there is none, and commit the files; returns whether it is public.

    One that is there stays as public as it is.

    Raises:
        HubError: it is there and public, and `public` is not set; or the hub cannot be reached, or
            refuses.
    """
    from huggingface_hub import CommitOperationAdd
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    check_name(name)
    try:
        hub.create_repo(name, repo_type=kind, private=not public, exist_ok=True)
        is_public = not hub.repo_info(name, repo_type=kind).private
        if is_public and not public:
            raise HubError(
                f"the {kind} {name} is there already and public: give another name, or --public"
            )
        operations = [
            CommitOperationAdd(
                path_in_repo=path,
                path_or_fileobj=content if isinstance(content, bytes) else str(content),
            )
            for path, content in files.items()
        ]
        hub.create_commit(name, operations, commit_message=message, repo_type=kind)
    except (HTTPError, OSError, ValueError) as error:
        # Without its cause, which may have the request's headers.
        raise HubError(f"the hub, {kind} {name}: {_without(hub.token, str(error))}") from None
    return is_public


def _without(token: str | bool | None, text: str) -> str:
    return text.replace(token, "[token]") if isinstance(token, str) else text


def _size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
