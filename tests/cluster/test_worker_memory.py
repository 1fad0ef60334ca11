"""What training workers hold in memory: each its own, and once what they share on a machine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.cluster.memory_room import WORKER_GIB, check_memory, memory_needed_gib
from rldf_ray.cluster.placement import PlacementError, Resources
from rldf_ray.cluster.worker_memory import ppo_memory, sft_memory
from rldf_ray.plan import Plan
from tests.fakes import plan_with

BILLION = 1e9 / 2**30


def plan(workers: int, *overrides: str, stage: int = 0) -> Plan:
    batch = "batch_size: 8, micro_batch: 1"
    return plan_with(
        f"train={{workers: {workers}, zero_stage: {stage}}}",
        f"sft={{{batch}}}",
        f"reward={{{batch}}}",
        f"dpo={{{batch}}}",
        "ppo={batch_size: 8, micro_batch: 1, rollout_batch: 8, episodes: 8}",
        *overrides,
    )


@pytest.mark.parametrize("size", [135e6, 1.5e9])
def test_every_worker_has_models_of_its_own_without_zero(size: float) -> None:
    """By hand, in float32: two trained of 16 bytes; the frozen ones are mapped, once for all."""
    overrides = ("ppo.dtype=float32", "train.dtype=float32")
    share = 2 * 16 * size / 2**30 + WORKER_GIB
    alone = memory_needed_gib(plan(1, *overrides), size)
    for workers in (2, 4):
        grown = memory_needed_gib(plan(workers, *overrides), size) - alone
        assert grown == pytest.approx((workers - 1) * share)


def test_frozen_weights_are_copies_where_their_files_are_of_another_precision() -> None:
    """By hand, bytes a parameter: a reference of 4 in float32, the reward model of 2 as it is."""
    mixed = ppo_memory(plan(1, "ppo.dtype=float32", "train.dtype=bfloat16"), None, offload=False)
    assert (mixed.own, mixed.mapped) == (2 * 16 + 4, 2)
    alike = ppo_memory(plan(1, "ppo.dtype=bfloat16", "train.dtype=bfloat16"), None, offload=False)
    assert (alike.own, alike.mapped) == (2 * 20, 2 + 2)


def test_a_base_under_adapters_is_shared_where_its_file_has_its_precision() -> None:
    adapted = plan(4, "train.lora.rank=8", "ppo.dtype=bfloat16", "train.dtype=bfloat16")
    assert ppo_memory(adapted, "bfloat16", offload=False).together(4) == 2
    for stored in ("float32", None):
        assert ppo_memory(adapted, stored, offload=False).together(4) == 4 * 2
    # DeepSpeed writes worker 0's weights over those of the others before SFT begins.
    assert sft_memory(adapted.train, offload=False).together(4) == 4 * 2


def test_with_adapters_sft_may_need_more_than_ppo() -> None:
    adapted = plan(4, "train.lora.rank=8", "ppo.dtype=bfloat16", "train.dtype=bfloat16")
    needed = memory_needed_gib(adapted, 7e9, "bfloat16")
    assert needed == pytest.approx(1.5 + 4 * WORKER_GIB + 4 * 2 * 7 * BILLION)
    with pytest.raises(PlacementError, match=r"SFT needs about 56.9 GiB .* lower train.workers"):
        check_memory(adapted, 7e9, Resources(cpus=8, gpus=0, memory_gib=40), "bfloat16")


@given(
    workers=st.sampled_from([1, 2, 4, 8]),
    stage=st.integers(0, 3),
    dtype=st.sampled_from(["float32", "bfloat16"]),
)
@settings(deadline=None)
def test_zero_lets_no_worker_hold_more_and_all_together_no_less_than_one_model(
    workers: int, stage: int, dtype: str
) -> None:
    overrides = (f"ppo.dtype={dtype}", f"train.dtype={dtype}")
    held = ppo_memory(plan(workers, *overrides, stage=stage), None, offload=False)
    less = ppo_memory(plan(workers, *overrides, stage=max(0, stage - 1)), None, offload=False)
    assert held.own <= less.own
    assert held.together(workers) >= 2 * 16
    # What ZeRO 3 splits is there once, however many workers there are.
    if stage == 3:
        assert held.together(workers) == pytest.approx(2 * 16 + held.mapped)


def test_what_offload_moves_on_a_cpu_stays_in_the_same_memory() -> None:
    asked = plan(2, "train.offload=true", stage=2)
    kept = plan(2, "train.offload=false", stage=2)
    assert memory_needed_gib(asked, 1e9) == memory_needed_gib(kept, 1e9)
