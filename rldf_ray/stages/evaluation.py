"""The evaluation of model, pi_SFT and policy -> eval/items.parquet, eval/answers.parquet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.ray_cluster import remote
from rldf_ray.console import Bar
from rldf_ray.evaluate.contamination import answer_overlap, completions_of
from rldf_ray.loops import complete
from rldf_ray.models.embedded import located
from rldf_ray.records import TOPIC_SCHEMA, topics_of
from rldf_ray.stages.run import Run
from rldf_ray.storage.results import EvaluationResult


def evaluate(run: Run) -> EvaluationResult:
    """Base, SFT and policy, the same items and prompts -> eval/items, eval/answers."""
    from rldf_ray.evaluate.bbq import run_models as multiple_choice
    from rldf_ray.evaluate.held_out.answers import reward_summary
    from rldf_ray.evaluate.perplexity.perplexity import perplexity_on_worker

    folders = {
        "base": located(run.plan.model),
        "sft": run.folder.address("sft/model"),
        "policy": run.folder.address(f"{run.plan.train.last}/model"),
    }
    items = multiple_choice.load_items(run.plan)
    with run.progress.bar("items ranked", len(items.items) * len(folders)) as bar:
        scores = {name: _rank(run, folder, items, bar) for name, folder in folders.items()}
    dtype = run.plan.engines.dtype
    perplexities = {
        name: asdict(perplexity_on_worker(folder, run.placement, dtype))
        for name, folder in folders.items()
    }
    answers = _held_out_answers(run, folders)
    trained_on = topics_of(run.folder.read_table("data/topics.parquet", TOPIC_SCHEMA))
    run.folder.write_table("eval/items.parquet", multiple_choice.items_table(items, scores))
    run.folder.write_table("eval/answers.parquet", answers)
    seed = run.plan.seed
    return EvaluationResult(
        evaluation={
            "set": multiple_choice.set_name(run.plan),
            "bbq": run.plan.evaluate.bbq,
            "why_no_bias_scores": items.why_no_bias_scores,
            "models": {
                name: {
                    "multiple_choice": multiple_choice.summarise(items, scores[name], seed),
                    "reward": reward_summary(answers, name, seed),
                    "perplexity": perplexities[name],
                }
                for name in folders
            },
            "always_unknown": multiple_choice.always_unknown(items),
            "overlap": {
                **multiple_choice.topic_overlap(trained_on, items.items),
                **answer_overlap(completions_of(run.folder), items.items),
            },
            "accuracy_change": {
                name: multiple_choice.difference(items, scores["base"], scores[name], seed)
                for name in ("sft", "policy")
            },
            "disambig_change": {
                name: multiple_choice.difference(
                    items, scores["base"], scores[name], seed, "disambig"
                )
                for name in ("sft", "policy")
            },
        },
        tokens={
            "prompt": 0,
            "cached": 0,
            "generated": sum(answers["tokens"].to_pylist()),
        },
    )


def _rank(run: Run, folder: str, items: Any, bar: Bar) -> list[tuple[float, ...]]:
    """Option scores of every item, computed on a worker of the cluster."""
    import ray

    from rldf_ray.evaluate.ranking.ranking import rank_options

    placement, plan = run.placement, run.plan
    task = remote(rank_options, placement, num_returns="streaming")
    scores_of: dict[int, tuple[float, ...]] = {}
    for reference in task.remote(
        folder,
        items.items,
        device=placement.device,
        dtype=plan.engines.dtype,
        threads=placement.threads,
        tokens=plan.evaluate.batch_tokens,
        chat_template_kwargs=plan.chat_template_kwargs,
    ):
        scores = ray.get(reference)
        scores_of |= scores
        bar.advance(len(scores))
    return [scores_of[i] for i in range(len(items.items))]


def _held_out_answers(run: Run, folders: Mapping[str, str]) -> pa.Table:
    """Each model's answers to held-out prompts, scored by the reward model where there is one."""
    import ray

    from rldf_ray.evaluate.held_out.answers import (
        answer_prompts,
        answers_table,
        held_out_rows,
        score_answers,
    )

    section, placement = run.plan.evaluate, run.placement
    rows = run.folder.read_table("data/prompts.parquet").to_pylist()
    prompts = held_out_rows(rows, section.held_out_prompts)
    answers: dict[str, Any] = {}
    with (
        run.progress.bar("held-out answers", len(prompts) * len(folders)) as bar,
        run.policy_engines(folders["base"], "base", run.plan.engines.dtype) as pool,
    ):
        with run.clock.starting():
            pool.wait_until_ready()
        for name, folder in folders.items():
            if name != "base":
                pool.sync_weights(folder, name)
            completions = complete(
                answer_prompts(
                    pool,
                    prompts,
                    name=name,
                    max_tokens=section.max_tokens,
                    seed=run.plan.seed,
                    on_answer=bar.advance,
                )
            )
            answers[name] = (prompts, completions)
    if run.folder.manifest("reward") is None:
        return answers_table(answers)
    table: pa.Table = ray.get(
        remote(score_answers, placement).remote(
            run.folder.address("reward/model"),
            answers,
            device=placement.device,
            threads=placement.threads,
            max_length=run.plan.reward.max_length,
        )
    )
    return table
