"""What is measured on a GPU computes the same on both sides, and is counted as it is computed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu_flops import Read, Size, UnknownCardError, backward, forward, peak_tflops
from benchmarks.gpu_models import CASES, RANK, Case, PlainEngine, job_of
from benchmarks.gpu_ppo import SIDES
from benchmarks.gpu_step import ON_CPU, TOY, card_and_peak, goals_of
from benchmarks.gpu_timing import FIGURES, Clock, Work
from rldf_ray.train.ppo.step import PPO

CRITIC, ANSWERS = CASES
ABSENT = ("ray", "vllm", "deepspeed", "trl", "datasets", "fastapi", "mlflow", "wandb")
# Runs the module as `python -m` would, where none of these can be imported and nobody connects.
ALONE = """
import runpy, socket, sys
sys.modules.update(dict.fromkeys({absent!r}))
def refuse(*_): raise OSError("no network")
socket.socket.connect = refuse
sys.argv[1:] = {arguments!r}
runpy.run_module("benchmarks.gpu_step", run_name="__main__")
"""


class KeepsGradients(PlainEngine):
    """Leaves parameters and gradients as the backward pass left them."""

    def step(self) -> None:
        pass


def one_step(
    case: Case, side: str, folder: Path
) -> tuple[dict[str, float], torch.Tensor, dict[str, list[torch.Tensor]]]:
    """Figures, rewards and gradients of a step from adapters that differ from the reference's."""
    job = job_of(case, TOY, "cpu", "float32", folder)
    ppo = PPO(job, SIDES[side](job, TOY, KeepsGradients))
    draw = torch.Generator().manual_seed(5)
    for engine in ppo.engines.values():
        for parameter in engine.module.adapter:
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=draw)
    rollouts = ON_CPU.step(case, side, TOY).rollouts(0)
    rewards = ppo.score(rollouts)
    figures, _ = ppo.step(rollouts, torch.linspace(-1, 1, TOY.rollouts))
    gradients = {
        name: [parameter.grad for parameter in engine.module.parameters()]
        for name, engine in ppo.engines.items()
    }
    return figures, rewards, gradients


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_sides_have_the_same_losses_and_gradients(case: Case, tmp_path: Path) -> None:
    (ours, rewards, gradients), (peft, others, expected) = (
        one_step(case, side, tmp_path / side) for side in SIDES
    )
    assert ours == pytest.approx(peft, rel=1e-4, abs=1e-6)
    assert ours["kl"] > 1e-3 and ours["policy_loss"] != 0
    torch.testing.assert_close(rewards, others, rtol=1e-4, atol=1e-6)
    assert rewards.std() > 0
    assert (
        gradients.keys()
        == expected.keys()
        == ({"actor", "critic"} if case is CRITIC else {"actor"})
    )
    for name, found in gradients.items():
        assert len(found) == case.adapted(TOY) * 7 * 2 + (2 if name == "critic" else 0)
        for mine, other in zip(found, expected[name], strict=True):
            assert other.abs().max() > 0
            torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-7)


def test_rollouts_are_others_at_every_repeat_and_share_prompts_where_a_case_does() -> None:
    step = ON_CPU.step(ANSWERS, "ours", TOY)
    first, again, other = step.rollouts(0), step.rollouts(0), step.rollouts(1)
    assert first == again and first != other
    assert [first[i].prompt_ids == first[i + 1].prompt_ids for i in range(7)] == [
        *(True, True, True),
        False,
        *(True, True, True),
    ]
    assert len({rollout.answer_ids for rollout in first}) == 8


SMALL = Size(hidden=4, inner=8, layers=2, heads=2, kv_heads=1, words=10, tied=True, rollouts=2)


def test_operations_of_a_pass_by_hand() -> None:
    """Linear layers of 16 + 8 + 8 + 16 + 3 x 32 = 144 weights, adapters of 64 at rank 1."""
    read = Read.rows(1, 3, scored=1)
    assert read == Read(tokens=3, pairs=6, scored=1)
    layer, attention, head = 3 * 2 * 144, 4 * 4 * 6, 2 * 4 * 10
    assert forward(SMALL, read, 2) == 2 * (layer + attention) + head
    assert forward(SMALL, read, 2, 1) == 2 * (layer + 3 * 2 * 64 + attention) + head
    # Gradients of inputs, of both of an adapter's matrices and their inputs; the lowest layer's
    # q, k and v need none of their input (32 weights of theirs and 12 of A's).
    unneeded = 3 * 2 * (32 + 12)
    both = layer + 3 * 4 * 64 + 2 * attention
    assert backward(SMALL, read, 2, 1) == 2 * both - unneeded + head


def test_a_prompt_read_once_is_counted_once() -> None:
    """Two prompts of 3 tokens with two answers of 2 each: 7 tokens a row, 6 + 2 x (6 + 3) pairs."""
    assert Read.prompts_once(2, 3, 2, 2, scored=8) == Read(tokens=14, pairs=48, scored=8)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operations_are_those_that_torch_counts(case: Case) -> None:
    """But for attention, which torch does not count on a CPU, and the critic's head."""
    step = ON_CPU.step(case, "peft", TOY)
    ppo, rollouts = step.ppo(), step.rollouts(0)
    with FlopCounterMode(display=False) as counter:
        rewards = ppo.score(rollouts)
    pairs = 8 * 17 * 18 // 2
    score_head = 2 * 8 * TOY.hidden
    assert counter.get_total_flops() == step.score_flops() - 4 * 4 * 32 * pairs + score_head
    with FlopCounterMode(display=False) as counter:
        ppo.step(rollouts, rewards)
    pairs = 8 * 15 * 16 // 2
    passes = (12, 8) if case is CRITIC else (8, 2)  # through a layer: forward, backward
    attention = (4 * passes[0] + 8 * passes[1]) * 32 * pairs
    value_head = 3 * 2 * 8 * 15 * TOY.hidden if case is CRITIC else 0
    assert counter.get_total_flops() == step.step_flops() - attention + value_head


def test_our_side_computes_what_peft_does_and_the_adapter_of_the_reference() -> None:
    ours, peft = (ON_CPU.step(CRITIC, side, TOY).step_flops() for side in SIDES)
    widths = sum(k + n for k, n in TOY.linears)
    assert ours - peft == TOY.layers * 2 * RANK * widths * 8 * 15


def test_our_side_saves_shared_prompts_and_the_trunk() -> None:
    ours, peft = (ON_CPU.step(ANSWERS, side, TOY).step_flops() for side in SIDES)
    assert ours < 0.6 * peft


@pytest.mark.parametrize(
    ("card", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
    ],
)
def test_the_peak_is_of_the_card_by_its_name(card: str, peak: float) -> None:
    assert peak_tflops(card, None) == peak
    assert peak_tflops(card, 500.0) == 500.0


def test_an_unknown_card_needs_its_peak_given() -> None:
    with pytest.raises(UnknownCardError, match=r"'Some Card' is not known.*--peak-tflops"):
        peak_tflops("Some Card", None)


def test_without_a_gpu_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=r"no CUDA device.*--toy"):
        card_and_peak(None)


def test_what_has_no_memory_is_left_out_and_the_rest_is_measured() -> None:
    def exhausted(_: Any) -> None:
        raise torch.OutOfMemoryError

    def works() -> Any:
        work = Work(tokens=6, flops=2e12, prepare=lambda number: number, run=lambda _: None)
        yield "large", replace(work, run=exhausted)
        yield "small", work
        raise torch.OutOfMemoryError

    measured = Clock(device="cpu", repeats=3, peak_tflops=4.0).measure(works())
    assert list(measured) == ["large", "small", "models"]
    assert all(tuple(row) == FIGURES for row in measured.values())
    assert len(measured["small"]["seconds"]) == 3
    assert measured["small"]["peak_share"] == pytest.approx(measured["small"]["tflops"] / 4)
    sides = {"ours": measured, "peft": measured}
    figures = {"ppo": {"7B": {case.name: sides for case in CASES}}, "reading": {}}
    assert goals_of(figures) == [
        {
            "name": "measurements for which there was no memory",
            "value": 8,
            "goal": "<= 0",
            "met": False,
        }
    ]


@pytest.mark.slow
def test_a_toy_runs_without_ray_vllm_and_deepspeed_and_writes_its_figures(tmp_path: Path) -> None:
    arguments = ["--toy", "--peak-tflops", "1", "--commit", "abc", "--out", str(tmp_path)]
    program = ALONE.format(absent=ABSENT, arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "toy, critic, all layers, step: ours" in done.stdout
    result = json.loads((tmp_path / "gpu_step.json").read_text(encoding="utf-8"))
    assert result["commit"] == "abc" and result["command"].endswith(
        f"--toy --peak-tflops 1 --commit abc --out .../{tmp_path.name}"
    )
    figures = result["figures"]
    rows = [
        row
        for case in CASES
        for side in ("ours", "peft")
        for row in (figures["ppo"]["toy"][case.name][side][part] for part in ("scores", "step"))
    ]
    readings = figures["reading"]["toy"]
    assert set(readings) == {"8", "16"} and all(len(ways) == 6 for ways in readings.values())
    for row in (*rows, *readings["8"].values(), *readings["16"].values()):
        assert tuple(row) == FIGURES and len(row["seconds"]) == 2
        assert row["tokens_per_s"] > 0 and 0 < row["peak_share"] == row["tflops"]
        assert row["peak_gib"] is None
    assert len(result["goals"]) == 8
    assert {goal["met"] for goal in result["goals"]} <= {True, False}
