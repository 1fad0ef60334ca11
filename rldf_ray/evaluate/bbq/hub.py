"""BBQ as its authors publish it, downloaded through `datasets` when it is asked for, and kept."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rldf_ray.sets.bbq.data import METADATA, METADATA_FOLDERS
from rldf_ray.sets.bbq.items import BBQError
from rldf_ray.storage.cache import cache_root, writable_cache
from rldf_ray.storage.whole_files import whole_folder

if TYPE_CHECKING:
    from datasets import DownloadManager

HUB = "hub"
REPOSITORY = "https://raw.githubusercontent.com/nyu-mll/BBQ/main"
CATEGORIES = (
    "Age",
    "Disability_status",
    "Gender_identity",
    "Nationality",
    "Physical_appearance",
    "Race_ethnicity",
    "Race_x_SES",
    "Race_x_gender",
    "Religion",
    "SES",
    "Sexual_orientation",
)


def bbq_folder(where: str) -> Path:
    """The folder `where`, or for `hub` the downloaded one.

    Raises:
        BBQError: the download failed; says how to go on without a network.
    """
    return downloaded(REPOSITORY) if where == HUB else Path(where)


def downloaded(repository: str) -> Path:
    """All eleven categories and their stereotyped answers, in the user's cache; fetched once."""
    folder = cache_root() / "bbq"
    if folder.is_dir():
        return folder
    writable_cache()
    from datasets import DownloadManager

    urls = {f"{name}.jsonl": f"{repository}/data/{name}.jsonl" for name in CATEGORIES}
    manager = DownloadManager()
    try:
        paths = manager.download(urls) | {METADATA: _targets(manager, repository)}
    except (OSError, ValueError) as error:
        raise BBQError(
            f"BBQ could not be downloaded from {repository}: {error}. Without a network, or where "
            "the authors have moved their files, give a checkout of that repository as --bbq DIR"
        ) from error
    # Whole or not at all: a folder with some of the categories would be taken for all of them.
    with whole_folder(folder) as scratch:
        for name, path in paths.items():
            shutil.copyfile(path, scratch / name)
    return folder


def _targets(manager: DownloadManager, repository: str) -> str:
    """The authors' file of stereotyped answers, from the first folder that has it."""
    *others, last = (f"{repository}/{folder}/{METADATA}" for folder in METADATA_FOLDERS)
    for url in others:
        with suppress(FileNotFoundError):
            return str(manager.download(url))
    return str(manager.download(last))
