"""What carries out each stage of the pipeline."""

from __future__ import annotations

from rldf_ray.stages.audit import audit
from rldf_ray.stages.data import data
from rldf_ray.stages.debates import debates
from rldf_ray.stages.dpo import dpo
from rldf_ray.stages.evaluation import evaluate
from rldf_ray.stages.kto import kto
from rldf_ray.stages.ppo import ppo
from rldf_ray.stages.referee import referee
from rldf_ray.stages.reward import reward
from rldf_ray.stages.run import StageFunction
from rldf_ray.stages.sft import sft
from rldf_ray.stages.topics import topics

# By the names of storage/stages.py, in the same order.
STAGES: dict[str, StageFunction] = {
    "referee": referee,
    "topics": topics,
    "audit": audit,
    "debates": debates,
    "data": data,
    "sft": sft,
    "reward": reward,
    "ppo": ppo,
    "dpo": dpo,
    "kto": kto,
    "eval": evaluate,
}
