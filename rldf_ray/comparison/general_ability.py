"""Perplexity of every model that answers: a policy that forgot its language is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rldf_ray.cluster.placement import place
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.results import ALL, BBQ, Rows
from rldf_ray.console import Progress
from rldf_ray.plan import Plan
from rldf_ray.storage.digest import digest
from rldf_ray.storage.run_folder import RunFolder

PERPLEXITY = "perplexity"


def measure_perplexities(
    plan: Plan, method_runs: Sequence[MethodRun], kept: RunFolder, progress: Progress
) -> None:
    """Every distinct model's perplexity on the neutral text, unless `kept` has it."""
    from rldf_ray.evaluate.perplexity.perplexity import perplexity_on_worker

    files = {_file(plan, method_run): method_run.folder for method_run in method_runs}
    todo = {file: folder for file, folder in files.items() if not (kept.root / file).exists()}
    if not todo:
        return
    with (
        ray_cluster(kept.root / "logs") as resources,
        progress.bar("perplexities", len(todo)) as bar,
    ):
        placement = place(plan, resources)
        for file, folder in todo.items():
            perplexity = perplexity_on_worker(folder, placement, plan.engines.dtype)
            kept.write_json(file, asdict(perplexity))
            bar.advance(1)


def perplexity_rows(plan: Plan, method_run: MethodRun, kept: RunFolder) -> Rows:
    """What was measured of a method's model in one repeat, as rows of RESULT_SCHEMA."""
    perplexity = kept.read_json(_file(plan, method_run))
    about = {"method": method_run.method.name, "repeat": method_run.repeat, "seed": method_run.seed}
    figure = {"measure": PERPLEXITY, "value": perplexity["value"], "n": perplexity["tokens"]}
    return [{**about, "set": BBQ, "group": ALL, **figure}]


def _file(plan: Plan, method_run: MethodRun) -> str:
    return f"perplexity/{digest(method_run.weights, plan.engines.dtype)}.json"
