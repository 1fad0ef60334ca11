"""Nodes written down: how they are read, and what is missing when a plan does not fit them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.cluster.placement import PlacementError, Resources, place
from rldf_ray.plan import load_plan
from rldf_ray.preflight.nodes import Node, arrange, gpu_memory_gb, parse_nodes
from tests.fakes import plan_with

SIZES = {"four-32gb": 7e9, "one-80gb": 7e9, "paper-7b": 7e9, "two-nodes": 7e9}
NODES = {
    "four-32gb": "1x 4 gpus 32 GB",
    "one-80gb": "1x 1 gpu 80 GB",
    "paper-7b": "1x8 gpus 80GB 96 cpus",
    "two-nodes": "2x 8 gpus 80 GB",
}


def test_groups_of_nodes_are_read_in_any_order_and_spelling() -> None:
    assert parse_nodes("1x8 gpus 80GB, 2X 96cpus 1000 GB ram 8gpus") == [
        Node(8, 80),
        Node(8, cpus=96, ram_gb=1000),
        Node(8, cpus=96, ram_gb=1000),
    ]
    assert parse_nodes("1x 8 cpus")[0].gpus == 0


@pytest.mark.parametrize("text", ["", "8 gpus", "2x 8 gpu 80", "1x 8 tpus", "0x 1 gpu", "1x,,"])
def test_what_is_not_a_node_is_answered_with_how_nodes_are_written(text: str) -> None:
    with pytest.raises(PlacementError, match="COUNTx"):
        parse_nodes(text)


@given(st.text(max_size=30))
def test_wild_text_gives_nodes_or_a_placement_error(text: str) -> None:
    try:
        assert parse_nodes(text)
    except PlacementError:
        pass


def test_an_amount_given_twice_is_refused() -> None:
    with pytest.raises(PlacementError, match="twice"):
        parse_nodes("1x 8 gpus 4 gpus")


@given(
    st.lists(
        st.tuples(
            st.integers(1, 9),
            *(st.none() | st.integers(0, 64) for _ in range(4)),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["quickstart", "one-80gb", "paper-7b"]),
    st.booleans(),
)
@settings(deadline=None)
def test_whatever_nodes_have_a_plan_is_placed_or_refused(
    groups: list[tuple[int | None, ...]], name: str, with_ppo: bool
) -> None:
    units = ("gpus", "GB", "cpus", "GB ram")
    text = ", ".join(
        f"{count}x "
        + " ".join(f"{n} {unit}" for n, unit in zip(amounts, units, strict=True) if n is not None)
        for count, *amounts in groups
    )
    plan = load_plan(name, [] if with_ppo else ["train.after=[dpo]"])
    try:
        found = arrange(plan, parse_nodes(text), 7e9)
    except PlacementError:
        return
    assert "nan" not in " ".join(found.nodes)


def test_nodes_without_gpus_say_how_many_cpus_they_have() -> None:
    with pytest.raises(PlacementError, match="say how many each has"):
        arrange(load_plan("quickstart"), parse_nodes("1x 64 GB ram"), 135e6)
    found = arrange(load_plan("quickstart"), parse_nodes("1x 2 cpus 64 GB ram"), 135e6)
    assert found.memory.startswith("PPO needs about")
    with pytest.raises(PlacementError, match="GiB of memory"):
        arrange(load_plan("quickstart"), parse_nodes("2x 2 cpus 4 GB ram"), 135e6)


def test_more_nodes_than_anybody_has_are_refused() -> None:
    with pytest.raises(PlacementError, match="COUNTx"):
        parse_nodes("999999999x 1 gpu")


def test_an_engine_of_ppo_has_weights_of_ppos_precision() -> None:
    """1e9 parameters in float32; the debates' engines are in bfloat16."""
    plan = plan_with("engines.dtype=bfloat16", "ppo.dtype=float32")
    assert gpu_memory_gb(plan, 1e9)[1] == pytest.approx(4)
    alone = plan_with("engines.dtype=bfloat16", "ppo.dtype=float32", "train.after=[dpo]")
    assert gpu_memory_gb(alone, 1e9)[1] == pytest.approx(2)


def test_without_ppo_a_worker_holds_the_policy_alone() -> None:
    """By hand, 1e9 parameters in bf16: one trained model of 2 + 6 + 12 bytes."""
    plan = plan_with("train.after=[dpo]", "train.dtype=bfloat16", "train.zero_stage=0")
    assert gpu_memory_gb(plan, 1e9)[0] == pytest.approx(20)
    found = arrange(plan, parse_nodes("1x 1 gpu 80 GB"), 1e9)
    assert "PPO" not in found.nodes[0] and "1 training worker(s) of" in found.nodes[0]


def test_an_endpoint_speaks_and_one_gpu_does() -> None:
    plan = load_plan("one-80gb", ["teacher=openai:m"])
    found = arrange(plan, parse_nodes("1x 1 gpu 80 GB"), 7e9)
    assert "1 engine(s) of 0.4 GPU and 1 training worker(s) of 0.6 GPU" in found.nodes[0]


@pytest.mark.parametrize("name", SIZES)
def test_the_presets_fit_the_nodes_their_comments_name(name: str) -> None:
    found = arrange(load_plan(name), parse_nodes(NODES[name]), SIZES[name])
    assert len(found.nodes) == (2 if name == "two-nodes" else 1)
    assert "nothing" not in " ".join(found.nodes)


@pytest.mark.parametrize("name", ["four-32gb", "one-80gb"])
def test_all_weights_of_7b_do_not_fit_the_smaller_machines(name: str) -> None:
    with pytest.raises(PlacementError, match=r"a training worker needs .* GB of GPU memory"):
        arrange(load_plan(name, ["train.lora.rank=0"]), parse_nodes(NODES[name]), 7e9)


def test_memory_of_a_worker_is_split_as_zero_says() -> None:
    """By hand, 1e9 parameters in bf16: 2 trained models of 2 + 2 + 12 bytes, 2 frozen of 2.

    Without ZeRO there are gradients in float32 as well.
    """
    batch = "batch_size: 8, micro_batch: 1"

    def worker(train: str, answers: int = 1) -> float:
        plan = plan_with(
            f"train={{workers: 4, {train}}}",
            f"sft={{{batch}}}",
            f"reward={{{batch}}}",
            f"ppo={{batch_size: 4, micro_batch: 1, answers_per_prompt: {answers}}}",
        )
        return gpu_memory_gb(plan, 1e9)[0]

    assert worker("zero_stage: 0") == pytest.approx(2 * 20 + 4)
    assert worker("zero_stage: 1") == pytest.approx(2 * (4 + 3) + 4)
    assert worker("zero_stage: 2") == pytest.approx(2 * (2 + 0.5 + 3) + 4)
    assert worker("zero_stage: 3") == pytest.approx(2 * 4 + 4)
    assert worker("zero_stage: 3, offload: true") == pytest.approx(2 * 1 + 4)
    # No critic: one model is trained.
    assert worker("zero_stage: 2", answers=4) == pytest.approx(2 + 0.5 + 3 + 4)


def test_missing_gpus_are_counted() -> None:
    with pytest.raises(PlacementError, match=r"needs 8 GPUs .* Ray reports 4"):
        arrange(load_plan("paper-7b"), parse_nodes("1x 4 gpus 80 GB"), 7e9)


def test_an_engine_that_no_node_holds_is_refused_without_ppo_as_well() -> None:
    plan = plan_with("train.after=[dpo]", "teacher=openai:m", "engines={tensor_parallel: 8}")
    with pytest.raises(PlacementError, match=r"needs 1 engine\(s\) of 8 GPUs .* room for 0"):
        arrange(plan, parse_nodes("2x 4 gpus 80 GB"), 1e9)
    found = arrange(plan, parse_nodes("1x 4 gpus 80 GB, 1x 8 gpus 80 GB"), 1e9)
    assert "engine(s)" not in found.nodes[0]


def test_engines_are_apart_where_no_node_holds_them_and_the_workers() -> None:
    found = arrange(load_plan("paper-7b"), parse_nodes("2x 4 gpus 80 GB"), 7e9)
    assert found.nodes[0].endswith(
        "PPO's 4 training worker(s) of 1 GPU; 2 of the debates' 2 engine(s)"
    )
    assert found.nodes[1].endswith("PPO's 2 engine(s) of 2 GPU")


def test_engines_that_find_room_beside_the_workers_are_there() -> None:
    found = arrange(load_plan("paper-7b"), parse_nodes("1x 2 gpus 80 GB, 1x 6 gpus 80 GB"), 7e9)
    assert "PPO's 1 engine(s) of 2 GPU;" in found.nodes[0]
    assert "PPO's 1 engine(s) of 2 GPU and 4 training worker(s) of 1 GPU" in found.nodes[1]


@pytest.mark.parametrize("nodes", ["4x 2 gpus 80 GB", "1x 5 gpus 80 GB, 3x 1 gpus 80 GB"])
def test_workers_need_one_node_and_each_engine_one(nodes: str) -> None:
    with pytest.raises(PlacementError, match=r"4 worker\(s\) have to be on one node"):
        arrange(load_plan("paper-7b"), parse_nodes(nodes), 7e9)


def test_the_node_with_room_is_found_and_the_others_are_named() -> None:
    nodes = parse_nodes("1x 4 cpus, 1x 4 gpus 80 GB, 1x 8 gpus 80 GB 4 cpus, 1x 8 gpus 80 GB")
    found = arrange(load_plan("paper-7b"), nodes, 7e9)
    assert found.nodes[3].startswith(
        "node 4 (8 GPUs, 80 GB each): PPO's 2 engine(s) of 2 GPU and 4"
    )
    assert found.nodes[3].endswith("2 of the debates' 2 engine(s)")
    assert all(line.endswith(": nothing") for line in found.nodes[:3])


def test_the_debates_engines_spread_over_two_nodes() -> None:
    plan, nodes = load_plan("two-nodes"), parse_nodes("2x 8 gpus 80 GB")
    found = arrange(plan, nodes, 7e9, [32e9])
    assert "PPO's 3 engine(s) of 2 GPU and 2 training" in found.nodes[0]
    assert found.nodes[0].endswith("4 of the debates' 6 engine(s)")
    assert found.nodes[1].endswith("): 2 of the debates' 6 engine(s)")
    assert found.memory.endswith("32 billion of another speaker: 32 GB")
    with pytest.raises(PlacementError, match=r"needs 12 GPUs .* Ray reports 8"):
        arrange(plan, nodes[:1], 7e9, [32e9])
    # Enough GPUs in all, and none left for an engine's second half.
    with pytest.raises(PlacementError, match=r"the debates need 6 engine.s. .* room for 4"):
        arrange(plan, parse_nodes("1x 8 gpus 80 GB, 4x 1 gpus 80 GB"), 7e9, [32e9])


def test_a_speaker_too_large_for_its_engines_is_told() -> None:
    with pytest.raises(PlacementError, match="an engine needs 72 GB on each GPU"):
        arrange(load_plan("two-nodes"), parse_nodes("2x 8 gpus 80 GB"), 7e9, [72e9])


def test_one_engine_and_one_worker_share_a_single_gpu() -> None:
    found = place(load_plan("one-80gb"), Resources(cpus=16, gpus=1, memory_gib=200))
    assert (found.engine_gpus, found.worker_gpus) == (0.4, 0.6)
    greedy = load_plan("one-80gb", ["engines.gpu_memory_utilization=0.85"])
    with pytest.raises(PlacementError, match=r"engines\.gpu_memory_utilization to 0\.5 or less"):
        place(greedy, Resources(cpus=16, gpus=1, memory_gib=200))
