"""A store of published models."""

from __future__ import annotations

from pathlib import Path

from rldf_ray.apps.serve.store import ModelStore


def published(folder: Path, versions: int) -> ModelStore:
    """A store in `folder` with so many versions of the model "policy"."""
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    store = ModelStore(folder / "store", "policy")
    for _ in range(versions):
        store.publish(model)
    return store
