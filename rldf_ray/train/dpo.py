"""DPO (Rafailov et al. 2023, arXiv:2305.18290): the policy learns from the pairs, by TRL's trainer.

-log sigmoid(beta (log p/q(y_good | x) - log p/q(y_bad | x))), q the policy it begins as
"""

from __future__ import annotations

from typing import Any

from rldf_ray.train.worker import OnProgress, TrainJob, run_training


def train_dpo(job: TrainJob, on_progress: OnProgress) -> list[dict[str, Any]]:
    """Train `folders["model"]` on `folders["data"]`/pairs.parquet into `folders["out"]`/model.

    Raises:
        TrainingError: a worker failed.
    """
    return run_training(_loop, job, on_progress)


def _loop(config: dict[str, Any]) -> None:
    from trl import DPOConfig, DPOTrainer

    from rldf_ray.train.preference import Objective, learn
    from rldf_ray.train.worker import prepare_worker

    job: TrainJob = config["job"]
    learn(
        job,
        prepare_worker(job),
        Objective(
            name="dpo",
            trainer=DPOTrainer,
            configuration=DPOConfig,
            settings=lambda rows: {},
            rows=lambda pairs: pairs,
            reference={"ref_chosen_logps": "chosen_ids", "ref_rejected_logps": "rejected_ids"},
            counts=lambda rows: {},
        ),
    )
