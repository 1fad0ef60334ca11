"""The planner: where engines and trainers go, and a refusal that names what is missing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.cluster.memory_room import check_memory, memory_needed_gib
from rldf_ray.cluster.placement import (
    ELSEWHERE,
    NodeSize,
    Placement,
    PlacementError,
    Resources,
    place,
)
from rldf_ray.plan import Plan, load_plan
from tests.fakes import plan_with

LAPTOP = Resources(cpus=2, gpus=0, memory_gib=12)
NODE = Resources(cpus=64, gpus=8, memory_gib=1024)


def plan(engines: int = 1, workers: int = 1, tensor_parallel: int = 1) -> Plan:
    size = 8 * workers
    return plan_with(
        f"engines={{count: {engines}, tensor_parallel: {tensor_parallel}, kv_cache_gib: 1}}",
        f"sft={{batch_size: {size}, micro_batch: 8}}",
        f"reward={{batch_size: {size}, micro_batch: 8}}",
        f"ppo={{batch_size: {size}, micro_batch: 8, rollout_batch: {size}, episodes: {size}}}",
        f"train.workers={workers}",
    )


def test_without_gpus_engine_and_worker_take_turns_on_all_cores() -> None:
    assert place(plan(), LAPTOP) == Placement(
        device="cpu",
        engines=1,
        engine_cpus=1,
        engine_gpus=0,
        workers=1,
        worker_cpus=1,
        worker_gpus=0,
        threads=2,
        engine_threads=2,
    )


def test_workers_share_the_cores_as_threads() -> None:
    found = place(plan(workers=3), Resources(cpus=16, gpus=0, memory_gib=64))
    assert (found.workers, found.threads) == (3, 5)


def test_a_worker_computes_with_the_cores_of_one_node() -> None:
    nodes = (NodeSize(0, 0), *[NodeSize(8, 0)] * 8)
    assert place(plan(workers=1), Resources(64, 0, 64, nodes)).threads == 8
    # The nodes that are to come are not known yet.
    assert place(plan(workers=1), Resources(64, 0, 64, nodes[:1])).threads == 64


def test_with_gpus_engines_and_workers_have_devices_of_their_own() -> None:
    found = place(plan(engines=2, workers=4, tensor_parallel=2), NODE)
    assert found.device == "cuda"
    assert (found.engines, found.engine_gpus) == (2, 2)
    assert (found.workers, found.worker_gpus) == (4, 1)


@pytest.mark.parametrize("name", ["quickstart", "opinions", "smoke"])
def test_the_small_presets_fit_a_laptop_of_two_cores(name: str) -> None:
    small = load_plan(name)
    assert place(small, LAPTOP).device == "cpu"
    check_memory(small, 135e6, LAPTOP)


def test_the_papers_preset_fits_the_node_its_comment_names() -> None:
    found = place(load_plan("paper-7b"), NODE)
    assert found.engines * found.engine_gpus + found.workers * found.worker_gpus <= NODE.gpus


def test_too_few_gpus_are_named_with_what_to_change() -> None:
    with pytest.raises(PlacementError) as caught:
        place(plan(engines=2, workers=3, tensor_parallel=2), Resources(64, 4, 256))
    message = str(caught.value)
    assert "needs 7 GPUs" in message and "Ray reports 4" in message
    for field in ("engines.count", "engines.tensor_parallel", "train.workers"):
        assert field in message


def test_too_few_cpus_are_named_with_what_to_change() -> None:
    with pytest.raises(PlacementError) as caught:
        place(plan(engines=2, workers=3), Resources(cpus=4, gpus=0, memory_gib=64))
    message = str(caught.value)
    assert "needs 5 CPUs" in message and "Ray reports 4" in message
    assert "engines.count=2" in message and "train.workers=3" in message


def test_too_few_cpus_beside_enough_gpus_are_named_as_well() -> None:
    with pytest.raises(PlacementError, match="CPU"):
        place(plan(engines=2, workers=2), Resources(cpus=2, gpus=8, memory_gib=64))


@settings(deadline=None, max_examples=60)
@given(
    engines=st.integers(1, 4),
    workers=st.integers(1, 4),
    tensor_parallel=st.integers(1, 2),
    cpus=st.integers(1, 16),
    gpus=st.integers(0, 16),
)
def test_what_is_reserved_never_exceeds_what_ray_reports(
    engines: int, workers: int, tensor_parallel: int, cpus: int, gpus: int
) -> None:
    # With GPUs, CPUs are plentiful: see the test above.
    reported = Resources(cpus=cpus if gpus == 0 else 64, gpus=gpus, memory_gib=64)
    asked = plan(engines, workers, tensor_parallel)
    needed = engines + workers if gpus == 0 else engines * tensor_parallel + workers
    if needed > (cpus if gpus == 0 else gpus):
        with pytest.raises(PlacementError):
            place(asked, reported)
        return
    found = place(asked, reported)
    assert (found.engines, found.workers) == (engines, workers)
    assert engines * found.engine_cpus + workers * found.worker_cpus <= reported.cpus
    assert engines * found.engine_gpus + workers * found.worker_gpus <= reported.gpus
    assert found.threads >= 1 and (gpus > 0 or workers * found.threads <= max(cpus, workers))
    assert (found.device == "cuda") == (gpus > 0)


@pytest.mark.parametrize("teacher", ["openai:m", "vllm:m"])
@pytest.mark.parametrize("referee", ["prompted", "trained"])
def test_engine_and_worker_share_one_gpu_whoever_speaks(teacher: str, referee: str) -> None:
    shared = load_plan("one-80gb", [f"teacher={teacher}", f"referee.kind={referee}"])
    found = place(shared, Resources(cpus=16, gpus=1, memory_gib=200))
    assert (found.device, found.engine_gpus, found.worker_gpus) == ("cuda", 0.4, 0.6)


def test_without_ppo_engine_and_worker_have_the_one_gpu_in_turn() -> None:
    one_gpu = Resources(cpus=1, gpus=1, memory_gib=200)
    whole = plan_with("train.after=[dpo]", "referee.kind=prompted")
    assert whole.engines.gpu_memory_utilization == 0.85
    found = place(whole, one_gpu)
    assert (found.engine_gpus, found.worker_gpus) == (1, 1)
    fitted = plan_with("train.after=[dpo]", "referee.kind=trained")
    found = place(fitted, one_gpu)
    assert found.engine_gpus + found.worker_gpus == pytest.approx(1)
    assert found.engine_cpus + found.worker_cpus <= 1


def test_without_ppo_engines_and_workers_need_room_one_after_the_other() -> None:
    asked = plan(engines=2, workers=4, tensor_parallel=2)
    after = asked.train.model_copy(update={"after": ("dpo",)})
    alone = asked.model_copy(update={"train": after})
    assert place(alone, Resources(cpus=4, gpus=4, memory_gib=64)).workers == 4
    assert place(alone, Resources(cpus=4, gpus=0, memory_gib=64)).engines == 2
    with pytest.raises(PlacementError, match=r"needs 4 GPUs \(2 engines x 2 or 4 workers"):
        place(alone, Resources(cpus=64, gpus=3, memory_gib=64))
    with pytest.raises(PlacementError, match=r"needs 4 CPUs \(engines.count=2 or train.workers=4"):
        place(alone, Resources(cpus=3, gpus=0, memory_gib=64))


def test_an_engine_that_no_node_holds_is_refused_however_many_gpus_there_are() -> None:
    """It would wait for a node for ever, in the last stage alone where endpoints debate."""
    wide = plan_with("train.after=[dpo]", "teacher=openai:m", "engines={tensor_parallel: 8}")
    halves = Resources(64, 8, 256, (NodeSize(0, 0), NodeSize(32, 4), NodeSize(32, 4)))
    with pytest.raises(PlacementError, match=r"needs 1 engine.s. of 8 GPUs.* 4 GPUs\)") as refused:
        place(wide, halves)
    assert "engines.tensor_parallel" in str(refused.value)
    assert place(wide, Resources(64, 8, 256, (NodeSize(64, 8),))).engine_gpus == 8
    # Nobody knows the nodes.
    assert place(wide, Resources(64, 8, 256)).engine_gpus == 8


@given(
    count=st.integers(1, 4),
    size=st.integers(1, 4),
    gpus=st.lists(st.integers(0, 8), min_size=1, max_size=4),
)
@settings(deadline=None)
def test_engines_that_are_placed_are_on_one_node_each(
    count: int, size: int, gpus: list[int]
) -> None:
    asked = plan_with(
        "train.after=[dpo]",
        "teacher=openai:m",
        f"engines={{count: {count}, tensor_parallel: {size}}}",
    )
    nodes = tuple(NodeSize(64, number) for number in gpus)
    reported = Resources(64.0 * len(nodes), sum(gpus), 256, nodes)
    held = sum(number // size for number in gpus)
    if sum(gpus) == 0:
        return
    if held >= count:
        assert place(asked, reported).engines == count
    else:
        with pytest.raises(PlacementError):
            place(asked, reported)


def test_where_endpoints_answer_nothing_is_placed() -> None:
    assert ELSEWHERE.describe() == "no engine and no worker: nothing is computed here"


def test_the_decision_is_said_in_one_line() -> None:
    on_cpu = place(plan(), LAPTOP).describe()
    on_gpus = place(plan(engines=2, workers=4, tensor_parallel=2), NODE).describe()
    assert "\n" not in on_cpu + on_gpus
    assert on_cpu.startswith("CPU: 1 engine(s) with 1 CPU and 0 GPU each, 1 training worker(s)")
    assert on_cpu.endswith("2 threads")
    assert on_gpus.startswith("GPUs: 2 engine(s) with 1 CPU and 2 GPU each, 4 training worker(s)")


# ---- memory


def test_memory_grows_with_the_model_the_cache_and_the_engines() -> None:
    least = memory_needed_gib(plan(), 135e6)
    assert memory_needed_gib(plan(), 360e6) > least
    assert memory_needed_gib(plan(engines=2), 135e6) > least
    larger = plan_with("engines={kv_cache_gib: 4}")
    smaller = plan_with("engines={kv_cache_gib: 1}")
    grown = memory_needed_gib(larger, 135e6) - memory_needed_gib(smaller, 135e6)
    assert grown == pytest.approx(3.0)


def test_memory_counts_trained_and_frozen_weights_of_ppo() -> None:
    """Actor and critic at 16 bytes a parameter; reference and engine in theirs; and the reward
    model in that of its own training, bfloat16."""
    for dtype, size in (("float32", 4), ("bfloat16", 2)):
        asked = plan_with(f"ppo.dtype={dtype}", "train.zero_stage=2", "engines={dtype: bfloat16}")
        grown = memory_needed_gib(asked, 2e9) - memory_needed_gib(asked, 1e9)
        assert grown == pytest.approx((2 * 16 + 2 * size + 2) * 1e9 / 2**30)
        alone = asked.model_copy(
            update={"ppo": asked.ppo.model_copy(update={"answers_per_prompt": 4})}
        )
        assert memory_needed_gib(asked, 1e9) - memory_needed_gib(alone, 1e9) == pytest.approx(
            16 * 1e9 / 2**30
        )


def test_memory_counts_a_shared_base_once() -> None:
    for dtype, size in (("float32", 4), ("bfloat16", 2)):
        asked = plan_with(f"ppo.dtype={dtype}", "train.lora.rank=8", "engines={dtype: bfloat16}")
        grown = memory_needed_gib(asked, 2e9) - memory_needed_gib(asked, 1e9)
        assert grown == pytest.approx(2 * size * 1e9 / 2**30)


def test_a_model_too_large_for_the_memory_is_refused_with_what_to_change() -> None:
    with pytest.raises(PlacementError) as caught:
        check_memory(plan(), 7e9, LAPTOP)
    message = str(caught.value)
    assert f"{memory_needed_gib(plan(), 7e9):.1f} GiB" in message and "12.0" in message
    assert "smaller model" in message and "engines.kv_cache_gib" in message


def test_memory_of_ppo_and_of_a_single_worker_is_one_nodes() -> None:
    asked = plan()
    needed = memory_needed_gib(asked, 1e9)
    whole = [NodeSize(8, 0, needed + 1), NodeSize(8, 0, 4)]
    check_memory(asked, 1e9, Resources(16, 0, needed + 5, tuple(whole)))
    halves = [NodeSize(8, 0, 0.6 * needed)] * 2
    with pytest.raises(PlacementError, match=f"{0.6 * needed:.1f} on the largest node"):
        check_memory(asked, 1e9, Resources(16, 0, 1.2 * needed, tuple(halves)))
    alone = asked.model_copy(update={"train": asked.train.model_copy(update={"after": ("dpo",)})})
    needed = memory_needed_gib(alone, 1e9)
    halves = [NodeSize(8, 0, 0.6 * needed)] * 2
    with pytest.raises(PlacementError, match="on the largest node"):
        check_memory(alone, 1e9, Resources(16, 0, 1.2 * needed, tuple(halves)))


def test_engines_on_other_nodes_take_no_memory_from_the_workers() -> None:
    asked = plan()
    needed = memory_needed_gib(asked, 1e9)
    nodes = [NodeSize(1, 0, needed - 2)] * 2
    assert "are free on the largest node" in check_memory(
        asked, 1e9, Resources(2, 0, 2 * needed - 4, tuple(nodes))
    )


def test_memory_is_not_counted_where_the_models_are_on_gpus() -> None:
    check_memory(plan(), 7e9, Resources(cpus=8, gpus=2, memory_gib=8))


@given(st.integers(1, 512))
def test_blocks_that_a_cpu_engine_does_not_have_are_refused(size: int) -> None:
    wanted = plan_with(f"engines.block_size={size}")
    if size % 32 == 0:
        assert place(wanted, LAPTOP).device == "cpu"
        return
    with pytest.raises(PlacementError, match=f"engines.block_size={size}.* multiple of 32"):
        place(wanted, LAPTOP)


def test_blocks_of_a_gpu_engine_are_left_to_it() -> None:
    assert place(plan_with("engines.block_size=16"), NODE).device == "cuda"
