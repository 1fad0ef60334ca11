"""A run of MLflow (https://mlflow.org/docs/latest/ml/tracking)."""

from __future__ import annotations

from collections.abc import Mapping

from rldf_ray.train.loggers.logger import LoggedStage

RUN_TAG = "rldf_ray.run"
PLAN_TAG = "rldf_ray.plan"


class MLflow:
    """The MLflow run of a run folder, found by its tag, as MLflow gives runs ids of its own.

    A figure's step is the stage's own. MLflow keeps whatever it is sent, twice where it is sent
    twice, so it is asked which steps of a figure it has.
    """

    def __init__(self, stage: LoggedStage) -> None:
        import mlflow

        self.rows = 0
        self._stage, self._mlflow = stage, mlflow
        self._known: dict[str, set[int]] = {}
        begun = mlflow.search_runs(
            filter_string=f"tags.`{RUN_TAG}` = '{stage.run.id}'", output_format="list"
        )
        # Nested, as whoever calls from Python may have an MLflow run open.
        run = mlflow.start_run(
            run_id=begun[0].info.run_id if begun else None,
            run_name=stage.plan.name,
            nested=True,
            tags={RUN_TAG: stage.run.id, PLAN_TAG: stage.plan.name},
        )
        self._id: str = run.info.run_id
        mlflow.log_dict(stage.plan.model_dump(mode="json"), "plan.json", run_id=self._id)

    def log(self, row: int, step: int, figures: Mapping[str, float]) -> None:
        new = {
            name: value
            for name, value in self._stage.prefixed(figures).items()
            if step not in self._steps(name)
        }
        if new:
            # By its id: a thread other than the one that opened the run has no run open.
            self._mlflow.log_metrics(new, step=step, run_id=self._id, synchronous=True)
        for name in new:
            self._known[name].add(step)

    def _steps(self, name: str) -> set[int]:
        if name not in self._known:
            history = self._mlflow.MlflowClient().get_metric_history(self._id, name)
            self._known[name] = {metric.step for metric in history}
        return self._known[name]

    def close(self, *, failed: bool) -> None:
        self._mlflow.end_run("FAILED" if failed else "FINISHED")
