"""PPO (METHOD 3): E[R] - beta KL(pi || pi_SFT), one reward at an answer's end.

    prompts -> engines (pi_old) -> rollouts -> reward model, own rewards -> one reward an answer
                  ^                    |-> actor, critic, reference: logprobs, values, KL
                  |                    v
            weight sync <- actor, critic <- clipped losses <- advantages (GAE)

With `ppo.answers_per_prompt` above 1 there is no critic: a prompt's answers are each other's
baseline. Old log-probabilities are recomputed by the trainer in the batches it trains with,
truncated importance weights stand for the difference between engine and trainer, and every
optimizer step takes one mean over all its tokens, whatever the sharding. docs/ppo.md has every
formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from torch import Tensor

from rldf_ray.train.checkpoint import (
    checkpoints,
    load_checkpoint,
    remove_old,
    rewind,
    save_checkpoint,
    set_score,
)
from rldf_ray.train.collectives import barrier
from rldf_ray.train.diverged import check_finite
from rldf_ray.train.ppo.metrics import ANSWERS, Laps, append_answers
from rldf_ray.train.ppo.prompts import Prompts
from rldf_ray.train.ppo.resume_check import KeptAnswers
from rldf_ray.train.ppo.rewards import Rewards
from rldf_ray.train.ppo.rollout import Rollout, RolloutSource
from rldf_ray.train.ppo.sleep import EngineSleep
from rldf_ray.train.ppo.step import PPO
from rldf_ray.train.ppo.weight_sync import Policy, shared_memory_sync
from rldf_ray.train.worker import (
    PROGRESS,
    OnProgress,
    TrainJob,
    has_begun,
    log_step,
    note_begun,
    prepare_worker,
    run_training,
)


def train_ppo(job: TrainJob, on_progress: OnProgress) -> list[dict[str, Any]]:
    """Train `folders["sft"]` against `folders["reward"]` into `folders["out"]`/model.

    `extra["pool"]` is the `EnginePool` that holds pi_SFT at the start; it holds the policy at the
    end. Returns the figures of every rollout step.

    Raises:
        TrainingError: a worker failed, or an engine died.
    """
    return run_training(_loop, job, on_progress)


def _loop(config: dict[str, Any]) -> None:
    job: TrainJob = config["job"]
    rank = prepare_worker(job)
    section, out, pool = job.plan.ppo, job.folders["out"], job.extra["pool"]
    ppo, steps = PPO(job), section.episodes // section.rollout_batch
    rows = pq.read_table(Path(job.folders["data"]) / "prompts.parquet").to_pylist()
    prompts = Prompts.of(rows, section.held_out_prompts)
    source = RolloutSource(pool, prompts, section, job.plan.seed, rank, ppo.workers)
    _resume(job, rank, ppo, source)
    rewards = Rewards(job, ppo.score, rank)
    answered, engine_sleep = KeptAnswers(out, rank), EngineSleep(pool, rank, job.plan.engines.sleep)
    pool.wait_until_ready()
    # Earlier workers of this job may have left the engines with another policy, or asleep.
    replacing = has_begun(out)
    if rank == 0:
        note_begun(out)
    with shared_memory_sync(pool) as engines:
        policy = ppo.models.policy()
        if rank == 0:
            if replacing:
                engine_sleep.wake()
            if replacing or ppo.steps_done or policy.adapter is not None:
                engines.sync(policy, f"ppo-{ppo.steps_done}")
        del policy  # of a whole model it is a copy of all weights
        barrier()
        for step in range(ppo.steps_done, steps):
            laps = Laps()
            answering = source.policy_of(step)
            rollouts, held_out = source.of(step)
            source.begin(step + 1)
            repeated = answered.repeated(step, rollouts)
            if job.plan.train.checkpoint_every is not None:
                answered.keep(step, rollouts)
            engine_sleep.begin()
            laps.end("rollout_seconds")
            scores, by_source = rewards.of(source.rows_of(step), rollouts)
            figures, kl = ppo.step(rollouts, scores)
            held_out_scores, _ = rewards.of(source.held_out_rows, held_out)
            figures |= ppo.held_out_figures(held_out_scores) | by_source | repeated
            check_finite("ppo", {"step": step + 1, **figures})
            laps.end("train_seconds")
            policy = ppo.models.policy()
            source.settle()
            engine_sleep.end()
            if rank == 0:
                engines.sync(policy, f"ppo-{step + 1}")
                laps.end("sync_seconds")
                asked = [row["prompt"] for row in source.rows_of(step)]
                _sample(job, step, asked, rollouts, scores, kl)
                log_step(out, {"step": step + 1, "steps": steps, **figures, **laps.seconds})
                set_score(out, answering, figures.get("held_out_reward", figures["reward"]))
            barrier()
            if _checkpoint(job, rank, ppo, source, policy):
                answered.forget()
            del policy
    answered.forget()
    policy = ppo.models.policy()
    if rank == 0:
        ppo.models.save(policy, Path(out))
    barrier()


def _sample(
    job: TrainJob,
    step: int,
    prompts: Sequence[list[dict[str, str]]],
    rollouts: Sequence[Rollout],
    scores: Tensor,
    kl: Tensor,
) -> None:
    """Write some of a step's answers where a sample is due: of as many prompts as it can have."""
    section, out = job.plan.ppo, job.folders["out"]
    if section.sample_every is None or step % section.sample_every:
        return
    order = sorted(range(len(rollouts)), key=lambda i: i % section.answers_per_prompt)
    some = order[: section.sample_size]
    answers = [rollouts[i] for i in some]
    append_answers(out, step + 1, [prompts[i] for i in some], answers, scores[some], kl[some])


def _resume(job: TrainJob, rank: int, ppo: PPO, source: RolloutSource) -> None:
    """Go on from the newest whole checkpoint, if there is one; what was logged after it goes."""
    out = Path(job.folders["out"])
    *_, last = [None, *checkpoints(out)]
    if last is not None:
        state = load_checkpoint(last, rank, ppo.workers, ppo.engines, (Rollout,))
        ppo.load_state_dict(state["ppo"])
        source.load_state_dict(state["in_flight"])
    if rank == 0:
        rewind([out / PROGRESS, out / ANSWERS], ppo.steps_done)
    barrier()


def _checkpoint(
    job: TrainJob,
    rank: int,
    ppo: PPO,
    source: RolloutSource,
    policy: Policy,
) -> bool:
    """Write a checkpoint where one is due. The data position is the number of steps done."""
    train, out = job.plan.train, job.folders["out"]
    if train.checkpoint_every is None or ppo.steps_done % train.checkpoint_every:
        return False
    save_checkpoint(
        out,
        rank,
        ppo.engines,
        {"ppo": ppo.state_dict(), "in_flight": source.state_dict()},
        lambda folder: ppo.models.export(policy, folder),
        step=ppo.steps_done,
    )
    if rank == 0:
        remove_old(out, train.checkpoint_keep)
    return True
