"""PPO's checkpoints: everything a later process needs to go on as if nothing had happened.

    checkpoints/step-000004/
        manifest.json       step, files with their sizes, and the policy's score once it has
                            answered; there only when all else is
        actor/  critic/     weights and optimizer, by DeepSpeed, a shard a rank under ZeRO
        state-0.pt ...      of each rank: RNGs, KL coefficient, reward scale, rollouts in flight
        model/ or adapter/  the policy as transformers, vLLM and PEFT load it

A folder is written beside its place and moved into it, so one with a manifest is whole.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rldf_ray.errors import UserError
from rldf_ray.storage.json_text import exact_json
from rldf_ray.storage.whole_files import whole_file
from rldf_ray.train.collectives import barrier, gathered
from rldf_ray.train.unpickling import check_files, load_values

FOLDER = "checkpoints"
MANIFEST = "manifest.json"


class CheckpointError(UserError):
    """A checkpoint does not fit the job; the message says what differs."""


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint.

    Attributes:
        score: the mean reward of its policy, higher is better; None until that has answered.
    """

    folder: Path
    step: int
    score: float | None


def save_checkpoint(
    out: str | Path,
    rank: int,
    engines: dict[str, Any],
    state: dict[str, Any],
    export: Callable[[Path], None],
    *,
    step: int,
) -> None:
    """Write a checkpoint. A collective: every rank calls it with its own `state`.

    It has no score before `set_score`: its policy answers in a later step.

    Args:
        engines: DeepSpeed engines by name.
        state: what else this rank carries: values, tensors, and classes that `load_checkpoint` is
            given.
        export: writes the policy's own folder into the one it is given; called on rank 0.
    """
    final = _folder(out, step)
    # `whole_file` moves a file that one process wrote; every rank writes into this folder.
    scratch = final.with_name(f".{final.name}")
    if rank == 0:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
    barrier()
    for name, engine in engines.items():
        engine.save_checkpoint(str(scratch), tag=name, save_latest=False)
    torch.save({**state, "rng": rng_state()}, scratch / f"state-{rank}.pt")
    workers = len(gathered(rank))
    if rank == 0:
        export(scratch)
        _finish(scratch, final, {"step": step, "score": None, "workers": workers})
    barrier()


def _finish(scratch: Path, final: Path, facts: dict[str, Any]) -> None:
    """Record what was written, on disk, then let the whole folder appear at once."""
    files = {
        str(path.relative_to(scratch)): path.stat().st_size
        for path in sorted(scratch.rglob("*"))
        if path.is_file()
    }
    for name in files:
        with (scratch / name).open("rb") as file:
            os.fsync(file.fileno())
    with (scratch / MANIFEST).open("w", encoding="utf-8") as manifest:
        manifest.write(exact_json({**facts, "files": files}, str(final / MANIFEST), indent=2))
        manifest.flush()
        os.fsync(manifest.fileno())
    shutil.rmtree(final, ignore_errors=True)
    scratch.rename(final)


def set_score(out: str | Path, step: int, score: float) -> None:
    """Record the mean reward of the policy of a step's checkpoint, if there is one (rank 0)."""
    path = _folder(out, step) / MANIFEST
    if path.exists():
        manifest = json.loads(path.read_text(encoding="utf-8"))
        with whole_file(path) as scratch:
            text = exact_json({**manifest, "score": score}, str(path), indent=2)
            scratch.write_text(text, encoding="utf-8")


def _folder(out: str | Path, step: int) -> Path:
    return Path(out) / FOLDER / f"step-{step:06d}"


def checkpoints(out: str | Path) -> list[Checkpoint]:
    """The whole checkpoints of a job, oldest first."""
    whole = []
    for folder in sorted((Path(out) / FOLDER).glob("step-*")):
        manifest = _manifest(folder)
        if manifest is not None:
            whole.append(Checkpoint(folder, manifest["step"], manifest["score"]))
    return whole


def _manifest(folder: Path) -> dict[str, Any] | None:
    """A folder's manifest, None where it or a file it lists is missing or cut short."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    sizes = manifest["files"].items()
    whole = all((folder / n).exists() and (folder / n).stat().st_size == s for n, s in sizes)
    return manifest if whole else None


def load_checkpoint(
    checkpoint: Checkpoint,
    rank: int,
    workers: int,
    engines: dict[str, Any],
    classes: tuple[type, ...] = (),
) -> dict[str, Any]:
    """Take over weights, optimizer and RNGs; returns this rank's `state`. A collective.

    Args:
        classes: that the values of `state` may be of, besides plain ones and tensors.

    Raises:
        CheckpointError: it was written by another number of workers.
        UnsafeFileError: a file holds something else than a checkpoint's.
    """
    manifest = _manifest(checkpoint.folder)
    assert manifest is not None
    if manifest["workers"] != workers:
        raise CheckpointError(
            f"{checkpoint.folder} was written by {manifest['workers']} workers, this job has "
            f"{workers}: set train.workers={manifest['workers']}, or remove the checkpoints to "
            "begin again"
        )
    for name, engine in engines.items():
        check_files(checkpoint.folder / name)
        engine.load_checkpoint(str(checkpoint.folder), tag=name)
    state: dict[str, Any] = load_values(checkpoint.folder / f"state-{rank}.pt", classes)
    set_rng_state(state.pop("rng"))
    return state


def remove_old(out: str | Path, keep: int) -> None:
    """Leave the `keep` newest checkpoints, and the one with the best score whatever its age.

    One that has no score yet may come to be the best.
    """
    existing = checkpoints(out)
    scores = {c.step: c.score for c in existing if c.score is not None}
    best = max(scores, key=lambda step: (scores[step], step), default=None)
    for checkpoint in existing[: max(0, len(existing) - keep)]:
        if checkpoint.step in scores and checkpoint.step != best:
            shutil.rmtree(checkpoint.folder)


def rewind(files: Sequence[Path], step: int) -> None:
    """Cut JSON-lines files back to the lines of steps 1..`step`: later ones are done again."""
    for path in files:
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)
        with whole_file(path) as scratch:
            scratch.write_text(
                "".join(line for line in lines if json.loads(line)["step"] <= step),
                encoding="utf-8",
            )


def rng_state() -> dict[str, Any]:
    """The state of every generator of this process."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # libraries draw from it
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Go on drawing where `rng_state` was taken."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
