"""Every method's free answers to held-out prompts, which a judge or people score (Tables 2 to 5).

    prompts of the split "eval" --> each method, each repeat --> free_answers.parquet

`rldf eval judge` and `rldf eval human export` read the file as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.placement import place
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.comparison.method import Method
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.runs import data_runs
from rldf_ray.comparison.thinking import Scene
from rldf_ray.comparison.thoughts import think_all
from rldf_ray.console import Progress
from rldf_ray.engines.plan_engines import policy_engines
from rldf_ray.evaluate.held_out.answers import answer_prompts, held_out_rows
from rldf_ray.loops import complete
from rldf_ray.models.base import ChatModel
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.plan import Plan, Speaker
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder

FILE = "free_answers.parquet"
SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("repeat", pa.int64()),
        ("seed", pa.int64()),
        ("prompt_id", pa.string()),
        ("bias_type", pa.string()),
        ("kind", pa.string()),
        ("clue_shown", pa.bool_()),
        ("prompt", pa.string()),
        ("thought", pa.string()),
        ("answer", pa.string()),
        ("finish_reason", pa.string()),
    ]
)

Prompts = list[dict[str, Any]]


def held_out_prompts(plan: Plan, methods: Sequence[Method], out: Path) -> Prompts:
    """Held-out prompts of the topics all methods share; none where no method has topics."""
    sources = data_runs(methods)
    if not sources:
        return []
    table = RunFolder(out / "runs" / sources[0].name).read_table("data/prompts.parquet")
    return held_out_rows(table.to_pylist(), plan.evaluate.held_out_prompts)


def answer_freely(
    plan: Plan,
    method_runs: Sequence[MethodRun],
    prompts: Prompts,
    out: RunFolder,
    progress: Progress,
) -> None:
    """Have every method answer every prompt; answers that `out` has are kept."""
    scenes = [_scene(row) for row in prompts]
    asked = [(row["prompt_id"], row["prompt"]) for row in prompts]
    keys = {one.place: one.free_key(plan, scenes, asked) for one in method_runs}
    # The model as it is comes first: engines start with it, and are then sent the others' weights.
    todo = [a for a in method_runs if not (out.root / f"free/{keys[a.place]}.parquet").exists()]
    todo.sort(key=lambda method_run: method_run.method.training is not None)
    if todo and prompts:
        progress.say(
            f"\nfree answers to {len(prompts)} prompts: {len(todo)} of {len(method_runs)} to do"
        )
        with (
            ray_cluster(out.root / "logs") as resources,
            policy_engines(
                plan, place(plan, resources), progress, plan.model, "base", plan.engines.dtype
            ) as pool,
            progress.bar("free answers", len(prompts) * len(todo)) as bar,
        ):
            pool.wait_until_ready()
            journal = Journal(out.path("journal/free_answers.jsonl"))
            try:
                for method_run in todo:
                    key = keys[method_run.place]
                    if method_run.method.training is not None:
                        pool.sync_weights(method_run.folder, key)
                    fields = plan.request_fields(Speaker("vllm", plan.model))
                    model = JournaledModel(
                        pool, journal, address=method_run.revision, request_fields=fields
                    )
                    answered = complete(
                        _answers(plan, method_run, key, model, prompts, bar.advance)
                    )
                    out.write_table(f"free/{key}.parquet", answered)
            finally:
                journal.close()
    # Another comparison may have had these answers in another of its repeats.
    rows = [
        row
        | {"method": method_run.method.name, "repeat": method_run.repeat, "seed": method_run.seed}
        for method_run in (method_runs if prompts else ())
        for row in out.read_table(f"free/{keys[method_run.place]}.parquet").to_pylist()
    ]
    out.write_table(FILE, pa.Table.from_pylist(rows, schema=SCHEMA))


async def _answers(
    plan: Plan, method_run: MethodRun, key: str, model: ChatModel, prompts: Prompts, on_answer: Any
) -> pa.Table:
    """One method's answers in one repeat, after thinking where it thinks; columns of SCHEMA."""
    reasoning = [""] * len(prompts)
    prompted: Sequence[dict[str, Any]] = prompts
    if method_run.method.think:
        thoughts = await think_all(method_run, model, plan, [_scene(row) for row in prompts])
        reasoning = [thought.text for thought in thoughts]
        prompted = [
            row | {"prompt": [{"role": m.role, "content": m.content} for m in thought.messages]}
            for row, thought in zip(prompts, thoughts, strict=True)
        ]
    instruct = method_run.method.instruct
    if instruct is not None:
        given = [instruct(plan, method_run.seed, _scene(row)) for row in prompts]
        prompted = [
            row | {"prompt": [{"role": m.role, "content": m.content}, *row["prompt"]]}
            for row, m in zip(prompts, given, strict=True)
        ]
    completions = await answer_prompts(
        model,
        prompted,
        # By the key, as other weights give other answers under the same method's name.
        name=key,
        max_tokens=plan.evaluate.max_tokens,
        seed=method_run.seed,
        on_answer=on_answer,
    )
    rows = [
        {
            **{name: row[name] for name in ("prompt_id", "bias_type", "kind", "clue_shown")},
            "method": method_run.method.name,
            "repeat": method_run.repeat,
            "seed": method_run.seed,
            "prompt": row["prompt"][-1]["content"],
            "thought": thought or None,
            "answer": completion.text,
            "finish_reason": completion.finish_reason,
        }
        for row, thought, completion in zip(prompts, reasoning, completions, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _scene(row: dict[str, Any]) -> Scene:
    """A prompt as a method that reasons first sees it: a question without a scene of its own."""
    question = row["prompt"][-1]["content"]
    return Scene(
        group=row["bias_type"],
        name=row["prompt_id"],
        family=row["topic_id"],
        context="",
        question=question,
        is_opinion=row["kind"] == "opinion",
    )
