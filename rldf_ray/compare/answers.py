"""Every method's answers to the same items, each repeat, kept under a hash of what shapes them.

Answers that cannot differ are computed once: a model that ranks options draws nothing, so Default
is the same in every repeat.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.placement import Placement, place
from rldf_ray.cluster.ray_cluster import ray_cluster, remote
from rldf_ray.compare.method import Method
from rldf_ray.compare.thinking import Scene, Thinker, Thought, asked_after
from rldf_ray.console import Progress
from rldf_ray.engines.plan_engines import policy_engines
from rldf_ray.evaluate.bbq.items import BBQSet, Key
from rldf_ray.evaluate.bbq.prompt import Asked, Mode, ask, order_of
from rldf_ray.evaluate.bbq.summary import Answer, Evaluation
from rldf_ray.models.base import ChatModel, Usage
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.plan import Plan
from rldf_ray.storage.digest import digest
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class Put:
    """An item as it is put to the model, and what the model said before that ("" if nothing)."""

    asked: Asked
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """One method in one repeat, before its answers.

    Attributes:
        folder: the model that answers, as `resolve_model` takes it.
        weights: what stands for its weights in the hash: a model's name, or a run's stage and
            when it finished.
        seed: of the repeat.
    """

    method: Method
    repeat: int
    seed: int
    folder: str
    weights: str

    def key(self, plan: Plan, items: BBQSet, mode: Mode) -> str:
        """Equal keys, equal answers."""
        drawn = self.seed if mode == "letter" else None  # the order of the options
        questions = [asdict(item) for item in items.items]
        thinking = self.thinking(plan)
        return digest(self.weights, thinking, mode, drawn, plan.engines.dtype, questions)

    def thinking(self, plan: Plan) -> tuple[object, ...] | None:
        """What shapes what it says about a scene; None if it says nothing."""
        section = plan.debate
        return self.method.think and (
            self.method.name,
            self.seed,
            *(section.max_tokens, section.temperature, section.top_p, section.debaters),
        )


def answer_all(
    plan: Plan,
    askings: Sequence[Asking],
    items: BBQSet,
    mode: Mode,
    out: RunFolder,
    progress: Progress,
) -> dict[tuple[str, int], str]:
    """Have every method answer every item; (method, repeat) -> key of its answers in `out`.

    What `out` has is not computed again; what a model said before answering is in the journal.
    """
    keys = {(a.method.name, a.repeat): a.key(plan, items, mode) for a in askings}
    first = {keys[a.method.name, a.repeat]: a for a in reversed(askings)}
    todo = {key: a for key, a in first.items() if not has_answers(out, key)}
    if not todo:
        return keys
    progress.say(f"\nanswers to {len(items.items)} items: {len(todo)} of {len(first)} to do")
    with ray_cluster(out.root / "logs") as resources:
        placement = place(plan, resources)
        put, facts = _put(plan, todo, items, mode, placement, out, progress)
        with progress.bar("items answered", len(items.items) * len(todo)) as bar:
            for key, asking in todo.items():
                answers, seconds = _ranked(
                    plan, asking.folder, items, put[key], mode, placement, bar.advance
                )
                evaluation = Evaluation(
                    model=asking.method.title,
                    mode=mode,
                    variant="paper",
                    items=items,
                    answers=answers,
                    seed=asking.seed,
                )
                out.write_table(f"answers/{key}.parquet", evaluation.table())
                out.write_json(f"answers/{key}.json", facts[key] | {"answer_seconds": seconds})
    return keys


def has_answers(out: RunFolder, key: str) -> bool:
    """Whether the answers under a key are whole."""
    return (out.root / f"answers/{key}.json").exists()


def read_answers(out: RunFolder, key: str) -> pa.Table:
    """The items with what was answered; columns of bbq_summary.ANSWER_SCHEMA."""
    return out.read_table(f"answers/{key}.parquet")


def _put(
    plan: Plan,
    todo: dict[str, Asking],
    items: BBQSet,
    mode: Mode,
    placement: Placement,
    out: RunFolder,
    progress: Progress,
) -> tuple[dict[str, list[Put]], dict[str, dict[str, Any]]]:
    """Every item as each method is asked it, after thinking where it thinks; tokens and seconds."""
    put = {
        key: [Put(asked) for asked in _as_shown(items, mode, asking)]
        for key, asking in todo.items()
    }
    nothing = {"tokens": asdict(Usage()), "think_seconds": 0.0}
    facts: dict[str, dict[str, Any]] = {key: dict(nothing) for key in todo}
    thinking = {key: asking for key, asking in todo.items() if asking.method.think}
    if not thinking:
        return put, facts
    journal = Journal(out.path("journal/calls.jsonl"))
    number = len(items.items) * len(thinking)
    try:
        with (
            policy_engines(
                plan, placement, progress, plan.model, "base", plan.engines.dtype
            ) as pool,
            progress.bar("items thought about", number) as bar,
        ):
            pool.wait_until_ready()
            for key, asking in thinking.items():
                scenes = [
                    Scene.of_item(item, one.asked)
                    for item, one in zip(items.items, put[key], strict=True)
                ]
                # Modes that show a scene in the same way have it thought about once.
                about = digest(asking.weights, asking.thinking(plan), list(map(asdict, scenes)))
                model, watch = JournaledModel(pool, journal), Stopwatch(journal, about)

                def on_thought(watch: Stopwatch = watch) -> None:
                    watch.write()
                    bar.advance()

                thoughts = asyncio.run(think_all(asking, model, plan, scenes, on_thought))
                put[key] = [
                    Put(asked_after(one.asked, thought), thought.text)
                    for one, thought in zip(put[key], thoughts, strict=True)
                ]
                facts[key] = {"tokens": asdict(model.usage), "think_seconds": watch.seconds}
    finally:
        journal.close()
    return put, facts


class Stopwatch:
    """Seconds that something has taken in all its starts, as the journal knows them.

    Args:
        name: of what is timed; one address in the journal.
    """

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal, self._address = journal, f"{name}/seconds"
        written = journal.get(self._address)
        self._before: float = 0.0 if written is None else written["seconds"]
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(self._before + time.monotonic() - self._began, 1)

    def write(self) -> None:
        """What has passed until now is not lost with the process."""
        self._journal.append(self._address, {"seconds": self.seconds})


async def think_all(
    asking: Asking,
    model: ChatModel,
    plan: Plan,
    scenes: Sequence[Scene],
    on_thought: Callable[[], None] = lambda: None,
) -> list[Thought]:
    """What a method says about every scene, in their order."""
    think = asking.method.think
    assert think is not None
    thinker = Thinker(model, plan, f"{asking.method.name}-{asking.repeat}", asking.seed)

    async def one(scene: Scene) -> Thought:
        thought = await think(thinker, scene)
        on_thought()
        return thought

    return list(await asyncio.gather(*map(one, scenes)))


def _as_shown(items: BBQSet, mode: Mode, asking: Asking) -> list[Asked]:
    """Ranked options are not shown, so their order is as published."""
    permute = mode == "letter"
    return [ask(item, mode, order_of(item, permute, asking.seed)) for item in items.items]


def _ranked(
    plan: Plan,
    folder: str,
    items: BBQSet,
    put: Sequence[Put],
    mode: Mode,
    placement: Placement,
    on_answers: Callable[[int], None],
) -> tuple[dict[Key, Answer], float]:
    """The likeliest answer to every item, computed on a worker of the cluster.

    Also the seconds it took from when the model was loaded.
    """
    import ray

    from rldf_ray.evaluate.ranking.ranking import best_option, rank_answers
    from rldf_ray.models.embedded import resolve_model

    asked = [one.asked for one in put]
    task = remote(rank_answers, placement, num_returns="streaming")
    found: dict[Key, Answer] = {}
    began: float | None = None
    for reference in task.remote(
        resolve_model(folder),
        asked,
        device=placement.device,
        dtype=plan.engines.dtype,
        threads=placement.threads,
        tokens=plan.evaluate.batch_tokens,
        summed=mode == "rank_sum",
    ):
        scores = ray.get(reference)
        began = began or time.monotonic()
        for i, shown in scores.items():
            order = asked[i].order
            found[items.items[i].key] = Answer(
                prediction=order[best_option(shown)],
                order=order,
                scores=tuple(shown[order.index(published)] for published in range(3)),
                text=put[i].said or None,
            )
        on_answers(len(scores))
    assert began is not None, "the first part comes before any answer"
    return found, round(time.monotonic() - began, 1)
