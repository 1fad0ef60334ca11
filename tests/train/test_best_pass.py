"""SFT keeps the pass with the lowest held-out loss, whenever its process is killed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.train.best_pass import KeepBestPass, best_pass, folder_of, losses
from rldf_ray.train.diverged import DivergedError
from rldf_ray.train.worker import read_progress
from tests.train.cluster_jobs import weights_in
from tests.train.tiny import tiny_job

STEPS = 2


def measured(number: int, loss: float) -> dict[str, float]:
    return {"epoch": float(number), "step": number * STEPS, "eval_loss": loss}


@given(st.lists(st.floats(0, 9), max_size=6))
def test_the_best_pass_is_the_first_with_the_lowest_loss(figures: list[float]) -> None:
    history = [measured(number, loss) for number, loss in enumerate(figures, 1)]
    expected = figures.index(min(figures)) + 1 if figures else None
    assert best_pass([{"epoch": 0.5, "step": 1, "loss": 3.0}, *history]) == expected


class Trainer:
    """Trains nothing; after each pass the held-out loss is the next of `to_come`."""

    def __init__(self, out: Path, to_come: list[float], every: str = "steps") -> None:
        self.out, self.to_come = out, to_come
        self.args = SimpleNamespace(save_strategy=every)
        self.state = SimpleNamespace(
            log_history=[], epoch=None, global_step=0, is_world_process_zero=True
        )
        self.callback = KeepBestPass(self, out)

    def begin(self) -> None:
        self.callback.on_train_begin(self.args, self.state, None)

    def end_pass(self, number: int) -> list[Any]:
        """The log that a checkpoint at the end of a pass has, which is before it is measured."""
        self.state.epoch, self.state.global_step = float(number), number * STEPS
        return [*self.state.log_history]

    def evaluate(self) -> None:
        number = round(self.state.epoch)
        self.state.log_history.append(measured(number, self.to_come[number - 1]))
        metrics = {"eval_loss": self.to_come[number - 1]}
        self.callback.on_evaluate(self.args, self.state, None, metrics=metrics)

    def save_model(self, folder: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "pass").write_text(str(round(self.state.epoch)), encoding="utf-8")

    def kept(self) -> str:
        number = best_pass(self.state.log_history)
        assert number is not None
        return (folder_of(self.out, number) / "pass").read_text(encoding="utf-8")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.data())
def test_a_job_that_was_killed_at_the_end_of_a_pass_keeps_the_best(
    tmp_path_factory: pytest.TempPathFactory, figures: list[int], data: st.DataObject
) -> None:
    out = tmp_path_factory.mktemp("out")
    killed = data.draw(st.integers(1, len(figures)))
    measured_before = data.draw(st.booleans())
    first, log = Trainer(out, [float(loss) for loss in figures]), []
    first.begin()
    for number in range(1, killed + 1):
        log = first.end_pass(number)
        first.callback.on_save(first.args, first.state, None)
        if number < killed or measured_before:
            first.evaluate()
    second = Trainer(out, first.to_come)
    second.state.log_history = log
    second.end_pass(killed)
    second.begin()
    for number in range(killed + 1, len(figures) + 1):
        second.end_pass(number)
        second.callback.on_save(second.args, second.state, None)
        second.evaluate()
    assert losses(second.state.log_history) == dict(enumerate(first.to_come, 1))
    assert second.kept() == str(figures.index(min(figures)) + 1)


def test_what_an_earlier_version_saved_of_the_best_pass_is_taken_over(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, [1.0, 2.0])
    saved = folder_of(tmp_path, 1).with_name("best-pass")
    saved.mkdir(parents=True)
    (saved / "pass").write_text("1", encoding="utf-8")
    trainer.state.log_history = [measured(1, 1.0)]
    trainer.begin()
    trainer.end_pass(2)
    trainer.evaluate()
    assert trainer.kept() == "1"


def test_in_the_middle_of_a_pass_nothing_is_measured(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, [])
    trainer.state.epoch, trainer.state.global_step = 1.5, 3
    trainer.begin()
    assert trainer.state.log_history == []


@pytest.mark.parametrize("every", ["steps", "no"])
def test_passes_that_are_not_the_best_go_once_nothing_needs_them(
    tmp_path: Path, every: str
) -> None:
    trainer = Trainer(tmp_path, [2.0, 1.0, 3.0], every)
    for number in (1, 2, 3):
        trainer.end_pass(number)
        if every == "steps":
            trainer.callback.on_save(trainer.args, trainer.state, None)
        trainer.evaluate()
    assert [path.name for path in (tmp_path / "trainer").iterdir()] == ["pass-2"]


def test_a_loss_that_is_no_number_ends_the_job(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path / "sft", [float("nan")])
    trainer.end_pass(1)
    with pytest.raises(DivergedError, match="sft: loss is not a finite number at step 2"):
        trainer.evaluate()


class Killed(BaseException):
    """As a signal: nothing in the trainer handles it."""


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("epochs", "of_pass", "after"), [(1, 1, False), (2, 1, True)])
def test_sft_ends_with_what_it_would_have_without_the_kill(
    folders: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    epochs: int,
    of_pass: int,
    after: bool,
) -> None:
    """Killed while a pass is measured, or right after: its checkpoint is of its last step."""
    from rldf_ray.train import sft, worker

    monkeypatch.setattr(worker, "prepare_worker", lambda job: torch.manual_seed(0) and 0)
    rows = [
        {
            "topic_id": f"t{i}",
            "prompt": [{"role": "user", "content": f"w{i}"}],
            "completion": [{"role": "assistant", "content": f"w{i % 5} w{i % 9}"}],
        }
        for i in range(6)
    ]
    (tmp_path / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data/sft.parquet")

    def train(name: str) -> list[dict[str, Any]]:
        named = {**folders, "data": str(tmp_path / "data"), "out": str(tmp_path / name)}
        # A rate at which two random words are soon learned, and others of them with it no better.
        section = f"sft={{batch_size: 2, micro_batch: 2, max_length: 32, epochs: {epochs}}}"
        options = ("sft.held_out_share=0.34", "sft.learning_rate=0.1", "train.dtype=float32")
        (tmp_path / name).mkdir(exist_ok=True)
        sft._loop({"job": tiny_job(named, section, *options, f"train.checkpoint_every={STEPS}")})
        return read_progress(named["out"])

    expected = train("straight")
    measure = KeepBestPass.on_evaluate

    def measure_and_die(self: Any, args: Any, state: Any, control: Any, **given: Any) -> None:
        last = round(state.epoch) == of_pass
        if after or not last:
            measure(self, args, state, control, **given)
        if last:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(KeepBestPass, "on_evaluate", measure_and_die)
        with pytest.raises(Killed):
            train("again")
    found = train("again")
    times = ("_runtime", "_per_second")
    for ours, theirs in zip(found, expected, strict=True):
        same = {k: v for k, v in theirs.items() if not k.endswith(times)}
        assert {k: v for k, v in ours.items() if not k.endswith(times)} == pytest.approx(same)
    assert losses(found).keys() == {*range(1, epochs + 1)} and best_pass(found) == 1
    ours, theirs = (weights_in(tmp_path / name / "model") for name in ("again", "straight"))
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
