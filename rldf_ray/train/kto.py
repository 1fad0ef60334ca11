"""KTO (Ethayarajh et al. 2024, arXiv:2402.01306): desirable answers and others, by TRL's trainer.

1 - sigmoid(beta (log p/q(y | x) - KL)) for a desirable answer y, and with the sign turned for
an undesirable one; the KL is estimated on prompts with answers to others
"""

from __future__ import annotations

from typing import Any

from rldf_ray.train.worker import OnProgress, TrainJob, run_training


def train_kto(job: TrainJob, on_progress: OnProgress) -> list[dict[str, Any]]:
    """Train `folders["model"]` on `folders["data"]`/pairs.parquet into `folders["out"]`/model.

    Raises:
        TrainingError: a worker failed.
    """
    return run_training(_loop, job, on_progress)


def _loop(config: dict[str, Any]) -> None:
    from datasets import Dataset
    from trl import KTOConfig, KTOTrainer

    from rldf_ray.train.preference import Objective, learn
    from rldf_ray.train.preference_rows import answers_of, columns_of, in_batches, weights_of
    from rldf_ray.train.worker import prepare_worker

    job: TrainJob = config["job"]
    section = job.plan.kto

    def rows(pairs: Any) -> Any:
        answers = in_batches(
            answers_of(pairs), section.micro_batch, job.plan.seed, section.max_length
        )
        return Dataset.from_dict(columns_of(answers))

    def counts(rows: Any) -> dict[str, int]:
        desirable = sum(rows["label"])
        return {"desirable": desirable, "undesirable": len(rows) - desirable}

    def settings(rows: Any) -> dict[str, Any]:
        desirable, undesirable = weights_of(section, **counts(rows))
        return {
            "desirable_weight": desirable,
            "undesirable_weight": undesirable,
            # The mismatched answers of a batch are of its own rows.
            "train_sampling_strategy": "sequential",
        }

    learn(
        job,
        prepare_worker(job),
        Objective(
            name="kto",
            trainer=KTOTrainer,
            configuration=KTOConfig,
            settings=settings,
            rows=rows,
            reference={"ref_logps": "completion_ids", "ref_KL_logps": "KL_completion_ids"},
            counts=counts,
        ),
    )
