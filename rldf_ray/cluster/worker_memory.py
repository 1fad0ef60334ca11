"""What a training worker holds of a model, in bytes a parameter: by precision, ZeRO and adapters.

Measured with DeepSpeed 0.19 on CPUs, where `mapped` weights are pages of their file.
"""

from __future__ import annotations

from dataclasses import dataclass

from rldf_ray.cluster.placement import BYTES
from rldf_ray.plan import Plan, TrainSection


@dataclass(frozen=True, kw_only=True)
class WorkerMemory:
    """Bytes a parameter of the plan's model.

    Attributes:
        own: of memory that is one worker's alone.
        mapped: of frozen weights that are in memory as they are in their files; on CPUs all workers
            of a machine have them in the same memory.
    """

    own: float
    mapped: float = 0.0

    @property
    def whole(self) -> float:
        """Of a worker that shares nothing, as on a GPU."""
        return self.own + self.mapped

    def together(self, workers: int) -> float:
        """Of all workers on a machine without GPU."""
        return workers * self.own + self.mapped


def sft_memory(train: TrainSection, *, offload: bool) -> WorkerMemory:
    """In SFT, and alike in the reward model, DPO and KTO: one model, or an adapter on a frozen one.

    The frozen one is every worker's own: DeepSpeed begins by sending all weights from worker 0 to
    the others, over what these have mapped.

    Args:
        offload: the optimizer's part is elsewhere than in the memory that is counted.
    """
    if train.lora.rank:
        return WorkerMemory(own=BYTES[train.dtype])
    return WorkerMemory(own=_trained(train, train.dtype, offload=offload))


def ppo_memory(plan: Plan, stored: str | None, *, offload: bool) -> WorkerMemory:
    """In PPO: actor and critic, if there is one, are trained, reference and reward model frozen.

    With adapters all four are on one frozen base, and what the adapters take is small beside it.

    Args:
        stored: precision of the plan's model in its files; None where it is not known.
        offload: the optimizer's part is elsewhere than in the memory that is counted.
    """
    train, section = plan.train, plan.ppo
    size = BYTES[section.dtype]
    if train.lora.rank:
        return _frozen(size, mapped=stored == section.dtype)
    trained = section.models_trained * _trained(train, section.dtype, offload=offload)
    # The stages before PPO have written both in their precision; the reward model is read as it is.
    reference = _frozen(size, mapped=train.dtype == section.dtype)
    return WorkerMemory(own=trained + reference.own, mapped=reference.mapped + BYTES[train.dtype])


def _frozen(size: int, *, mapped: bool) -> WorkerMemory:
    """Weights that are read alone: of another precision than their file's they are a copy."""
    return WorkerMemory(own=0, mapped=size) if mapped else WorkerMemory(own=size)


def _trained(train: TrainSection, dtype: str, *, offload: bool) -> float:
    """A model whose parameters are all trained: weights, gradients and what the optimizer keeps.

    That is Adam's two moments and, below float32, a float32 copy of the weights; without ZeRO a
    float32 copy of the gradients, too. ZeRO 1, 2 and 3 split optimizer, gradients and weights over
    all workers, one after the other.
    """
    stage, size = train.zero_stage, BYTES[dtype]
    copies = 0 if size == 4 else 4
    optimizer = 0 if offload and stage >= 2 else 8 + copies
    gradients = size + (copies if stage == 0 else 0)
    parts = ((optimizer, stage >= 1), (gradients, stage >= 2), (size, stage == 3))
    return sum(part / (train.workers if split else 1) for part, split in parts)
