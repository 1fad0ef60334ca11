"""benchmarks/README.md: the goals of every committed result, made from benchmarks/results/*.json.

python -m benchmarks.table            # prints the page
python -m benchmarks.table --write    # writes it to benchmarks/README.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.goals import RESULTS
from rldf_ray.plan import TREE_TOKENS

PAGE = Path(__file__).parent / "README.md"

INTRODUCTION = """\
# Benchmarks

`python -m benchmarks.NAME` runs one, prints a table and writes `benchmarks/results/NAME.json`: the
command, commit, date, machine, versions, figures and goals. This page is made from those files by
`python -m benchmarks.table --write`; it is not edited by hand. Memory is PSS summed over the
process tree.

Results without a commit were written before results recorded one, and the code has changed since.
A shared machine's speed follows that of its neighbours, so both sides of a comparison are measured
in one run.
"""


def _eval_note(figures: Mapping[str, Any]) -> str:
    bbq = figures["bbq"]
    by_size = bbq["items_per_s_by_tree_tokens"]
    default = figures["ratio"] * by_size[str(TREE_TOKENS)] / bbq["items_per_s"]
    sizes = ", ".join(f"{speed:.1f} with {size}" for size, speed in by_size.items())
    return (
        f"Items a second by the tokens of a tree: {sizes}. The value is of {bbq['tree_tokens']} "
        f"tokens; with {TREE_TOKENS}, the default, it is {default:.1f}."
    )


def _serve_note(figures: Mapping[str, Any]) -> str:
    """How much one server differs from itself: ratios closer to 1 than that say little."""
    spread = max(
        max(rates) / min(rates) - 1
        for turns in figures["turns"].values()
        for rates in ([turn[level]["tokens_per_s"] for turn in turns] for level in turns[0])
    )
    return (
        "From turn to turn one server at one number of streams differs from itself by up to "
        f"{spread:.0%} in tokens a second."
    )


def _evince_note(figures: Mapping[str, Any]) -> str:
    """How far the study can fill the seats of its engine: the ceiling has all requests at once."""
    seats = figures["plan"]["engines"]["max_num_seqs"]
    return (
        f"{figures['items']} dialogues, each a chain of turns that wait for each other: "
        f"{figures['requests_in_flight']:.1f} requests were under way on average, for {seats} "
        "seats, and fewer when most dialogues have ended; the ceiling gets all requests at once."
    )


# What a reader of the goals alone would get wrong, from the figures of the result.
NOTES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "debates": lambda _: "With a prompted referee on the same engine.",
    "debates_elsewhere": lambda _: (
        "With the referee elsewhere. Prefixes are shared in whole blocks, and vLLM has none below "
        "32 tokens on a CPU, so the prefix tree is out of reach."
    ),
    "eval": _eval_note,
    "orchestration": lambda _: "With 64 scripted engines the two cores are nearly used up.",
    "serve": _serve_note,
    "studies_evince": _evince_note,
    "studies_mabrf": lambda figures: (
        f"{figures['items']} items of BBQ, the loop with nothing to look up."
    ),
    "sweep_reuse": lambda _: (
        "The setting that the four axes have in common is counted four times; over the 15 "
        "distinct plans the share is 0.416."
    ),
}


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} instead")
    if parser.parse_args().write:
        PAGE.write_text(page(RESULTS), encoding="utf-8")
    else:
        print(page(RESULTS), end="")


def page(results: Path) -> str:
    """The whole page, one section a file of `results`, by name."""
    files = sorted(results.glob("*.json"))
    sections = [section(file.stem, json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return "\n".join([INTRODUCTION, *sections])


def section(name: str, result: Mapping[str, Any]) -> str:
    """One result: what was run where, its note, and a table of its goals."""
    goals = [
        f"| {goal['name']} | {goal['value']:.4g} | {_text(goal['goal'])} | "
        f"{'yes' if goal['met'] else 'no'} |"
        for goal in result["goals"]
    ]
    facts = [
        f"commit {result.get('commit') or 'not recorded'}",
        f"date {result.get('date', 'not recorded')}",
        machine_text(result["machine"]),
    ]
    lines = [f"## {name}", "", f"    {result['command']}", "", f"{', '.join(facts)}.", ""]
    if name in NOTES:
        lines += [NOTES[name](result["figures"]), ""]
    lines += ["| name | value | goal | met |", "| --- | --- | --- | --- |", *goals, ""]
    return "\n".join(lines)


def machine_text(machine: Mapping[str, Any]) -> str:
    """Cores, processor, memory and accelerators, in words."""
    gpus = ", ".join(machine["gpus"]) or "no GPU"
    return (
        f"{machine['cpus']} cores ({machine['processor']}), {machine['memory_gib']:g} GiB, {gpus}"
    )


def _text(goal: str) -> str:
    """A goal as a cell: comparison signs as one character, which Markdown leaves alone."""
    return goal.replace(">=", "≥").replace("<=", "≤")


if __name__ == "__main__":
    main()
