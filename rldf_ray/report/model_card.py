"""`model/`: the trained policy as a Hugging Face folder with a model card."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from rldf_ray.cluster.environment import versions
from rldf_ray.models.base_model import base_model
from rldf_ray.models.names import short_name
from rldf_ray.plan import Plan
from rldf_ray.prompts import templates
from rldf_ray.report.card_results import bbq_results, results_table
from rldf_ray.report.evaluation_notes import evaluation_notes
from rldf_ray.report.lineage import lineage_of
from rldf_ray.report.parts import read_parts
from rldf_ray.storage.digest import digest, file_digest
from rldf_ray.storage.folders import visible
from rldf_ray.storage.hub_card import is_language
from rldf_ray.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from huggingface_hub import ModelCard

CARD = "README.md"
Form = Literal["model", "adapter"]

render = templates(Path(__file__).parent)


def export_model(folder: RunFolder, plan: Plan) -> None:
    """Copy the policy's model/ to the run's and write its card, last.

    Done once for what training left; the card is written again once there is another evaluation.
    """
    card = folder.root / "model" / CARD
    # Not by times of files: a clock that was ahead would make an old policy look like the new one.
    written = card.read_text(encoding="utf-8", errors="replace") if card.exists() else ""
    is_new = training_digest(folder, plan) not in written
    if is_new:
        _copy_model(folder, plan)
    if is_new or evaluation_digest(folder) not in written:
        folder.write_text(f"model/{CARD}", str(model_card(folder, plan, "model")))


def _copy_model(folder: RunFolder, plan: Plan) -> None:
    fresh = folder.fresh_folder(".model")
    for file in visible(folder.root / plan.train.last / "model"):
        shutil.copy2(file, fresh / file.name)
    folder.remove("model")
    fresh.rename(folder.root / "model")


def training_digest(folder: RunFolder, plan: Plan) -> str:
    return digest(folder.manifest(plan.train.last))


def evaluation_digest(folder: RunFolder) -> str:
    manifest = folder.manifest("eval")
    return "none yet" if manifest is None else digest(manifest)


def model_card(folder: RunFolder, plan: Plan, form: Form) -> ModelCard:
    """The card of the run's policy: of `model/`, or of the adapter, as `ppo/adapter`.

    Raises:
        ResultError: the evaluation's manifest cannot be read.
    """
    from huggingface_hub import ModelCard, ModelCardData

    base = base_model(plan.model)
    manifest = folder.manifest("eval")
    read = read_parts({} if manifest is None else {"eval": manifest}, pa.table({}))
    evaluation = read["evaluation"]
    results = [] if evaluation is None else bbq_results(evaluation)
    lineage = lineage_of(folder, plan, base.hub_id or short_name(plan.model))
    language = plan.data.language
    data = ModelCardData(
        base_model=base.hub_id,
        language=language if is_language(language) else None,
        library_name="transformers" if form == "model" else "peft",
        license=base.license,
        license_name=base.license_name,
        license_link=base.license_link,
        model_name=plan.name if results else None,
        eval_results=results or None,
        metrics=["accuracy"] if results else None,
        pipeline_tag="text-generation",
        tags=["rldf", *(["debiasing"] if lineage.is_debiasing else [])],
    )
    source = folder.root / ("model" if form == "model" else f"{plan.train.last}/adapter")
    body = render(
        "model_card",
        plan=plan,
        form=form,
        base=base,
        lineage=lineage,
        digest=plan.digest(),
        training=training_digest(folder, plan),
        evaluated=evaluation_digest(folder),
        evaluation=evaluation,
        results={} if evaluation is None else results_table(evaluation),
        notes=[
            *read["unreadable"].values(),
            *evaluation_notes({**read, "plan": plan.model_dump(mode="json")}),
        ],
        weights={file.name: file_digest(file) for file in visible(source, "*.safetensors")},
        versions=versions(),
    )
    return ModelCard(f"---\n{data.to_yaml()}\n---\n{body}\n")
