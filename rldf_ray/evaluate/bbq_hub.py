"""BBQ as its authors publish it, downloaded through `datasets` when it is asked for, and kept."""

from __future__ import annotations

import shutil
from pathlib import Path

from rldf_ray.evaluate.bbq_items import BBQError
from rldf_ray.mirror import cache_root

HUB = "hub"
REPOSITORY = "https://raw.githubusercontent.com/nyu-mll/BBQ/main"
TARGETS = "additional_metadata.csv"
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
    from datasets import DownloadManager

    urls = {f"{name}.jsonl": f"{repository}/data/{name}.jsonl" for name in CATEGORIES}
    urls[TARGETS] = f"{repository}/analysis_scripts/{TARGETS}"
    try:
        paths = DownloadManager().download(urls)
    except (OSError, ValueError) as error:
        raise BBQError(
            f"BBQ could not be downloaded from {repository}: {error}. On a machine without a "
            "network, copy a checkout of that repository here and give it as --bbq DIR"
        ) from error
    scratch = folder.with_name(f".bbq-{id(paths)}")
    scratch.mkdir(parents=True)
    for name, path in paths.items():
        shutil.copyfile(path, scratch / name)
    # Whole or not at all: a folder with some of the categories would be taken for all of them.
    scratch.rename(folder)
    return folder
