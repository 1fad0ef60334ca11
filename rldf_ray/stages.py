"""The stages of a run. Each reads what earlier ones wrote and writes its own objects, whole.

topics -> audit -> debates -> data -> sft -> reward -> ppo -> eval
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from rldf_ray.cluster import remote
from rldf_ray.console import Bar, Story
from rldf_ray.debate.agents import PromptedReferee
from rldf_ray.debate.collect import Collector, plan_debates
from rldf_ray.debate.topics import TopicWriter
from rldf_ray.models.base import ChatModel
from rldf_ray.models.embedded import resolve_model
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.placement import Placement
from rldf_ray.plan import Plan
from rldf_ray.preference_data import (
    dataset_card,
    pairs_table,
    prompts_table,
    sft_table,
)
from rldf_ray.records import (
    STATEMENT_SCHEMA,
    TOPIC_SCHEMA,
    statements_of,
    table_of,
    topics_of,
)
from rldf_ray.storage import Journal, RunFolder

Facts = dict[str, Any]
TRAINING = ("sft", "reward", "ppo")


class StageError(RuntimeError):
    """A stage cannot go on; the message says why and what to change."""


@dataclass
class Run:
    """What every stage is handed: plan, folder, placement, and the terminal."""

    plan: Plan
    folder: RunFolder
    placement: Placement
    story: Story
    run_id: str
    _open: ExitStack = field(default_factory=ExitStack)
    _speaker: JournaledModel | None = None

    def model(self) -> str:
        """Folder or hub id of the model to be debiased."""
        return resolve_model(self.plan.model)

    def speaker(self) -> JournaledModel:
        """The model that debates and referees, started when first asked for."""
        if self._speaker is None:
            journal = Journal(self.folder.path("journal/calls.jsonl"))
            self._open.callback(journal.close)
            self._speaker = JournaledModel(self._open.enter_context(speaker(self)), journal)
        return self._speaker

    def end_speaker(self) -> None:
        """Give its memory back before training begins."""
        self._speaker = None
        self._open.close()


@contextmanager
def speaker(run: Run) -> Iterator[ChatModel]:
    """The backend the plan names: self-reflection, or a teacher."""
    kind, _, model = (run.plan.teacher or f"vllm:{run.plan.model}").partition(":")
    if kind == "openai":
        from rldf_ray.models.openai_http import OpenAIModel

        yield OpenAIModel(model, run.plan.endpoint)
    elif kind == "scripted":
        from rldf_ray.models.scripted import ScriptedModel

        yield ScriptedModel(delay_s=float(model or 0))
    else:
        began = time.monotonic()
        with policy_engines(run, resolve_model(model), "base", run.plan.engines.dtype) as pool:
            pool.wait_until_ready()
            run.story.say(f"  engines up in {time.monotonic() - began:.0f} s")
            yield pool


@contextmanager
def policy_engines(
    run: Run, folder: str, revision: str, dtype: str, lora_rank: int = 0
) -> Iterator[Any]:
    """The plan's vLLM engines on a model folder, which start while other work is done."""
    from rldf_ray.models.pool import engines
    from rldf_ray.models.vllm_actor import EngineSettings

    section, placement = run.plan.engines, run.placement
    settings = EngineSettings(
        model=folder,
        revision=revision,
        dtype=dtype,
        max_model_len=section.max_model_len,
        max_num_seqs=section.max_num_seqs,
        kv_cache_gib=section.kv_cache_gib if placement.device == "cpu" else None,
        gpu_memory_utilization=section.gpu_memory_utilization,
        tensor_parallel=section.tensor_parallel,
        block_size=section.block_size,
        enforce_eager=section.enforce_eager,
        seed=run.plan.seed,
        lora_rank=lora_rank,
    )
    run.story.say(f"  starting {placement.engines} vLLM engine(s) on {folder}")
    with engines(
        settings,
        name=folder,
        count=placement.engines,
        num_cpus=placement.engine_cpus,
        num_gpus=placement.engine_gpus,
        timeout_s=section.request_timeout_s,
    ) as pool:
        yield pool


def topics(run: Run) -> Facts:
    """Seeds and the model's own topics, without near-duplicates -> data/topics.parquet."""
    before = run.speaker().usage
    found, counts = asyncio.run(TopicWriter(run.plan, run.speaker()).gather())
    run.folder.write_table("data/topics.parquet", table_of(found, TOPIC_SCHEMA))
    by_type: dict[str, Any] = {}
    for name in run.plan.bias_types:
        mine = [topic for topic in found if topic.bias_type == name]
        rejected = counts[name].rejected
        by_type[name] = {
            "opinion": sum(topic.kind == "opinion" for topic in mine),
            "judgement": sum(topic.kind == "judgement" for topic in mine),
            "seed": counts[name].seed,
            "written": counts[name].written,
            "duplicates_dropped": counts[name].duplicates_dropped,
            "rejected": sum(rejected.values()),
            "rejected_why": rejected,
        }
    return {"topics": by_type, "tokens": _since(run, before)}


def audit(run: Run) -> Facts:
    """The referee on statements whose label is known -> eval/referee.parquet."""
    from rldf_ray.evaluate.referee_audit import (
        audit_referee,
        audit_summary,
        held_out_statements,
    )

    before = run.speaker().usage
    number = sum(len(held_out_statements(name)) for name in run.plan.bias_types)
    with run.story.bar("labelled statements", number) as bar:
        audited = asyncio.run(
            audit_referee(
                referee(run),
                run.plan.bias_types,
                run.plan.engines.max_num_seqs,
                on_statement=bar.advance,
            )
        )
    rows = [
        {
            **a.statement.model_dump(),
            "score": a.verdict.score,
            "expected_score": a.verdict.expected_score,
        }
        for a in audited
    ]
    if rows:
        run.folder.write_table("eval/referee.parquet", pa.Table.from_pylist(rows))
    section = run.plan.referee
    summary = audit_summary(audited, "prompted", section.label_source, run.plan.seed)
    run.story.say(f"  {summary['verdict']}")
    return {"referee": summary, "tokens": _since(run, before)}


def debates(run: Run) -> Facts:
    """Multi-role debates, refereed -> data/transcripts.parquet."""
    before = run.speaker().usage
    try:
        planned = plan_debates(topics_of(run.folder.read_table("data/topics.parquet")), run.plan)
    except ValueError as error:
        raise StageError(str(error)) from error
    section = run.plan.debate
    number = len(planned) * section.debaters * section.rounds
    collector = Collector(run.plan, run.run_id, run.speaker(), referee(run))
    with run.story.bar("statements", number) as bar:
        statements = asyncio.run(collector.collect(planned, bar.advance))
    run.folder.write_table("data/transcripts.parquet", table_of(statements, STATEMENT_SCHEMA))
    failures: dict[str, int] = {}
    for statement in statements:
        if statement.failure is not None:
            reason = statement.failure.partition(":")[0]
            failures[reason] = failures.get(reason, 0) + 1
    unranked = sum(statement.rank is None for statement in statements)
    if unranked:
        failures["not ranked"] = unranked
    return {
        "debates": len(planned),
        "statements": len(statements),
        "failures": failures,
        "tokens": _since(run, before),
    }


def data(run: Run) -> Facts:
    """Transcripts -> data/sft, pairs, prompts, with a dataset card."""
    statements = statements_of(run.folder.read_table("data/transcripts.parquet"))
    found = topics_of(run.folder.read_table("data/topics.parquet"))
    by_id = {topic.topic_id: topic for topic in found}
    tables = {
        "sft": sft_table(statements, by_id, run.plan.data),
        "pairs": pairs_table(statements, by_id, run.plan.data),
        "prompts": prompts_table(found),
    }
    for name in ("sft", "pairs"):
        if tables[name].num_rows == 0:
            raise StageError(
                f"the debates gave no {name} data: every statement has the same label or none; "
                "look at data/transcripts.parquet, and at referee.label_source, "
                "referee.threshold_kind and data.min_gap in the plan"
            )
    for name, table in tables.items():
        run.folder.write_table(f"data/{name}.parquet", table)
    counted = {
        "topics": run.folder.read_table("data/topics.parquet"),
        "transcripts": run.folder.read_table("data/transcripts.parquet"),
        **tables,
    }
    card = dataset_card(counted, run.run_id, run.plan.digest())
    run.folder.write_text("data/README.md", card + "\n")
    splits = tables["prompts"]["split"].to_pylist()
    for split in ("ppo", "eval"):
        if split not in splits:
            raise StageError(
                f"no topic fell into the {split!r} split: raise topics.per_bias_type or its share"
            )
    return {
        "sft": tables["sft"].num_rows,
        "pairs": tables["pairs"].num_rows,
        "ppo_prompts": splits.count("ppo"),
        "eval_prompts": splits.count("eval"),
        "bytes": sum(table.nbytes for table in tables.values()),
    }


def sft(run: Run) -> Facts:
    """Low-bias statements -> sft/model."""
    from rldf_ray.train.sft import train_sft

    examples = run.folder.read_table("data/sft.parquet").num_rows
    return {"examples": examples, **_train(run, "sft", train_sft, {"model": run.model()})}


def reward(run: Run) -> Facts:
    """Preference pairs -> reward/model."""
    from rldf_ray.train.reward import held_out_topics, train_reward

    topics_of_pairs = run.folder.read_table("data/pairs.parquet")["topic_id"].to_pylist()
    held_out = held_out_topics(topics_of_pairs, run.plan.reward.held_out_share)
    number = sum(topic in held_out for topic in topics_of_pairs)
    return {
        "pairs": len(topics_of_pairs) - number,
        "held_out_pairs": number,
        **_train(run, "reward", train_reward, {"model": run.model()}),
    }


def ppo(run: Run) -> Facts:
    """PPO from pi_SFT against the reward model -> ppo/model, and model/ for its users."""
    from rldf_ray.train.ppo import train_ppo

    folders = {
        "model": run.model(),
        "sft": str(run.folder.root / "sft/model"),
        "reward": str(run.folder.root / "reward/model"),
    }
    rank = run.plan.train.lora.rank
    # With adapters the engines hold the base as well, and are sent the policy's adapter alone.
    start = folders["model" if rank else "sft"]
    with policy_engines(run, start, "sft", run.plan.ppo.dtype, rank) as pool:
        facts = _train(run, "ppo", train_ppo, folders, {"pool": pool})
    history = facts["history"]
    facts["episodes"] = run.plan.ppo.episodes
    facts["tokens"] = {
        "prompt": int(sum(step["prompt_tokens"] for step in history)),
        "cached": 0,
        "generated": int(sum(step["generated_tokens"] for step in history)),
    }
    return facts


def _train(
    run: Run,
    name: str,
    train: Callable[..., list[dict[str, Any]]],
    folders: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
) -> Facts:
    """One training job into the stage's own folder.

    A job that was cut off goes on from its last checkpoint, or begins again where it wrote none.
    """
    from rldf_ray.train.worker import TrainJob

    if run.plan.train.checkpoint_every is None:
        run.folder.fresh_folder(name)
    out = run.folder.path(f"{name}/model").parent
    job = TrainJob(
        run.plan,
        run.placement,
        {**folders, "data": str(run.folder.root / "data"), "out": str(out)},
        extra or {},
    )
    with run.story.bar(f"{name} steps", 1) as bar:
        history = train(job, on_progress=bar.update)
    for scrap in ("trainer", "ray_train"):
        shutil.rmtree(out / scrap, ignore_errors=True)
    return {"history": history}


def evaluate(run: Run) -> Facts:
    """Base, SFT and policy, the same items and prompts -> eval/items, eval/answers."""
    from rldf_ray.evaluate import multiple_choice
    from rldf_ray.evaluate.held_out import reward_summary

    folders = {
        "base": run.model(),
        "sft": str(run.folder.root / "sft/model"),
        "policy": str(run.folder.root / "ppo/model"),
    }
    items = multiple_choice.load_items(run.plan)
    with run.story.bar("items ranked", len(items.items) * len(folders)) as bar:
        scores = {name: _rank(run, folder, items, bar) for name, folder in folders.items()}
    answers = _held_out_answers(run, folders)
    run.folder.write_table("eval/items.parquet", multiple_choice.items_table(items, scores))
    run.folder.write_table("eval/answers.parquet", answers)
    seed = run.plan.seed
    return {
        "evaluation": {
            "set": multiple_choice.set_name(run.plan),
            "why_no_bias_scores": items.why_no_bias_scores,
            "models": {
                name: {
                    "multiple_choice": multiple_choice.summarise(items, scores[name]),
                    "reward": reward_summary(answers, name, seed),
                }
                for name in folders
            },
            "accuracy_change": {
                name: multiple_choice.difference(items, scores["base"], scores[name], seed)
                for name in ("sft", "policy")
            },
        },
        "tokens": {
            "prompt": 0,
            "cached": 0,
            "generated": sum(answers["tokens"].to_pylist()),
        },
    }


def _rank(run: Run, folder: str, items: Any, bar: Bar) -> list[tuple[float, ...]]:
    """Option scores of every item, computed on a worker of the cluster."""
    import ray

    from rldf_ray.evaluate.ranking import rank_options

    placement, plan = run.placement, run.plan
    task = remote(rank_options, placement, num_returns="streaming")
    found: dict[int, tuple[float, ...]] = {}
    for reference in task.remote(
        folder,
        items.items,
        device=placement.device,
        dtype=plan.engines.dtype,
        threads=placement.threads,
        batch=plan.evaluate.batch_size,
    ):
        scores = ray.get(reference)
        found |= scores
        bar.advance(len(scores))
    return [found[i] for i in range(len(items.items))]


def _held_out_answers(run: Run, folders: Mapping[str, str]) -> pa.Table:
    """Each model's answers to held-out prompts, scored by the reward model."""
    import ray

    from rldf_ray.evaluate.held_out import answer_prompts, score_answers

    section, placement = run.plan.evaluate, run.placement
    rows = run.folder.read_table("data/prompts.parquet").to_pylist()
    prompts = [row for row in rows if row["split"] == "eval"]
    prompts = sorted(prompts, key=lambda row: row["prompt_id"].partition("-")[2])
    prompts = prompts[: section.held_out_prompts]
    answers: dict[str, Any] = {}
    with (
        run.story.bar("held-out answers", len(prompts) * len(folders)) as bar,
        policy_engines(run, folders["base"], "base", run.plan.engines.dtype) as pool,
    ):
        for name, folder in folders.items():
            if name != "base":
                pool.sync_weights(folder, name)
            completions = asyncio.run(
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
    table: pa.Table = ray.get(
        remote(score_answers, placement).remote(
            str(run.folder.root / "reward/model"),
            answers,
            device=placement.device,
            threads=placement.threads,
            max_length=run.plan.reward.max_length,
        )
    )
    return table


def referee(run: Run) -> PromptedReferee:
    return PromptedReferee(run.speaker(), run.plan.seed)


def _since(run: Run, before: Any) -> dict[str, int]:
    """Tokens the speaker used since `before`."""
    now = asdict(run.speaker().usage)
    return {name: now[name] - value for name, value in asdict(before).items()}
