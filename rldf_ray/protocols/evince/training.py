"""Training rows from a finished study: what was decided, and which arguments held.

    SFT rows   the question about a text -> its final label and the justification
    pairs      the question about a text -> an accepted argument, against a flagged one

A person's decision goes before the dialogue's own label; a text that people still have to look at
gives no SFT row.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import product

from rldf_ray.protocols.evince.folder import decisions_in, results_in
from rldf_ray.protocols.evince.prompt import text_prompt
from rldf_ray.protocols.evince.records import Row
from rldf_ray.protocols.evince.remediation import loaded
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.storage.run_folder import RunFolder

Messages = list[dict[str, str]]


def training_rows(
    folder: RunFolder, settings: EvinceSettings, seed: int
) -> Mapping[str, Iterator[dict[str, object]]]:
    """Both kinds, of a finished study's folder.

    Raises:
        UserError: its files are not to be read.
    """
    results, decisions = results_in(folder, settings, seed), decisions_in(folder)
    return {"sft": sft_rows(results, decisions), "pairs": pair_rows(results, decisions)}


def sft_rows(results: Results, decisions: Sequence[Row]) -> Iterator[dict[str, object]]:
    """`item_id`, `prompt` and `completion` (messages) of every text with a settled label."""
    if not results.rates_texts:
        # The label is of a side's position, and the question about the text.
        return
    decided = {row["item_id"]: row for row in decisions}
    for item_id, row in results.outcomes.get("main", {}).items():
        case, decision = loaded(row["remediation"]), decided.get(item_id)
        # Who only rejects arguments has not said which label the text gets.
        settled = decision is not None and bool(decision["decision"])
        if case is None or (row["review"] and not settled):
            continue
        label = row["label"]
        if decision is not None and decision["final"] != [label]:
            # The justification is of the dialogue's label, and of no other.
            continue
        said = f"{label}. {case['justification']}"
        yield {"item_id": item_id, "prompt": _asked(results, item_id), "completion": _turn(said)}


def pair_rows(results: Results, decisions: Sequence[Row]) -> Iterator[dict[str, object]]:
    """`topic` (the item), `prompt`, `chosen` and `rejected` (messages), within one text."""
    rejected = {row["item_id"]: set(row["reject"]) for row in decisions}
    for item_id in results.outcomes.get("main", {}):
        arguments = results.arguments.get((item_id, "main"), ())
        good, bad = accepted_and_flagged(arguments, rejected.get(item_id, set()))
        for one, other in product(good, bad):
            yield {
                "topic": item_id,
                "prompt": _asked(results, item_id),
                "chosen": _turn(one),
                "rejected": _turn(other),
            }


def accepted_and_flagged(
    arguments: Sequence[Row], refused: Container[str]
) -> tuple[list[str], list[str]]:
    """One dialogue's arguments in words, each once, as sides repeat theirs.

    Accepted is one that was rated, bears no flag and was not rejected by a person. Words that are
    accepted in one round and flagged in another are neither.

    Args:
        refused: ids of arguments that a person rejected.
    """
    bad = [a for a in arguments if a["flags"] or a["argument_id"] in refused]
    good = [a for a in arguments if a not in bad and a["own"] is not None]
    flagged, accepted = (dict.fromkeys(map(_said, found)) for found in (bad, good))
    return [s for s in accepted if s not in flagged], [s for s in flagged if s not in accepted]


def _asked(results: Results, item_id: str) -> Messages:
    item = results.items[item_id]
    content = text_prompt(item, results.scale.named(item.labels), results.settings)
    return [{"role": "user", "content": content}]


def _said(argument: Row) -> str:
    quote = f'As the text says: "{argument["quote"]}"' if argument["quote"] else ""
    parts = (f"{argument['label']}: {argument['claim']}", argument["reason"], quote)
    return "\n".join(filter(None, parts))


def _turn(said: str) -> Messages:
    return [{"role": "assistant", "content": said}]
