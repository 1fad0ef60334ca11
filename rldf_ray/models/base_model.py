"""What a trained model's card says of the model it began as: its id on the hub, its licence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rldf_ray.models.embedded import EMBEDDED, HUB_ID, LICENSE
from rldf_ray.storage.home_path import home_path
from rldf_ray.storage.object_store import is_address

if TYPE_CHECKING:
    from huggingface_hub import ModelCard


@dataclass(frozen=True, kw_only=True)
class BaseModel:
    """A model that others are trained from.

    Attributes:
        hub_id: its id on the Hugging Face hub; None of a folder.
        license, license_name, license_link: as its card has them; None where the card does not say,
            and where there is none or it cannot be fetched.
    """

    hub_id: str | None = None
    license: str | None = None
    license_name: str | None = None
    license_link: str | None = None


def base_model(name: str) -> BaseModel:
    """A model by its name in a plan: `embedded`, a folder, an address, or a hub id."""
    if name == EMBEDDED:
        return BaseModel(hub_id=HUB_ID, license=LICENSE)
    if is_address(name):
        return BaseModel()
    folder = home_path(name)
    hub_id = _of_cache(folder) if folder.is_dir() else name
    card = _card(folder / "README.md" if folder.is_dir() else name)
    if card is None:
        return BaseModel(hub_id=hub_id)
    terms = {
        field: value
        for field in ("license", "license_name", "license_link")
        if isinstance(value := card.data.get(field), str)
    }
    return BaseModel(hub_id=hub_id, **terms)


def _of_cache(folder: Path) -> str | None:
    """The hub id of a folder in the hub's own cache, models--NAMESPACE--NAME/snapshots/REVISION."""
    snapshots = folder.resolve().parent
    kind, *names = snapshots.parent.name.split("--")
    return "/".join(names) if snapshots.name == "snapshots" and kind == "models" else None


def _card(where: str | Path) -> ModelCard | None:
    """A model's card, from its folder, from the hub's cache or from the hub."""
    from huggingface_hub import ModelCard
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    if isinstance(where, Path) and not where.exists():
        return None
    try:
        card: ModelCard = ModelCard.load(where, ignore_metadata_errors=True)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError, ValueError):
        return None
    return card
