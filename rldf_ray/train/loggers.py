"""Training figures to where a person watches them, from the driver, while a job runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from rldf_ray.plan import Plan


class Logger(Protocol):
    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Take a step's figures."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


@contextmanager
def open_loggers(plan: Plan, stage: str, out: Path) -> Iterator[Sequence[Logger]]:
    """The loggers of `train.loggers`, closed at the end.

    TensorBoard's files are in `out`/tensorboard. The others find their server, key and project in
    the environment, as their own documentation says.
    """
    makers: dict[str, Callable[[Plan, str, Path], Logger]] = {
        "tensorboard": TensorBoard,
        "wandb": WandB,
        "mlflow": MLflow,
    }
    with ExitStack() as stack:
        loggers: list[Logger] = []
        for name in plan.train.loggers:
            logger = makers[name](plan, stage, out)
            stack.callback(logger.close)
            loggers.append(logger)
        yield loggers


class TensorBoard:
    """Event files for `tensorboard --logdir RUN`."""

    def __init__(self, plan: Plan, stage: str, out: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._stage = stage
        self._writer: Any = SummaryWriter(str(out / "tensorboard"))

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(f"{self._stage}/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandB:
    """A Weights & Biases run of one stage."""

    def __init__(self, plan: Plan, stage: str, out: Path) -> None:
        import wandb

        self._run: Any = wandb.init(
            name=f"{plan.name}/{stage}", dir=str(out), config=plan.model_dump(mode="json")
        )

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """An MLflow run of one stage."""

    def __init__(self, plan: Plan, stage: str, out: Path) -> None:
        import mlflow

        self._client: Any = mlflow
        mlflow.start_run(run_name=f"{plan.name}/{stage}")
        mlflow.log_dict(plan.model_dump(mode="json"), "plan.json")

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._client.log_metrics(dict(figures), step=step)

    def close(self) -> None:
        self._client.end_run()
