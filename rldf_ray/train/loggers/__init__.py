"""Training figures to where a person watches them, from the driver, while a job runs.

To an experiment tracker a run folder is one run, in however many stages and commands it is carried
out and however often it is killed: each stage opens the run by the same id. A stage that is redone
begins another. A figure is named STAGE/FIGURE, and the rows of all stages are numbered, so that the
run's own step grows from stage to stage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType

from rldf_ray.train.loggers.logger import LoggedStage, Logger
from rldf_ray.train.loggers.mlflow import MLflow
from rldf_ray.train.loggers.tensorboard import TensorBoard
from rldf_ray.train.loggers.trackio import Trackio
from rldf_ray.train.loggers.wandb import WandB

log = logging.getLogger(__name__)
LOGGERS: dict[str, Callable[[LoggedStage], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "mlflow": MLflow,
    "trackio": Trackio,
}


@contextmanager
def open_loggers(stage: LoggedStage) -> Iterator[Sequence[Logger]]:
    """The loggers of `train.loggers`, closed at the end, as failed where the block raises.

    TensorBoard's files are in the stage's folder. The others find their server and key in the
    environment, as their own documentation says.
    """
    with ExitStack() as stack:
        loggers: list[Logger] = []
        for name in stage.plan.train.loggers:
            logger = LOGGERS[name](stage)
            stack.push(_closing(logger))
            loggers.append(logger)
        yield loggers


def _closing(
    logger: Logger,
) -> Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]:
    def close(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            logger.close(failed=kind is not None)
        except Exception as trouble:  # noqa: BLE001 - a tracker fails with errors of its own
            # What was trained is there, and is worth more than the tracker's last word.
            log.warning("train.loggers: %s did not end: %r", type(logger).__name__, trouble)

    return close
