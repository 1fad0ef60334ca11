"""`model/`: the trained policy as a Hugging Face folder with a model card."""

from __future__ import annotations

import shutil
from pathlib import Path

from rldf_ray.cluster.environment import versions
from rldf_ray.plan import Plan
from rldf_ray.prompts import templates
from rldf_ray.storage.digest import digest, file_digest
from rldf_ray.storage.folders import visible
from rldf_ray.storage.run_folder import RunFolder

render = templates(Path(__file__).parent)


def export_model(folder: RunFolder, plan: Plan) -> None:
    """Copy ppo/model to model/ and write its card, last; done once for what PPO left."""
    source, target = folder.root / "ppo/model", folder.root / "model"
    card = target / "README.md"
    # Not by times of files: a clock that was ahead would make an old policy look like the new one.
    training = digest(folder.manifest("ppo"))
    if card.exists() and training in card.read_text(encoding="utf-8", errors="replace"):
        return
    fresh = folder.fresh_folder(".model")
    for file in visible(source):
        shutil.copy2(file, fresh / file.name)
    folder.remove("model")
    fresh.rename(target)
    weights = {f.name: file_digest(f) for f in visible(target, "*.safetensors")}
    described = render(
        "model_card",
        plan=plan,
        digest=plan.digest(),
        training=training,
        weights=weights,
        versions=versions(),
    )
    folder.write_text("model/README.md", f"{described}\n")
