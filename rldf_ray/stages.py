"""The stages of a run. Each reads what earlier ones wrote and writes its own objects, whole.

topics -> audit -> debates -> data -> sft -> reward -> ppo -> eval; the audit is in audit_stage.py,
and the fit of a trained referee, before all of them, in referee_stage.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.cluster import on_one_node, remote
from rldf_ray.console import Bar, Story
from rldf_ray.debate.agents import PromptedReferee, Referee
from rldf_ray.debate.collect import Collector, Seating, debaters_of, plan_debates
from rldf_ray.debate.platt import Calibration
from rldf_ray.debate.topics import TopicWriter
from rldf_ray.debate.trained_referee import TrainedReferee
from rldf_ray.debate.transcripts import StatementCounts, Transcripts
from rldf_ray.models.base import Usage
from rldf_ray.placement import Placement
from rldf_ray.plan import Plan
from rldf_ray.preference_data import PreferenceData, preference_data, write_data
from rldf_ray.records import (
    STATEMENT_SCHEMA,
    TOPIC_SCHEMA,
    Statement,
    statements_of,
    table_of,
    topics_of,
)
from rldf_ray.report.notes import reward_notes
from rldf_ray.report.parts import reward_part
from rldf_ray.speakers import Speakers, policy_engines
from rldf_ray.storage import RunFolder

Facts = dict[str, Any]
TRAINING = ("referee", "sft", "reward", "ppo")


class StageError(RuntimeError):
    """A stage cannot go on; the message says why and what to change."""


@dataclass
class Run:
    """What every stage is handed: plan, folder, placement, the terminal, and who speaks.

    `statements` is a file the referee is audited on instead of our own labelled set.
    """

    plan: Plan
    folder: RunFolder
    placement: Placement
    story: Story
    run_id: str
    speakers: Speakers
    statements: Path | None = None

    @contextmanager
    def policy_engines(
        self, folder: str, revision: str, dtype: str, lora_rank: int = 0
    ) -> Iterator[Any]:
        """The plan's vLLM engines on a model folder, which start while other work is done."""
        with policy_engines(
            self.plan, self.placement, self.story, folder, revision, dtype, lora_rank
        ) as pool:
            yield pool


def topics(run: Run) -> Facts:
    """Seeds and the model's own topics, without near-duplicates -> data/topics.parquet."""
    from rldf_ray.evaluate.multiple_choice import evaluation_texts, load_items

    before = run.speakers.usage, run.speakers.paid_usage
    evaluated = evaluation_texts(load_items(run.plan).items)
    writer = TopicWriter(run.plan, run.speakers.of("topics"), evaluated)
    found, counts = run.speakers.run(writer.gather())
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
            "overlaps_dropped": counts[name].overlaps_dropped,
            "rejected": sum(rejected.values()),
            "rejected_why": rejected,
        }
    return {"topics": by_type, **tokens_since(run, before)}


def debates(run: Run, seated: Seating = debaters_of) -> Facts:
    """Multi-role debates, refereed -> data/transcripts.parquet.

    Args:
        seated: who takes part, where it is not the debaters of the paper.
    """
    before = run.speakers.usage, run.speakers.paid_usage
    try:
        planned = plan_debates(topics_of(run.folder.read_table("data/topics.parquet")), run.plan)
    except ValueError as error:
        raise StageError(str(error)) from error
    section = run.plan.debate
    number = len(planned) * section.debaters * section.rounds
    collector = Collector(run.plan, run.run_id, run.speakers.of("debate"), referee(run), seated)
    counts = StatementCounts()

    def keep(place: int, statements: Sequence[Statement]) -> None:
        transcripts.keep(place, statements)
        counts.add(statements)
        run.speakers.journal.forget(planned[place].debate_id)

    with closing(
        Transcripts(run.folder.path("journal/debates.jsonl"), len(planned))
    ) as transcripts:
        with run.story.bar("statements", number) as bar:
            run.speakers.run(collector.collect(planned, keep, bar.advance))
        run.folder.write_batches(
            "data/transcripts.parquet", STATEMENT_SCHEMA, transcripts.batches()
        )
    return {
        "debates": len(planned),
        "statements": counts.statements,
        "failures": dict(counts.failures),
        "label_sources": dict(counts.label_sources),
        **tokens_since(run, before),
    }


def data(run: Run) -> Facts:
    """Transcripts -> data/sft, pairs, prompts, with a dataset card."""
    statements = statements_of(run.folder.read_table("data/transcripts.parquet"))
    found = topics_of(run.folder.read_table("data/topics.parquet"))
    made = preference_data(statements, {topic.topic_id: topic for topic in found}, run.plan.data)
    _check_data(made)
    facts = write_data(run.folder, run.plan, made)
    for warning in facts["quality"]["warnings"]:
        run.story.say(f"  {warning}")
    return facts


def _check_data(made: PreferenceData) -> None:
    """Every later stage has something to work on."""
    for name in ("sft", "pairs"):
        if made.tables[name].num_rows == 0:
            dropped = {name: n for name, n in made.quality.dropped.items() if n}
            raise StageError(
                f"the debates gave no {name} data: every statement has the same label or none, or "
                f"was filtered out ({dropped or 'none was'}, of {made.quality.statements}); look "
                "at data/transcripts.parquet, and at referee.label_source, "
                "referee.threshold_kind, data.min_gap and data.filters in the plan"
            )
    splits = set(made.prompts["split"].to_pylist())
    for split in ("ppo", "eval"):
        if split not in splits:
            raise StageError(
                f"no topic fell into the {split!r} split: raise topics.per_bias_type or its share"
            )


def sft(run: Run) -> Facts:
    """Low-bias statements -> sft/model."""
    from rldf_ray.train.sft import train_sft

    facts = train_in_folder(run, "sft", train_sft, {"model": run.plan.model})
    return {"examples": run.folder.read_table("data/sft.parquet").num_rows, **facts}


def reward(run: Run) -> Facts:
    """Preference pairs -> reward/model, fitted from pi_SFT or from the plan's model."""
    from rldf_ray.train.reward import held_out_topics, train_reward

    topics_of_pairs = run.folder.read_table("data/pairs.parquet")["topic_id"].to_pylist()
    held_out = held_out_topics(topics_of_pairs, run.plan.reward.held_out_share)
    number = sum(topic in held_out for topic in topics_of_pairs)
    facts = {
        "pairs": len(topics_of_pairs) - number,
        "held_out_pairs": number,
        **train_in_folder(run, "reward", train_reward, _reward_start(run)),
        "undebated": _asked_about_undebated_scenes(run),
    }
    # Said here too, as PPO is what costs most.
    for note in reward_notes(reward_part(facts)):
        run.story.say(f"  {note}")
    return facts


def _reward_start(run: Run) -> dict[str, str]:
    if run.plan.reward.start == "model":
        return {"model": run.plan.model}
    if run.plan.train.lora.rank:
        # PPO computes all its adapters on one base, so pi_SFT is the base and its adapter here too.
        return {"model": run.plan.model, "adapter": run.folder.address("sft/adapter")}
    return {"model": run.folder.address("sft/model")}


def _asked_about_undebated_scenes(run: Run) -> Facts | None:
    """What the new reward model makes of answers to scenes of the other splits."""
    import ray

    from rldf_ray.evaluate.undebated import undebated_rewards, undebated_scenes, undebated_summary

    scenes = undebated_scenes(
        run.folder.read_table("data/prompts.parquet").to_pylist(),
        topics_of(run.folder.read_table("data/topics.parquet")),
    )
    if not scenes:
        return None
    rewards = ray.get(
        remote(undebated_rewards, run.placement).remote(
            run.folder.address("reward/model"),
            scenes,
            device=run.placement.device,
            threads=run.placement.threads,
            max_length=run.plan.reward.max_length,
        )
    )
    return undebated_summary(rewards)


def ppo(run: Run) -> Facts:
    """PPO from pi_SFT against the reward model -> ppo/model, and model/ for its users."""
    from rldf_ray.train.lora import adapters_in_engines
    from rldf_ray.train.ppo import train_ppo

    folders = {
        "model": run.plan.model,
        "sft": run.folder.address("sft/model"),
        "reward": run.folder.address("reward/model"),
    }
    rank = run.plan.train.lora.rank
    adapters = adapters_in_engines(run.placement, run.plan.train.lora)
    start = folders["model" if adapters else "sft"]
    if rank:
        # Looked for beside the merged models, so they have to be on the worker's machine too.
        folders |= {
            f"{stage} adapter": run.folder.address(f"{stage}/adapter")
            for stage in ("sft", "reward")
        }
    run = replace(run, placement=on_one_node(run.placement))
    with run.policy_engines(start, "sft", run.plan.ppo.dtype, rank if adapters else 0) as pool:
        facts = train_in_folder(run, "ppo", train_ppo, folders, {"pool": pool})
    history = facts["history"]
    facts["episodes"] = run.plan.ppo.episodes
    facts["tokens"] = {
        "prompt": int(sum(step["prompt_tokens"] for step in history)),
        "cached": 0,
        "generated": int(sum(step["generated_tokens"] for step in history)),
    }
    return facts


def train_in_folder(
    run: Run,
    name: str,
    train: Callable[..., list[dict[str, Any]]],
    folders: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
) -> Facts:
    """One training job into the stage's own folder, on "data" unless `folders` names another.

    A job that was cut off goes on from its last checkpoint, or begins again where it wrote none.
    """
    from rldf_ray.train.worker import TrainJob

    if run.plan.train.checkpoint_every is None:
        run.folder.fresh_folder(name)
    run.folder.path(f"{name}/model")
    job = TrainJob(
        run.plan,
        run.placement,
        {"data": run.folder.address("data"), **folders, "out": run.folder.address(name)},
        extra or {},
    )
    with run.story.bar(f"{name} steps", 1) as bar:
        history = train(job, on_progress=bar.update)
    for scrap in ("trainer", "ray_train"):
        run.folder.remove(f"{name}/{scrap}")
    return {"history": history}


def evaluate(run: Run) -> Facts:
    """Base, SFT and policy, the same items and prompts -> eval/items, eval/answers."""
    from rldf_ray.evaluate import multiple_choice
    from rldf_ray.evaluate.held_out import reward_summary
    from rldf_ray.evaluate.perplexity import perplexity_on_worker

    folders = {
        "base": run.plan.model,
        "sft": run.folder.address("sft/model"),
        "policy": run.folder.address("ppo/model"),
    }
    items = multiple_choice.load_items(run.plan)
    with run.story.bar("items ranked", len(items.items) * len(folders)) as bar:
        scores = {name: _rank(run, folder, items, bar) for name, folder in folders.items()}
    dtype = run.plan.engines.dtype
    perplexities = {
        name: asdict(perplexity_on_worker(folder, run.placement, dtype))
        for name, folder in folders.items()
    }
    answers = _held_out_answers(run, folders)
    trained_on = topics_of(run.folder.read_table("data/topics.parquet"))
    run.folder.write_table("eval/items.parquet", multiple_choice.items_table(items, scores))
    run.folder.write_table("eval/answers.parquet", answers)
    seed = run.plan.seed
    return {
        "evaluation": {
            "set": multiple_choice.set_name(run.plan),
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
            "overlap": multiple_choice.topic_overlap(trained_on, items.items),
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
        tokens=plan.evaluate.batch_tokens,
    ):
        scores = ray.get(reference)
        found |= scores
        bar.advance(len(scores))
    return [found[i] for i in range(len(items.items))]


def _held_out_answers(run: Run, folders: Mapping[str, str]) -> pa.Table:
    """Each model's answers to held-out prompts, scored by the reward model."""
    import ray

    from rldf_ray.evaluate.held_out import answer_prompts, held_out_rows, score_answers

    section, placement = run.plan.evaluate, run.placement
    rows = run.folder.read_table("data/prompts.parquet").to_pylist()
    prompts = held_out_rows(rows, section.held_out_prompts)
    answers: dict[str, Any] = {}
    with (
        run.story.bar("held-out answers", len(prompts) * len(folders)) as bar,
        run.policy_engines(folders["base"], "base", run.plan.engines.dtype) as pool,
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
            run.folder.address("reward/model"),
            answers,
            device=placement.device,
            threads=placement.threads,
            max_length=run.plan.reward.max_length,
        )
    )
    return table


def referee(run: Run) -> Referee:
    """Who referees the run; a trained one has been fitted before."""
    model = run.speakers.of("referee")
    if run.plan.referee.kind == "prompted":
        return PromptedReferee(model, run.plan.seed, run.plan.referee.judgements == "checked")
    fitted = run.folder.read_json("referee/calibration.json")
    return TrainedReferee(
        model, Calibration(fitted["slope"], fitted["intercept"], fitted["statements"])
    )


def tokens_since(run: Run, before: tuple[Usage, Usage]) -> Facts:
    """Tokens the speakers used since `before`, and those an endpoint charges for."""
    now = run.speakers.usage, run.speakers.paid_usage
    return {
        name: {kind: value - asdict(then)[kind] for kind, value in asdict(used).items()}
        for name, used, then in zip(("tokens", "paid_tokens"), now, before, strict=True)
    }
