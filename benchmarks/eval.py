"""Items a second in ranked-answer mode, against lm-evaluation-harness and a vLLM engine.

    python -m benchmarks.eval --bbq DIR [--items 40] [--categories Age Religion]

All rank the same answers after the same prompts with the same model in bfloat16 on the same
threads. The harness is installed into an environment of its own under a temporary folder, on top
of the packages this one runs with, and gets the best of batch sizes from 2 to 64; the engine has a
process of its own (engine_ranking.py). Times begin when the model is loaded. Prints a table and
writes benchmarks/results/eval.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import goal, write_results
from rldf_ray.evaluate.bbq.prompt import ItemPrompt, ask
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.models.chat_template import ChatTemplate, chat_template
from rldf_ray.models.embedded import resolve_model
from rldf_ray.plan import TREE_TOKENS
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem

HARNESS = "lm-eval==0.4.13"
BATCHES = (2, 4, 8, 16, 32, 64)
SIZES = (256, 384, 512, 768)
TIMES = 3
TASK = "ranked_answers"

Figure = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bbq", required=True, help="a folder of BBQ's files")
    parser.add_argument("--items", type=int, default=40, help="items of each category")
    parser.add_argument("--categories", nargs="*", help="all of the folder by default")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    folder = resolve_model(options.model)
    items = load_bbq(options.bbq, options.categories or None, options.items).items
    scenes = load_bbq(SCENES, None, options.items).items
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure(folder, items, scenes, Path(scratch), options.threads)
    write(figures, len(items), options.model)


def measure(
    folder: str,
    items: Sequence[BBQItem],
    scenes: Sequence[BBQItem],
    scratch: Path,
    threads: int,
) -> Figure:
    """Items a second of both, and how far their scores and choices agree."""
    import torch

    torch.set_num_threads(threads)
    asked = [ask(item, "rank") for item in items]
    ours = ranked(folder, asked)
    small = ranked(folder, [ask(item, "rank") for item in scenes])
    engine = run_engine(folder, asked, scratch, threads)
    harness = run_harness(folder, asked, scratch, threads)
    best = max(harness["items_per_s"].values())
    return {
        "bbq": {"items": len(items), **ours["speed"]},
        "shipped_scenes": {"items": len(scenes), **small["speed"]},
        "engine": {
            "items_per_s": engine["items_per_s"],
            "same_choice": agreement(ours["scores"], engine["scores"]),
        },
        "lm_eval": {"batch_" + str(size): rate for size, rate in harness["items_per_s"].items()},
        "ratio": ours["speed"]["items_per_s"] / best,
        "same_choice": agreement(ours["scores"], token_means(folder, asked, harness["scores"])),
        "threads": threads,
    }


def ranked(folder: str, asked: Sequence[ItemPrompt]) -> Figure:
    """Several tree sizes, each the median of several times; the rate is that of the default."""
    import torch
    from transformers import AutoModelForCausalLM

    from rldf_ray.evaluate.ranking.prefix_tree import trees
    from rldf_ray.evaluate.ranking.ranking import score_tree, token_question

    template = chat_template(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    rates: dict[int, float] = {}
    tokens_read: dict[int, int] = {}
    scores: dict[int, tuple[float, ...]] = {}
    for tokens in SIZES:
        seconds = []
        for _ in range(TIMES):
            began, read = time.perf_counter(), 0
            questions = [token_question(template, place, one) for place, one in enumerate(asked)]
            for tree in trees(questions, tokens):
                scores |= score_tree(model, tree)
                read += len(tree)
            seconds.append(time.perf_counter() - began)
        rates[tokens], tokens_read[tokens] = len(asked) / sorted(seconds)[TIMES // 2], read
    speed = {
        "items_per_s": rates[TREE_TOKENS],
        "tree_tokens": TREE_TOKENS,
        "items_per_s_by_tree_tokens": {str(tokens): rate for tokens, rate in rates.items()},
        "tokens_read_per_item": tokens_read[TREE_TOKENS] / len(asked),
        "tokens_written_out_per_item": written_out(template, asked),
    }
    return {"speed": speed, "scores": scores}


def written_out(template: ChatTemplate, asked: Sequence[ItemPrompt]) -> float:
    """Tokens an item without any sharing: every prompt three times, and the answers."""
    from rldf_ray.evaluate.ranking.ranking import token_question

    questions = [token_question(template, place, one) for place, one in enumerate(asked)]
    return sum(len(q.prompt) + len(a) for q in questions for a in q.answers) / len(asked)


# ---- a vLLM engine


def run_engine(folder: str, asked: Sequence[ItemPrompt], scratch: Path, threads: int) -> Figure:
    """Its items a second, the median of several times, and its means of log-likelihoods."""
    from rldf_ray.evaluate.ranking.ranking import token_question

    template = chat_template(folder)
    questions = [token_question(template, place, one) for place, one in enumerate(asked)]
    items = [{"prompt": list(q.prompt), "answers": list(map(list, q.answers))} for q in questions]
    order = {"model": folder, "threads": threads, "items": items}
    answer = ordered(order, [sys.executable, "-m", "benchmarks.engine_ranking"], scratch)
    seconds = sorted(answer["seconds"])[len(answer["seconds"]) // 2]
    return {"items_per_s": len(asked) / seconds, "scores": scores_in(answer)}


def ordered(order: Figure, program: Sequence[str], scratch: Path) -> Figure:
    """What a program says to order.json in `scratch`, in its answer.json.

    Raises:
        SystemExit: it failed.
    """
    (scratch / "order.json").write_text(json.dumps(order), encoding="utf-8")
    done = subprocess.run([*program, str(scratch)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(program)} failed:\n{done.stderr[-3000:]}")
    answer: Figure = json.loads((scratch / "answer.json").read_text(encoding="utf-8"))
    return answer


def scores_in(answer: Figure) -> dict[int, tuple[float, ...]]:
    """Of each item by its place: JSON has no numbers for keys."""
    return {int(place): tuple(found) for place, found in answer["scores"].items()}


# ---- lm-evaluation-harness


def run_harness(folder: str, asked: Sequence[ItemPrompt], scratch: Path, threads: int) -> Figure:
    """Its items a second by batch size, and its scores (sums of log-likelihoods)."""
    python = environment(scratch / "venv")
    write_task(folder, asked, scratch)
    rates: dict[int, float] = {}
    scores: dict[int, tuple[float, ...]] = {}
    for size in BATCHES:
        order = {"model": folder, "batch": size, "threads": threads, "task": TASK}
        task = str(Path(__file__).with_name("lm_eval_task.py"))
        answer = ordered(order, [str(python), task], scratch)
        rates[size], scores = len(asked) / answer["seconds"], scores_in(answer)
    return {"items_per_s": rates, "scores": scores}


def environment(folder: Path) -> Path:
    """A virtual environment with the harness, and below it the packages of this one.

    Raises:
        SystemExit: it could not be installed.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    site = next((folder / "lib").glob("python*/site-packages"))
    # What this program runs with comes second, so nothing of it is installed again or replaced.
    (site / "parent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    pip = [str(python), "-m", "pip", "install", "--quiet", HARNESS]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(pip)} failed:\n{done.stderr[-2000:]}")
    return python


def write_task(folder: str, asked: Sequence[ItemPrompt], scratch: Path) -> None:
    """A local task: the prompts as the model's chat template writes them, and the answers."""

    template = chat_template(folder)
    rows = [
        {
            "place": place,
            "prompt": template.text(one.messages, generate=True),
            "answers": list(one.answers),
        }
        for place, one in enumerate(asked)
    ]
    data = scratch / "items.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (scratch / f"{TASK}.yaml").write_text(
        json.dumps(
            {
                "task": TASK,
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": {"test": str(data)}},
                "test_split": "test",
                "output_type": "multiple_choice",
                "doc_to_text": "{{prompt}}",
                "doc_to_choice": "answers",
                "doc_to_target": 0,
                "target_delimiter": "",
                "metric_list": [{"metric": "acc"}],
            }
        ),
        encoding="utf-8",
    )


def token_means(
    folder: str, asked: Sequence[ItemPrompt], sums: Mapping[int, Sequence[float]]
) -> dict[int, list[float]]:
    """The harness's sums over an answer's tokens as the means that are ranked here."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    return {
        place: [
            total / len(tokenizer.encode(answer, add_special_tokens=False))
            for answer, total in zip(asked[place].answers, found, strict=True)
        ]
        for place, found in sums.items()
    }


def agreement(ours: Mapping[int, Sequence[float]], theirs: Mapping[int, Sequence[float]]) -> float:
    """Share of items of which both find the same answer likeliest."""
    from rldf_ray.evaluate.ranking.scores import best_option

    same = [best_option(found) == best_option(theirs[place]) for place, found in ours.items()]
    return sum(same) / len(same)


def write(figures: Figure, items: int, model: str) -> None:
    """The table and benchmarks/results/eval.json."""
    table = Table("ranked answers", "items a second")
    table.add_row(f"prefix trees, {items} items of BBQ", f"{figures['bbq']['items_per_s']:.1f}")
    table.add_row("vLLM engine", f"{figures['engine']['items_per_s']:.1f}")
    for name, rate in figures["lm_eval"].items():
        table.add_row(f"lm-evaluation-harness, {name.replace('_', ' ')}", f"{rate:.1f}")
    table.add_row("prefix trees, shipped scenes", f"{figures['shipped_scenes']['items_per_s']:.1f}")
    Console().print(table)
    ratio = goal(
        "items a second over lm-evaluation-harness at its best batch size",
        figures["ratio"],
        least=3,
    )
    harness, _, version = HARNESS.partition("==")
    write_results("eval", {"model": model, **figures}, [ratio], others={harness: version})
    print(f"the same choice on {100 * figures['same_choice']:.1f} %")


if __name__ == "__main__":
    main()
