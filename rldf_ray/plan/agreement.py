"""What has to agree between a plan's sections about training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rldf_ray.plan.training import KL_ERROR_CLIP

if TYPE_CHECKING:
    from rldf_ray.plan.plan import Plan


def check_batches(plan: Plan) -> None:
    """Batches are whole micro-batches of all workers, and PPO's rollouts whole batches.

    Raises:
        ValueError: some are not.
    """
    batches: dict[str, Any] = {"sft": plan.sft, "reward": plan.reward}
    batches |= {name: getattr(plan, name) for name in plan.train.after}
    if plan.referee.fitted:
        batches["referee.fit"] = plan.referee.fit
    workers = plan.train.workers
    for name, section in batches.items():
        if section.batch_size % (section.micro_batch * workers):
            raise ValueError(
                f"{name}.batch_size={section.batch_size} must be a multiple of "
                f"{name}.micro_batch={section.micro_batch} times train.workers={workers}"
            )
    if "ppo" in plan.train.after:
        _check_rollouts(plan)


def _check_rollouts(plan: Plan) -> None:
    ppo, workers = plan.ppo, plan.train.workers
    if plan.engines.sleep and ppo.overlap:
        raise ValueError(
            "engines.sleep=true with ppo.overlap=true: engines that answer while the trainer "
            "works cannot sleep meanwhile; set one of them to false"
        )
    if ppo.rollout_batch % ppo.batch_size:
        raise ValueError(
            f"ppo.rollout_batch={ppo.rollout_batch} must be a multiple of "
            f"ppo.batch_size={ppo.batch_size}"
        )
    if ppo.rollout_batch % (ppo.answers_per_prompt * workers):
        raise ValueError(
            f"ppo.rollout_batch={ppo.rollout_batch} must be a multiple of "
            f"ppo.answers_per_prompt={ppo.answers_per_prompt} times train.workers={workers}"
        )
    if ppo.episodes % ppo.rollout_batch:
        raise ValueError(
            f"ppo.episodes={ppo.episodes} must be a multiple of "
            f"ppo.rollout_batch={ppo.rollout_batch}"
        )


def check_answers(plan: Plan) -> None:
    """Engines have room for a prompt before the longest answers that they give.

    Raises:
        ValueError: they have none.
    """
    for name, longest in _answers_of_engines(plan).items():
        if longest >= plan.engines.max_model_len:
            raise ValueError(
                f"{name}={longest} with engines.max_model_len={plan.engines.max_model_len}: prompt "
                "and answer together are at most that, so no prompt is left room; lower "
                f"{name} or raise engines.max_model_len"
            )


def _answers_of_engines(plan: Plan) -> dict[str, int]:
    """The longest answers to held-out prompts, of PPO, of debaters and of the referee, by field."""
    answers = {"evaluate.max_tokens": plan.evaluate.max_tokens}
    if "ppo" in plan.train.after:
        answers["ppo.max_tokens"] = plan.ppo.max_tokens
    # Of other protocols, and where all answers are chosen, another field is the limit.
    writing = plan.debate.answers != "chosen" or plan.topics.judgement_share < 1
    if plan.debate.protocol == "multirole" and writing and _on_engines(plan, plan.debate_parts()):
        answers["debate.max_tokens"] = plan.debate.max_tokens
    most = plan.referee.evaluation_tokens
    if most is not None and _on_engines(plan, ("referee", *plan.referee_parts())):
        answers["referee.evaluation_tokens"] = most
    return answers


def _on_engines(plan: Plan, parts: Iterable[str]) -> bool:
    """Whether a model that answers one of these parts is loaded on the plan's engines."""
    speakers = [plan.speaker_of(part) for part in parts]
    return any(speaker.local and speaker.on_engines for speaker in speakers)


def check_ppo(plan: Plan) -> None:
    """Nothing where the plan has no PPO, or PPO can do all of its steps and trains the policy.

    Raises:
        ValueError: a field would end it half-way, or leave the policy as it is.
    """
    if "ppo" not in plan.train.after:
        return
    ppo, workers = plan.ppo, plan.train.workers
    steps = ppo.episodes // ppo.rollout_batch
    if ppo.value_warmup >= steps:
        raise ValueError(
            f"ppo.value_warmup={ppo.value_warmup} of {steps} rollout steps (ppo.episodes="
            f"{ppo.episodes} over ppo.rollout_batch={ppo.rollout_batch}): the policy would never "
            "be trained; lower it, or raise ppo.episodes"
        )
    farthest = KL_ERROR_CLIP * ppo.rollout_batch
    if ppo.kl_target is not None and farthest >= ppo.kl_horizon:
        raise ValueError(
            f"ppo.kl_horizon={ppo.kl_horizon} with ppo.rollout_batch={ppo.rollout_batch}: a step "
            f"may change beta by {KL_ERROR_CLIP:g} * rollout_batch / kl_horizon of it, and beta "
            f"would not stay above 0; allowed is more than {farthest:g}"
        )
    for source in ppo.rewards:
        if source.name == "std":
            raise ValueError(
                "ppo.rewards: one is called std, and its figure reward_std is the deviation of all "
                "rewards: give the function another name"
            )
        if source.max_calls is not None and source.max_calls < workers:
            raise ValueError(
                f"ppo.rewards: max_calls={source.max_calls} of {source.name} with train.workers="
                f"{workers}: workers share the calls out, and some would have none; allowed is "
                f"{workers} or more, or null"
            )
