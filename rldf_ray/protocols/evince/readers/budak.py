"""Budak, Goel and Rao 2016: news articles of 2013, each rated by two workers toward both parties.

newsArticlesWithLabels.tsv as published has addresses, no texts; they are read from texts.jsonl
beside it ({"url", "text", "title"?}), and a row whose text is not there is left out. Only news on
scandals of either party (a choice: how the paper picked its 619 is not known). Rows that are left
out are counted. One worker was shown the outlet and one not; each said how the article treats each
party, so "toward Democrats" and "toward Republicans" are two questions to one person, not two camps
of people.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.storage.json_lines import parsed_lines, refuse
from rldf_ray.storage.table_rows import RowsError, read_rows

VOTES = ("Negative", "SomewhatNegative", "Neutral", "SomewhatPositive", "Positive")
COLUMNS = {"Democrats": "democrat.vote", "Republicans": "republican.vote"}
TOPICS = ("Democrat Scandals", "Republican Scandals")
WORKERS = {"0": "not shown the outlet", "1": "shown the outlet"}
TEXTS = "texts.jsonl"
NO_SCANDAL = "they are no news on a scandal of either party"
NO_TEXT = f"{TEXTS} has no text of theirs"


class _Text(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    url: str
    text: str
    title: str = ""


def read(file: Path, scale: LabelScale, targets: Sequence[str]) -> ItemSet[EvinceItem]:
    """Every scandal article with a text, toward each of the parties."""
    if len(scale.labels) != len(VOTES):
        raise RowsError(
            f"settings.scale={scale.name!r} has {len(scale.labels)} labels; these votes have five"
        )
    unknown = sorted(set(targets) - set(COLUMNS))
    if unknown:
        raise RowsError(f"settings.targets names {unknown[0]!r}; allowed: {', '.join(COLUMNS)}")
    texts = _texts(file.parent / TEXTS)
    articles: dict[str, list[dict[str, str]]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for number, row in read_rows(
        file, ["url", "q3", "perceived", "primary.topic", *COLUMNS.values()], "\t"
    ):
        _check(file, number, row)
        if row["q3"] != "News" or row["primary.topic"] not in TOPICS:
            left_out[NO_SCANDAL] += 1
        elif row["url"] not in texts:
            left_out[NO_TEXT] += 1
        else:
            articles[row["url"]].append(row)
    return ItemSet(list(_items(articles, texts, scale, targets or tuple(COLUMNS))), left_out)


def _items(
    articles: Mapping[str, Sequence[Mapping[str, str]]],
    texts: Mapping[str, _Text],
    scale: LabelScale,
    targets: Sequence[str],
) -> Iterator[EvinceItem]:
    """The items of articles, each by its address with its rows."""
    for url, rows in articles.items():
        for target in targets:
            yield EvinceItem(
                item_id=f"{url}, {target}".replace("/", "|"),
                text_id=url,
                text=texts[url].text,
                title=texts[url].title,
                target=target,
                source=urlsplit(url).netloc,
                category=rows[0]["primary.topic"],
                link=url,
                given={
                    WORKERS[row["perceived"]]: scale.names[VOTES.index(row[COLUMNS[target]])]
                    for row in sorted(rows, key=lambda row: row["perceived"])
                },
            )


def _texts(file: Path) -> dict[str, _Text]:
    if not file.is_file():
        raise RowsError(
            f"{file}: no such file; the published table has no texts, so put them there, one "
            '{"url", "text"} a line'
        )
    rows, problems = parsed_lines(file, _Text)
    refuse(file, problems)
    return {row.url: row for row in rows.values()}


def _check(file: Path, number: int, row: dict[str, str]) -> None:
    for column in COLUMNS.values():
        if row[column] not in VOTES:
            raise RowsError(
                f"{file}, line {number}: {column} is {row[column]!r}; allowed: {', '.join(VOTES)}"
            )
    if row["perceived"] not in WORKERS:
        raise RowsError(f"{file}, line {number}: perceived is {row['perceived']!r}, not 0 or 1")
