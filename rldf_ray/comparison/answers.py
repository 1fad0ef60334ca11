"""Every method's answers to the same items, each repeat, kept under a hash of what shapes them.

Answers that cannot differ are computed once: a model that ranks options draws nothing, so Default
is the same in every repeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.placement import Placement, place
from rldf_ray.cluster.ray_cluster import ray_cluster, remote
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.thinking import Scene, prompt_after
from rldf_ray.comparison.thoughts import CutOffs, Stopwatch, counts_of, think_all
from rldf_ray.console import Progress
from rldf_ray.engines.plan_engines import policy_engines
from rldf_ray.evaluate.bbq.prompt import ItemPrompt, Mode, ask, order_of
from rldf_ray.evaluate.bbq.summary import Answer, Evaluation
from rldf_ray.evaluate.ranking.scores import best_option
from rldf_ray.loops import complete
from rldf_ray.models.base import Usage
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.plan import Plan, Speaker
from rldf_ray.sets.bbq.items import BBQError, BBQSet, Key
from rldf_ray.storage.digest import digest
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class PromptedItem:
    """An item's prompt, and what the model reasoned before it ("" if it did not)."""

    prompt: ItemPrompt
    reasoning: str = ""


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

    Raises:
        BBQError: a model ranks nothing; the message names the method, its repeat and its folder.
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
                with _naming(method_run):
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


@contextmanager
def _naming(method_run: MethodRun) -> Iterator[None]:
    """An error about a model says whose it is."""
    try:
        yield
    except BBQError as error:
        # What a worker raised comes with its traceback, and with the error itself as the cause.
        said = getattr(error, "cause", None) or error
        raise BBQError(f"{method_run.described()}: {said}") from error


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
    """Every item as each method is prompted with it, after its reasoning; and what that took."""
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
                    method_run.weights,
                    method_run.thinking(plan, scenes),
                    list(map(asdict, scenes)),
                )
                fields = plan.request_fields(Speaker("vllm", plan.model))
                model = JournaledModel(
                    pool, journal, address=method_run.revision, request_fields=fields
                )
                counted = CutOffs(model)
                watch = Stopwatch(journal, about)

                def on_thought(watch: Stopwatch = watch) -> None:
                    watch.write()
                    bar.advance()

                thoughts = complete(think_all(method_run, counted, plan, scenes, on_thought))
                prompted[key] = [
                    PromptedItem(prompt_after(one.prompt, thought), thought.text)
                    for one, thought in zip(prompted[key], thoughts, strict=True)
                ]
                facts[key] = {
                    "tokens": model.usage.numbers(),
                    "think_seconds": watch.seconds,
                    "thoughts": counted.numbers() | counts_of(thoughts),
                }
    finally:
        journal.close()
    return prompted, facts


def _as_asked(plan: Plan, items: BBQSet, mode: Mode, method_run: MethodRun) -> list[ItemPrompt]:
    """Ranked options are not shown, so their order is as published."""
    permute = mode == "letter"
    shown = [ask(item, mode, order_of(item, permute, method_run.seed)) for item in items.items]
    scenes = [Scene.of_item(item, ask(item, "rank")) for item in items.items]
    instructions = method_run.instructions(plan, scenes)
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
