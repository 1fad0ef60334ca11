"""What an autoscaler may add: the kinds of nodes in the file of `ray up`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rldf_ray.cluster.autoscaler import NO_SCALING, NodeKind, Scaling, scaling_in, scaling_of
from rldf_ray.cluster.nodes import MOST_OF_A_KIND, yet_to_come

ROOT = Path(__file__).resolve().parents[2]
GPUS = {"CPU": 96, "GPU": 8}


def test_the_kinds_of_the_shipped_file_are_its_workers() -> None:
    """It starts with none of them, so a run has to know what will come."""
    kinds = (NodeKind(GPUS, 1), NodeKind(GPUS, 0))
    assert scaling_in(ROOT / "cluster.yaml") == Scaling(kinds, 1)


def test_a_kind_has_at_most_as_many_as_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "bootstrap.yaml"
    file.write_text(
        "max_workers: 3\nhead_node_type: head\navailable_node_types:\n"
        "  head: {resources: {CPU: 8}}\n"
        "  many: {resources: {CPU: 4, memory: 1073741824}, max_workers: 10}\n"
        "  all: {resources: {CPU: 2}}\n"
        "  of one's own: {resources: {}, max_workers: 2}\n",
        encoding="utf-8",
    )
    kinds = (NodeKind({"CPU": 4, "memory": 2**30}, 3), NodeKind({"CPU": 2}, 3))
    assert scaling_in(file) == Scaling(kinds, 3)


@pytest.mark.parametrize("text", ["", "a: [", "available_node_types: 3", "[]", "\x00"])
def test_a_file_that_is_something_else_tells_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bootstrap.yaml"
    assert scaling_in(file) == NO_SCALING
    file.write_text(text, encoding="utf-8")
    assert scaling_in(file) == NO_SCALING


@contextmanager
def monitor(folder: Path, *options: str) -> Iterator[None]:
    """A process with the command line of Ray's monitor."""
    program = folder / "monitor.py"
    program.write_text("print('up', flush=True)\nimport time\ntime.sleep(600)\n", "utf-8")
    command = [sys.executable, "-u", str(program), "--logs-dir=/logs", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_file_is_that_of_the_cluster_which_was_joined(tmp_path: Path) -> None:
    config = f"--autoscaling-config={ROOT / 'cluster.yaml'}"
    with monitor(tmp_path, "--gcs-address=10.77.1.1:6379", config):
        assert scaling_of("10.77.1.1:6379") == scaling_in(ROOT / "cluster.yaml")
        assert scaling_of("10.77.1.2:6379") == NO_SCALING
    assert scaling_of("10.77.1.1:6379") == NO_SCALING


def test_a_cluster_that_nobody_scales_has_the_nodes_it_has(tmp_path: Path) -> None:
    with monitor(tmp_path, "--gcs-address=10.77.1.1:6379"):
        assert scaling_of("10.77.1.1:6379") == NO_SCALING


HEAD = {"CPU": 16.0, "GPU": 1.0, "node:__internal_head__": 1.0, "node:10.77.1.1": 1.0}
WORKER = {"CPU": 16.0, "GPU": 1.0, "memory": 2.0**36, "node:10.77.1.2": 1.0}
SMALL = {"CPU": 16.0, "node:10.77.1.3": 1.0}


@pytest.mark.parametrize(
    ("here", "left"),
    [
        ([HEAD], 2),
        ([HEAD, SMALL], 2),
        ([HEAD, WORKER], 1),
        ([HEAD, WORKER, WORKER], 0),
        ([HEAD, WORKER, WORKER, WORKER], 0),
    ],
)
def test_nodes_that_are_up_are_not_counted_as_to_come(
    here: list[dict[str, float]], left: int
) -> None:
    kind = NodeKind({"CPU": 16, "GPU": 1}, 2)
    found = yet_to_come(Scaling((kind,), 8), here)
    assert len(found) == left and all((one.cpus, one.gpus) == (16, 1) for one in found)


def test_of_nodes_without_end_some_are_counted() -> None:
    endless = Scaling((NodeKind({"CPU": 2}, 10**6),), 10**6)
    assert len(yet_to_come(endless, [HEAD])) == MOST_OF_A_KIND


def test_a_node_is_of_one_kind() -> None:
    size = {"CPU": 16, "GPU": 1}
    both = Scaling((NodeKind(size, 1), NodeKind(size, 1)), 2)
    assert len(yet_to_come(both, [HEAD, WORKER])) == 1


@pytest.mark.parametrize("up", [0, 1, 2, 3])
def test_kinds_together_have_no_more_nodes_than_the_cluster(up: int) -> None:
    """Kinds with two nodes each, of one size, in a cluster with two workers."""
    both = Scaling((NodeKind({"CPU": 16, "GPU": 1}, 2), NodeKind({"CPU": 16, "GPU": 1}, 2)), 2)
    assert len(yet_to_come(both, [HEAD, *[WORKER] * up])) == max(0, 2 - up)
    # A worker of another kind has taken its place.
    assert len(yet_to_come(both, [HEAD, SMALL])) == 1


def test_where_not_all_kinds_can_come_those_with_gpus_do() -> None:
    kinds = (NodeKind({"CPU": 64}, 2), NodeKind({"CPU": 16, "GPU": 8}, 2))
    coming = yet_to_come(Scaling(kinds, 3), [HEAD])
    assert [(one.cpus, one.gpus) for one in coming] == [(16, 8), (16, 8), (64, 0)]
    assert [one.gpus for one in yet_to_come(Scaling(kinds, 4), [HEAD])] == [0, 0, 8, 8]
