"""Every method's answers to the same items, each repeat, kept under a hash of what shapes them.

Answers that cannot differ are computed once: a model that ranks options draws nothing, so Default
is the same in every repeat.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.placement import Placement, place
from rldf_ray.cluster.ray_cluster import ray_cluster, remote
from rldf_ray.comparison.method import Method
from rldf_ray.comparison.thinking import Scene, Thinker, Thought, prompt_after
from rldf_ray.console import Progress
from rldf_ray.engines.plan_engines import policy_engines
from rldf_ray.evaluate.bbq.prompt import ItemPrompt, Mode, ask, order_of
from rldf_ray.evaluate.bbq.summary import Answer, Evaluation
from rldf_ray.evaluate.ranking.scores import best_option
from rldf_ray.loops import complete
from rldf_ray.models.base import ChatModel, Usage
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.plan import Plan, Speaker
from rldf_ray.sets.bbq.items import BBQSet, Key
from rldf_ray.storage.digest import digest
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class PromptedItem:
    """An item's prompt, and what the model reasoned before it ("" if it did not)."""

    prompt: ItemPrompt
    reasoning: str = ""


@dataclass(frozen=True, kw_only=True)
class MethodRun:
    """One method in one repeat: the model that answers, and the seed.

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

    @property
    def place(self) -> tuple[str, int]:
        """Method and repeat."""
        return self.method.name, self.repeat

    def key(self, plan: Plan, items: BBQSet, mode: Mode) -> str:
        """The address of the answers: runs with equal keys have equal answers."""
        # Only letters show the options, in an order that the seed draws.
        drawn = self.seed if mode == "letter" else None
        questions = [asdict(item) for item in items.items]
        thinking = self.thinking(plan)
        asked = (self.weights, thinking, mode, drawn, plan.engines.dtype, questions)
        given = self.instructions(plan, items)
        rest = filter(None, [plan.chat_template_kwargs, given, self.method.looks_up])
        return digest(*asked, *rest)

    def instructions(self, plan: Plan, items: BBQSet) -> list[str]:
        """What each item's question follows; empty where it follows nothing."""
        instruct = self.method.instruct
        if instruct is None:
            return []
        scenes = [Scene.of_item(item, ask(item, "rank")) for item in items.items]
        return [instruct(plan, self.seed, scene).content for scene in scenes]

    def thinking(self, plan: Plan) -> tuple[object, ...] | None:
        """What its reasoning about a scene depends on; None where it does not reason first."""
        section = plan.debate
        return self.method.think and (
            self.method.name,
            self.seed,
            *(section.max_tokens, section.temperature, section.top_p, section.debaters),
            section.unknown,
        )


def answer_all(
    plan: Plan,
    method_runs: Sequence[MethodRun],
    items: BBQSet,
    mode: Mode,
    out: RunFolder,
    progress: Progress,
) -> dict[tuple[str, int], str]:
    """Have every method answer every item; (method, repeat) -> key of its answers in `out`.

    What `out` has is not computed again; what a model reasoned before answering is in the journal.
    """
    keys = {a.place: a.key(plan, items, mode) for a in method_runs}
    first = {keys[a.place]: a for a in reversed(method_runs)}
    todo = {key: a for key, a in first.items() if not has_answers(out, key)}
    if not todo:
        return keys
    progress.say(
        f"\nanswers to {len(items.items)} items ({mode}): {len(todo)} of {len(first)} to do"
    )
    with ray_cluster(out.root / "logs") as resources:
        placement = place(plan, resources)
        prompted, facts = _prompted_items(plan, todo, items, mode, placement, out, progress)
        with progress.bar("items answered", len(items.items) * len(todo)) as bar:
            for key, method_run in todo.items():
                answers, seconds = _ranked(
                    plan, method_run.folder, items, prompted[key], mode, placement, bar.advance
                )
                evaluation = Evaluation(
                    model=method_run.method.title,
                    mode=mode,
                    variant="paper",
                    items=items,
                    answers=answers,
                    seed=method_run.seed,
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


def _prompted_items(
    plan: Plan,
    todo: dict[str, MethodRun],
    items: BBQSet,
    mode: Mode,
    placement: Placement,
    out: RunFolder,
    progress: Progress,
) -> tuple[dict[str, list[PromptedItem]], dict[str, dict[str, Any]]]:
    """Every item as each method is prompted with it, after its reasoning; tokens and seconds."""
    prompted = {
        key: [PromptedItem(prompt) for prompt in _as_asked(plan, items, mode, method_run)]
        for key, method_run in todo.items()
    }
    nothing = {"tokens": Usage().numbers(), "think_seconds": 0.0}
    facts: dict[str, dict[str, Any]] = {key: dict(nothing) for key in todo}
    thinking = {key: method_run for key, method_run in todo.items() if method_run.method.think}
    if not thinking:
        return prompted, facts
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
            for key, method_run in thinking.items():
                scenes = [
                    Scene.of_item(item, one.prompt)
                    for item, one in zip(items.items, prompted[key], strict=True)
                ]
                # Modes that show a scene in the same way have it thought about once.
                about = digest(
                    method_run.weights, method_run.thinking(plan), list(map(asdict, scenes))
                )
                fields = plan.request_fields(Speaker("vllm", plan.model))
                model = JournaledModel(pool, journal, request_fields=fields)
                watch = Stopwatch(journal, about)

                def on_thought(watch: Stopwatch = watch) -> None:
                    watch.write()
                    bar.advance()

                thoughts = complete(think_all(method_run, model, plan, scenes, on_thought))
                prompted[key] = [
                    PromptedItem(prompt_after(one.prompt, thought), thought.text)
                    for one, thought in zip(prompted[key], thoughts, strict=True)
                ]
                facts[key] = {"tokens": model.usage.numbers(), "think_seconds": watch.seconds}
    finally:
        journal.close()
    return prompted, facts


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
    method_run: MethodRun,
    model: ChatModel,
    plan: Plan,
    scenes: Sequence[Scene],
    on_thought: Callable[[], None] = lambda: None,
) -> list[Thought]:
    """A method's reasoning about every scene, in the order of the scenes."""
    think = method_run.method.think
    assert think is not None
    thinker = Thinker(model, plan, f"{method_run.method.name}-{method_run.repeat}", method_run.seed)

    async def one(scene: Scene) -> Thought:
        thought = await think(thinker, scene)
        on_thought()
        return thought

    return list(await asyncio.gather(*map(one, scenes)))


def _as_asked(plan: Plan, items: BBQSet, mode: Mode, method_run: MethodRun) -> list[ItemPrompt]:
    """Ranked options are not shown, so their order is as published."""
    permute = mode == "letter"
    shown = [ask(item, mode, order_of(item, permute, method_run.seed)) for item in items.items]
    instructions = method_run.instructions(plan, items)
    if not instructions:
        return shown
    return [
        replace(prompt, messages=({"role": "system", "content": text}, *prompt.messages))
        for prompt, text in zip(shown, instructions, strict=True)
    ]


def _ranked(
    plan: Plan,
    folder: str,
    items: BBQSet,
    prompted: Sequence[PromptedItem],
    mode: Mode,
    placement: Placement,
    on_answers: Callable[[int], None],
) -> tuple[dict[Key, Answer], float]:
    """The likeliest answer to every item, computed on a worker of the cluster.

    Also the seconds it took from when the model was loaded.
    """
    import ray

    from rldf_ray.evaluate.ranking.ranking import rank_answers
    from rldf_ray.models.embedded import located

    prompts = [one.prompt for one in prompted]
    task = remote(rank_answers, placement, num_returns="streaming")
    answers: dict[Key, Answer] = {}
    began: float | None = None
    for reference in task.remote(
        located(folder),
        prompts,
        device=placement.device,
        dtype=plan.engines.dtype,
        threads=placement.threads,
        tokens=plan.evaluate.batch_tokens,
        summed=mode == "rank_sum",
        chat_template_kwargs=plan.chat_template_kwargs,
    ):
        scores = ray.get(reference)
        began = began or time.monotonic()
        for i, shown in scores.items():
            order = prompts[i].order
            answers[items.items[i].key] = Answer(
                prediction=order[best_option(shown)],
                order=order,
                scores=tuple(shown[order.index(published)] for published in range(3)),
                text=prompted[i].reasoning or None,
            )
        on_answers(len(scores))
    assert began is not None, "the first part comes before any answer"
    return answers, round(time.monotonic() - began, 1)
