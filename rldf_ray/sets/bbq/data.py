"""BBQ's files as published: read, checked, joined with the stereotyped answer, sampled in balance.

Source of the format: Parrish et al. 2022, "BBQ: A Hand-Built Bias Benchmark for
Question Answering" (Findings of ACL 2022). The project's own scenes use the same format.

    <category>.jsonl[.gz]  --+
                             +--> load_bbq --> BBQSet(items) --> bbq_score
    target_loc*.csv, or    --+
    additional_metadata.csv
"""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.sets.bbq.items import BBQError, BBQItem, BBQSet, Condition, Key, Polarity
from rldf_ray.sets.bbq.sample import LEAST, balanced_sample
from rldf_ray.storage.folders import visible
from rldf_ray.storage.json_lines import numbered_lines, problems_of

# Text and group; both are missing from an answer of a few published rows.
_TextAndGroup: TypeAlias = list[str]
_SUFFIXES = (".jsonl", ".jsonl.gz")
# The published stereotyped answers, and where a checkout may have them.
METADATA = "additional_metadata.csv"
METADATA_FOLDERS = ("analysis_scripts", "supplemental")
_TARGETS = {"0": 0, "1": 1, "2": 2, "0.0": 0, "1.0": 1, "2.0": 2}
# "x" is what the authors' script writes where no option belongs to the stereotyped groups.
_NO_VALUE = frozenset({"", "na", "nan", "none", "x"})


def load_bbq(
    directory: Path | str,
    categories: Sequence[str] | None = None,
    limit_per_category: int | None = None,
    seed: int = 0,
    without: Container[Key] = (),
) -> BBQSet:
    """Read a folder of BBQ files, or a checkout of the published repository.

    Args:
        directory: holds `<category>.jsonl` or `<category>.jsonl.gz` itself or in `data/`.
            `target_loc` comes from `target_loc*.csv` beside the items (all of them), else from the
            first `additional_metadata.csv` beside them, or in `analysis_scripts/` or
            `supplemental/` below or beside their folder.
        categories: the categories to read; None reads every file.
        limit_per_category: most items of a category, at least 4. The sample is made of whole
            (ambiguous, disambiguated) pairs, as many of either polarity, with the stereotyped
            answer right as often as not where the category allows it, spread over the question
            templates; so it holds the largest multiple of 4 that fits, and what has no sibling is
            never in it. A category that is no larger is taken whole.
        seed: of the sample; the same seed takes the same items of a category, whatever other
            categories are read with it.
        without: items that are left out before the sample is drawn.

    Raises:
        FileNotFoundError: no such folder, or no BBQ file in it.
        BBQError: an unknown category, a limit below 4, or a file that is not as published; the
            message names the file, the line, the value read and what is allowed.
        LinesError: a file that is not text.
    """
    if limit_per_category is not None and limit_per_category < LEAST:
        raise BBQError(
            f"limit_per_category is {limit_per_category}; allowed: {LEAST} or more (two "
            "conditions of two polarities), or None for all items"
        )
    root = Path(directory)
    files = _select(_item_files(root), categories)
    folder = next(iter(files.values())).parent
    sources = _target_files(root, folder)
    targets, contradictory = _read_targets(sources)
    items: list[BBQItem] = []
    for category, path in sorted(files.items()):
        published = _read_items(path, category)
        given = [
            replace(item, target_loc=targets.get(item.key))
            for item in published
            if item.key not in without
        ]
        rows = balanced_sample(given, limit_per_category, seed)
        if not rows:
            raise BBQError(f"{path}: {_why_no_sample(published, given, limit_per_category)}")
        items += rows
    return BBQSet(
        items=tuple(items),
        source=str(folder),
        target_sources=tuple(str(path) for path in sources),
        contradictory=frozenset(contradictory & {item.key for item in items}),
        why_no_bias_scores=_why_no_bias_scores(items, folder, sources),
    )


def categories_in(directory: Path | str) -> tuple[str, ...]:
    """The categories a folder of BBQ files holds, by name.

    Raises:
        FileNotFoundError, BBQError: as `load_bbq`.
    """
    return tuple(sorted(_item_files(Path(directory))))


# ---- files


def _item_files(root: Path) -> dict[str, Path]:
    """Category -> its file, in `root` or else in `root/data` (the published repository)."""
    if not root.is_dir():
        raise FileNotFoundError(
            f"{root} is not a folder; needed: a folder of BBQ files, <category>.jsonl or .jsonl.gz"
        )
    for folder in (root, root / "data"):
        files: dict[str, Path] = {}
        for path in visible(folder, "*.jsonl*"):
            suffix = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
            if suffix not in _SUFFIXES:
                continue
            category = path.name.removesuffix(suffix)
            if category in files:
                raise BBQError(
                    f"{folder} holds both {files[category].name} and {path.name}; allowed: one "
                    "file a category"
                )
            files[category] = path
        if files:
            return files
    raise FileNotFoundError(
        f"no BBQ file in {root} or {root / 'data'}; needed: <category>.jsonl or .jsonl.gz"
    )


def _select(files: dict[str, Path], categories: Sequence[str] | None) -> dict[str, Path]:
    if categories is None:
        return files
    if not categories or set(categories) - set(files):
        raise BBQError(f"categories {list(categories)} asked for; allowed: some of {list(files)}")
    return {category: files[category] for category in categories}


def _target_files(root: Path, folder: Path) -> list[Path]:
    own = visible(folder, "target_loc*.csv")
    if own:
        return own
    # Published: items in data/, the csv in a folder beside it. A user may also have put that
    # folder below the items, or the csv at the top of the checkout.
    bases = dict.fromkeys((folder, root, folder.resolve().parent))
    places = [folder, root, *(base / name for base in bases for name in METADATA_FOLDERS)]
    candidates = (place / METADATA for place in places)
    return [path for path in candidates if path.is_file()][:1]


# ---- items


def _read_items(path: Path, category: str) -> list[BBQItem]:
    items: dict[int, BBQItem] = {}
    for number, line in numbered_lines(path):
        where = f"{path}, line {number}"
        item = _item(line, where)
        if item.category != category:
            raise BBQError(
                f"{where}: category is {item.category!r}; allowed: the file's name, {category!r}"
            )
        if item.example_id in items:
            raise BBQError(
                f"{where}: example_id {item.example_id} stands there a second time; allowed: one "
                "line an example_id"
            )
        items[item.example_id] = item
    if not items:
        raise BBQError(f"{path}: no line in it; needed: one JSON object a line")
    return list(items.values())


class _AnswerInfo(BaseModel):
    """For each option its text and its group; the group is what counts here."""

    ans0: _TextAndGroup
    ans1: _TextAndGroup
    ans2: _TextAndGroup

    @property
    def groups(self) -> list[str]:
        return ["".join(info[1:2]) for info in (self.ans0, self.ans1, self.ans2)]


class _Row(BaseModel):
    """One line as published; what else stands there (`additional_metadata`) is passed over."""

    model_config = ConfigDict(strict=True)

    category: str
    example_id: int
    question_index: str | int
    question_polarity: Polarity
    context_condition: Condition
    context: str
    question: str
    ans0: str
    ans1: str
    ans2: str
    answer_info: _AnswerInfo
    label: Annotated[int, Field(ge=0, le=2)]


def _item(line: str, where: str) -> BBQItem:
    try:
        row = _Row.model_validate_json(line)
    except ValidationError as error:
        raise BBQError(f"{where}: {problems_of(error)}") from error
    groups = row.answer_info.groups
    # By the group and never by the wording, of which there are ten.
    if groups.count("unknown") != 1:
        raise BBQError(
            f"{where}: the groups in answer_info are {groups}; allowed: exactly one 'unknown'"
        )
    return BBQItem(
        category=row.category,
        example_id=row.example_id,
        question_index=str(row.question_index),
        polarity=row.question_polarity,
        condition=row.context_condition,
        context=row.context,
        question=row.question,
        options=(row.ans0, row.ans1, row.ans2),
        label=row.label,
        unknown=groups.index("unknown"),
    )


def _why_no_sample(
    published: Sequence[BBQItem], given: Sequence[BBQItem], limit: int | None
) -> str:
    """Why a category has no items, and what to do."""
    left_out = len(published) - len(given)
    if not given:
        return (
            f"none of its {left_out} items is left, as all were left out beforehand (--dev-items "
            "of a comparison); leave fewer out, or the category"
        )
    why = (
        "no question has both polarities, each without and with the sentence that settles it"
        if not left_out
        else f"of the {len(given)} items left no question has both polarities, each without and "
        f"with the sentence that settles it: {left_out} of {len(published)} were left out "
        "beforehand (--dev-items of a comparison)"
    )
    leave = "leave the limit out, or the category" if not left_out else "leave fewer out"
    return f"no balanced sample of {limit} items can be drawn, as {why}; {leave}"


# ---- the stereotyped answer


def _read_targets(paths: Sequence[Path]) -> tuple[dict[Key, int], set[Key]]:
    """The targets of all files, and the keys left out because rows about them disagree."""
    targets: dict[Key, int] = {}
    contradictory: set[Key] = set()
    for path in paths:
        for key, target in _target_rows(path):
            # The authors' script can write a row twice; that alone is no contradiction.
            if targets.setdefault(key, target) != target:
                contradictory.add(key)
    return {key: t for key, t in targets.items() if key not in contradictory}, contradictory


def _target_rows(path: Path) -> Iterator[tuple[Key, int]]:
    """The rows that name an item and its target.

    `target_loc` is taken as it stands: the published file is already flipped for polarity.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BBQError(f"{path}: {error}; allowed: UTF-8 text") from error
    reader = csv.DictReader(io.StringIO(text))
    needed = ("category", "example_id", "target_loc")
    missing = [name for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        raise BBQError(f"{path}, line 1: no column {missing}; needed: {list(needed)}")
    try:
        for row in reader:
            example, target = ((row[name] or "").strip() for name in needed[1:])
            if example.lower() in _NO_VALUE or target.lower() in _NO_VALUE:
                continue
            if not example.isdecimal() or target not in _TARGETS:
                raise BBQError(
                    f"{path}, line {reader.line_num}: example_id {example!r}, target_loc "
                    f"{target!r}; allowed: a whole number, and 0, 1, 2 or empty"
                )
            yield (row["category"], int(example)), _TARGETS[target]
    except csv.Error as error:
        raise BBQError(f"{path}, line {reader.line_num}: not CSV ({error})") from error


def _why_no_bias_scores(
    items: Sequence[BBQItem], folder: Path, sources: Sequence[Path]
) -> str | None:
    if any(item.target_loc is not None for item in items):
        return None
    if sources:
        names = ", ".join(str(path) for path in sources)
        return f"{names}: no usable target_loc for any of the {len(items)} items"
    return (
        f"no target_loc*.csv in {folder}, and no {METADATA} there or in "
        f"{' or '.join(METADATA_FOLDERS)} below or beside it"
    )
