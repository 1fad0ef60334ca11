"""`model/`: the trained policy as a Hugging Face folder with a model card."""

from __future__ import annotations

import shutil
from pathlib import Path

from rldf_ray.cluster.environment import versions
from rldf_ray.plan import Plan
from rldf_ray.prompts import templates
from rldf_ray.storage.digest import file_digest
from rldf_ray.storage.run_folder import RunFolder

render = templates(Path(__file__).parent)


def export_model(folder: RunFolder, plan: Plan) -> None:
    """Copy ppo/model to model/ and write its card; done once, the card last."""
    source, target = folder.root / "ppo/model", folder.root / "model"
    card = target / "README.md"
    if card.exists() and card.stat().st_mtime >= (source / "config.json").stat().st_mtime:
        return
    fresh = folder.fresh_folder(".model")
    for file in sorted(source.iterdir()):
        shutil.copy2(file, fresh / file.name)
    folder.remove("model")
    fresh.rename(target)
    weights = {f.name: file_digest(f) for f in sorted(target.glob("*.safetensors"))}
    folder.write_text(
        "model/README.md",
        render("model_card", plan=plan, digest=plan.digest(), weights=weights, versions=versions())
        + "\n",
    )
