"""`rldf publish`: a model into a store of ours, from which it is served, or to the hub."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.console import write
from rldf_ray.plan.saved import PLAN, saved_plan
from rldf_ray.storage.hub import HubError, check_name, hub_client, listing, upload
from rldf_ray.storage.run_folder import RunFolder, local_copy


class Target(StrEnum):
    hub = "hub"


def publish(
    model: Annotated[str, typer.Argument(metavar="RUN_OR_MODEL", help="its model/, or a folder")],
    repo: Annotated[
        str | None, typer.Argument(metavar="USER/NAME", help="with --to hub: the model there")
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="the model store")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="store: the served model's name; default: policy")
    ] = None,
    to: Annotated[Target | None, typer.Option("--to", help="upload it, with its card")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="hub: for everybody; private otherwise")
    ] = False,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="hub: of a run the adapter, not the whole model")
    ] = False,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", metavar="USER/NAME", help="hub: the run's data there, for the card"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="hub: print files and sizes, upload nothing")
    ] = False,
) -> None:
    """Put a model into a store as its next version (--store), or on the hub (--to hub)."""
    if (store is None) == (to is None):
        raise HubError("rldf publish: needed is either --store DIR or --to hub USER/NAME")
    if store is not None:
        of_hub = {
            "USER/NAME": repo,
            "--public": public,
            "--adapter": adapter,
            "--dataset": dataset,
            "--dry-run": dry_run,
        }
        if given := [option for option, value in of_hub.items() if value]:
            verb = "is" if len(given) == 1 else "are"
            raise HubError(f"rldf publish --store: {', '.join(given)} {verb} of --to hub alone")
        _to_store(model, store, name or "policy")
        return
    if name is not None:
        raise HubError("rldf publish --to hub: --name is of --store alone; give USER/NAME")
    if repo is None:
        raise HubError(f"rldf publish {model} --to hub: needed is a name there, USER/NAME")
    from rldf_ray.report.publish import hub_files

    check_name(repo)
    files = hub_files(model, adapter=adapter, dataset=dataset)
    write(f"model {repo}:")
    for line in listing(files):
        write(line)
    if dry_run:
        write("nothing is uploaded (--dry-run)")
        return
    is_public = upload(
        hub_client(), repo, "model", files, public=public, message="A model of rldf_ray"
    )
    write(f"model {repo}, {'public' if is_public else 'private'}")


def _to_store(model: str, store: Path, name: str) -> None:
    from rldf_ray.apps.serve.store import ModelStore

    # At an address only a run is known by it.
    folder = local_copy(model, PLAN, "stages", "model")
    source = folder
    if (folder / PLAN).exists():
        saved_plan(RunFolder.at(folder))
        source = folder / "model"
    model_store = ModelStore(store.resolve(), name)
    version = model_store.publish(source)
    write(f"{name} {version}: {model_store.folder(version)}")
