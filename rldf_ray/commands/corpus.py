"""`rldf corpus`: one's own texts, indexed for search."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.console import write
from rldf_ray.loops import complete
from rldf_ray.storage.json_text import json_text

app = typer.Typer(help="One's own texts, indexed for search.", no_args_is_help=True)

AsJSON = Annotated[bool, typer.Option("--json", help="print JSON")]


@app.command("build")
def build_command(
    texts: Annotated[
        Path, typer.Argument(metavar="DIR", help="a folder of .jsonl, .txt, .md, .parquet (.gz)")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="the corpus")],
) -> None:
    """Index the passages of a folder, or of one file."""
    from rldf_ray.search.corpus import build
    from rldf_ray.search.texts import passages_in

    number, digest = build(passages_in(texts), out)
    write(f"{number} passages, digest {digest}: {out}")


@app.command()
def search(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="a corpus, or a folder of texts")],
    query: Annotated[str, typer.Argument(help="words; those that every passage has do not count")],
    k: Annotated[int, typer.Option("-k", min=1, help="hits at most")] = 4,
    as_json: AsJSON = False,
) -> None:
    """The best passages for a query."""

    from rldf_ray.search.backend import opened

    hits = complete(opened(f"local:{corpus}").search(query, k))
    if as_json:
        write(json_text([asdict(hit) for hit in hits], indent=2))
        return
    for hit in hits:
        write(f"{hit.score:6.2f}  {hit.title}{f'  {hit.url}' if hit.url else ''}")
        write(f"        {hit.text}")
    if not hits:
        write("nothing found")
