"""A training whose weights are no numbers any more ends at the step that shows it."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rldf_ray.train.diverged import DIVERGED, DivergedError, check_finite
from rldf_ray.train.ppo.metrics import rollout_figures
from rldf_ray.train.trl_callbacks import LogProgress
from rldf_ray.train.worker import read_progress
from tests.train.tiny import random_rollouts


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("figure", DIVERGED)
def test_a_figure_that_is_no_number_is_named_with_its_step(figure: str, value: Any) -> None:
    with pytest.raises(DivergedError, match=rf"sft: {figure} is not a finite number at step 7"):
        check_finite("sft", {"step": 7, figure: value})
    check_finite("sft", {"step": 7, figure: 0.0, "explained_variance": value})


@pytest.mark.parametrize("first", [True, False])
def test_every_worker_of_trls_trainers_ends_and_the_first_has_logged_it(
    tmp_path: Path, first: bool
) -> None:
    out = tmp_path / "reward"
    out.mkdir()
    state = SimpleNamespace(is_world_process_zero=first, global_step=3, max_steps=9)
    progress = LogProgress(str(out))
    progress.on_log(None, state, None, {"loss": 0.5, "eval_loss": math.nan})
    with pytest.raises(DivergedError, match="reward: loss is not a finite number at step 3"):
        progress.on_log(None, state, None, {"loss": math.nan})
    logged = [line["loss"] for line in read_progress(str(out))]
    assert logged == ([0.5, None] if first else [])


def test_the_deviation_of_rewards_that_are_no_numbers_is_none_either() -> None:
    rollouts = random_rollouts(3)

    def deviation(*scores: float) -> float:
        batch = SimpleNamespace(
            engine_logprobs=torch.zeros(3, 2), mask=torch.ones(3, 2, dtype=torch.bool)
        )
        made: Any = SimpleNamespace(old_logprobs=torch.zeros(3, 2), batch=batch)
        figures = rollout_figures(rollouts, torch.tensor(scores), torch.zeros(3), [made])
        return figures["reward_std"]

    assert math.isnan(deviation(1.0, math.nan, 2.0))
    assert deviation(0.1, 0.1, 0.1) == pytest.approx(0, abs=1e-7)
    assert deviation(0.0, 3.0, 0.0) == pytest.approx(math.sqrt(2))


@pytest.mark.usefixtures("alone")
def test_trls_trainers_do_not_log_a_mean_in_the_place_of_a_loss_that_is_none(
    folders: dict[str, str], tmp_path: Path
) -> None:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    from rldf_ray.train.worker import trainer_arguments
    from tests.train.tiny import tiny_job

    job = tiny_job({**folders, "out": str(tmp_path / "sft")})
    (tmp_path / "sft").mkdir(exist_ok=True)
    arguments = trainer_arguments(job, job.plan.sft)
    model = AutoModelForCausalLM.from_pretrained(folders["sft"])
    with torch.no_grad():
        model.model.norm.weight.fill_(math.nan)
    ids = [{"input_ids": [4, 5, 6], "labels": [4, 5, 6]} for _ in range(4)]
    trainer = Trainer(
        model=model,
        args=TrainingArguments(**arguments),
        train_dataset=Dataset.from_list(ids),
        callbacks=[LogProgress(str(tmp_path / "sft"))],
    )
    with pytest.raises(DivergedError, match="sft: loss is not a finite number at step 1"):
        trainer.train()
