"""The hash of what each shared stage depends on; equal keys mean equal results.

A local model is known by its name, so other weights under the same name need another store.
"""

from __future__ import annotations

from pathlib import Path

from rldf_ray.cluster.environment import versions
from rldf_ray.cluster.import_path import ROOT
from rldf_ray.plan import RUNTIME_FIELDS, Plan
from rldf_ray.referee.fit import judged_kinds
from rldf_ray.storage.digest import digest, file_digest
from rldf_ray.storage.run_folder import RunFolder

# What SFT and reward model know only through their data, or not at all.
NOT_TRAINING = (
    "name",
    "bias_types",
    "teacher",
    "endpoint",
    "topics",
    "debate",
    "referee",
    "data",
    "ppo",
    "dpo",
    "kto",
    "engines",
    "evaluate",
    "prompts",
)


def topics_key(plan: Plan, most: int) -> str:
    """Of the first topics of a list of `most` for each bias type."""
    section = plan.topics.model_dump(mode="json", exclude={"model", "per_bias_type"})
    # No topic repeats what is evaluated.
    evaluated = plan.evaluate.model_dump(include={"bbq", "multirole", "items_per_category"})
    count = plan.topics.per_bias_type
    own = _own_prompts(plan, "topics/")
    return digest(*_speaking(plan, "topics"), section, evaluated, most, count, *own)


def debates_key(plan: Plan, most: int) -> str:
    section = plan.debate.model_dump(mode="json", exclude={"model", *_how("debate")})
    referee = plan.referee.model_dump(mode="json", exclude={"model"})
    names = (*plan.debate_parts(), "referee", *plan.referee_parts())
    parts = tuple(_speaking(plan, part) for part in names)
    own = _own_prompts(plan, "referee/", "protocols/")
    fitted = (referee_key(plan),) if plan.referee.fitted else ()
    return digest(topics_key(plan, most), parts, section, referee, *fitted, *own)


def referee_key(plan: Plan) -> str:
    """Of the fit of a trained referee, or of the one in a pool."""
    train = _how_trained(plan)
    fit = plan.referee.fit.model_dump(mode="json")
    kinds = sorted(judged_kinds(plan))
    start = str(plan.fitted_speaker())
    own = _own_prompts(plan, "referee/")
    return digest(_speaking(plan, "referee"), start, train, fit, kinds, *own)


def sft_key(plan: Plan, folder: RunFolder) -> str:
    """Of SFT on the data that lies in `folder`."""
    return _training_key(plan, folder, "sft", "reward")


def reward_key(plan: Plan, folder: RunFolder) -> str:
    """Of the reward model of the pairs that lie in `folder`, and of pi_SFT if it begins as that."""
    pairs = _training_key(plan, folder, "pairs", "sft")
    return digest(pairs, sft_key(plan, folder)) if plan.reward.start == "sft" else pairs


def _training_key(plan: Plan, folder: RunFolder, table: str, other: str) -> str:
    """All of the plan but what the data stands for, and the `other` stage."""
    data = file_digest(folder.root / f"data/{table}.parquet")
    values = plan.model_dump(mode="json", exclude={*NOT_TRAINING, "train", other})
    train = _how_trained(plan)
    return digest(_software(), data, values, train)


def _how_trained(plan: Plan) -> dict[str, object]:
    """What shapes any training, whatever comes after it."""
    return plan.train.model_dump(mode="json", exclude={*_how("train"), "after"})


def _speaking(plan: Plan, part: str) -> tuple[object, ...]:
    """What every answer of a part depends on."""
    types = [file_digest(Path(name)) if Path(name).is_file() else name for name in plan.bias_types]
    engines = plan.engines.model_dump(mode="json", exclude=_how("engines"))
    speaker = plan.speaker_of(part)
    return (
        _software(),
        plan.seed,
        types,
        str(speaker),
        plan.endpoint.base_url,
        plan.request_fields(speaker),
        engines,
    )


def _own_prompts(plan: Plan, *folders: str) -> list[tuple[str, str]]:
    """The plan's own prompts below these folders; nothing where it has none."""
    return [item for item in sorted((plan.prompts or {}).items()) if item[0].startswith(folders)]


def _how(section: str) -> set[str]:
    """Fields of a section that shape no result."""
    return {path.partition(".")[2] for path in RUNTIME_FIELDS if path.startswith(f"{section}.")}


def _software() -> tuple[object, ...]:
    """The project's version and prompts, and the libraries that compute."""
    package = Path(ROOT) / "rldf_ray"
    texts = [
        file_digest(path)
        for path in sorted(package.rglob("*"))
        # The server and the sweeps are links in a checkout, and files in what is installed.
        if path.suffix in {".txt", ".yaml", ".jsonl"}
        and path.parent.name != "presets"
        and not path.is_relative_to(package / "apps")
    ]
    return versions(), texts
