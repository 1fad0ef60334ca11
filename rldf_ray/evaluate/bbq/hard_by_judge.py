"""BBQ-hard by a judge: items on whose first reasoning a finished study of MABRF found bias.

The second reading of "initial responses exhibited no bias were excluded" (Roy and Rehman 3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rldf_ray.protocols.mabrf.folder import results_in
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.sets.bbq.items import BBQError, Key
from rldf_ray.storage.json_lines import problems_of
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.yaml_text import read_yaml


@dataclass(frozen=True, kw_only=True)
class JudgedHard:
    """What a study's judge found of its first steps.

    Attributes:
        rows: a line for each item that it flags, as `hard_items` writes them.
        judged: items with a verdict.
        without_verdict: items whose steps have none; they are in no row.
        reference, judge: the models that reasoned and judged.
    """

    rows: list[dict[str, Any]]
    judged: int
    without_verdict: int
    reference: str
    judge: str


def judged_hard(folder: RunFolder, known: Collection[Key]) -> JudgedHard:
    """The items of BBQ whose first steps a finished study's judge flags.

    Args:
        known: items that the subset is for.

    Raises:
        BBQError: the folder holds no study of MABRF on BBQ, or on items that are not `known`.
        RunFolderError: the study has not ended.
    """
    settings, models, seed = _plan_in(folder)
    results = results_in(folder, settings, seed)
    reference, judge = models[settings.solver], models[settings.judge]
    rows, without = [], 0
    for item in results.items:
        row = results.first[item.item_id]
        if row["bias_0"] is None:
            without += 1
        elif row["bias_0"] > settings.loop.threshold:
            category, example = _key(item)
            if (category, example) not in known:
                raise BBQError(
                    f"{folder.where}: {category} {example} is not among BBQ's items given here"
                )
            rows.append(
                {
                    "category": category,
                    "example_id": example,
                    "prediction": None if row["answer_0"] is None else int(row["answer_0"]),
                    "why": ["judge"],
                    "bias": row["bias_0"],
                    "reference": reference,
                    "judge": judge,
                }
            )
    return JudgedHard(
        rows=rows,
        judged=len(results.items) - without,
        without_verdict=without,
        reference=reference,
        judge=judge,
    )


def _plan_in(folder: RunFolder) -> tuple[MabrfSettings, Mapping[str, str], int]:
    path = folder.fetched("plan.yaml")
    saved = read_yaml(path.read_text(encoding="utf-8")) if path.exists() else None
    if not isinstance(saved, Mapping) or saved.get("study") != "mabrf":
        raise BBQError(
            f"{folder.where} holds no study of MABRF; --hard-by judge reads one: rldf study mabrf "
            "PLAN --set settings.data=BBQ --set settings.loop.max_passes=0 --out DIR"
        )
    try:
        settings = MabrfSettings.model_validate(saved["settings"])
    except ValidationError as error:
        raise BBQError(f"{path}: {problems_of(error)}") from error
    if settings.kind != "bbq":
        raise BBQError(f"{folder.where}: its items are not BBQ's (settings.kind={settings.kind})")
    return settings, saved["models"], saved["seed"]


def _key(item: MabrfItem) -> Key:
    return item.category, int(item.item_id.removeprefix(f"{item.category}-"))
