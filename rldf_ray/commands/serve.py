"""`rldf serve`: the served policy, imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from rldf_ray.commands.groups import DefaultCommandGroup
from rldf_ray.console import Progress
from rldf_ray.plan.saved import PLAN
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.object_store import is_address, local_path
from rldf_ray.storage.run_folder import RunFolder, local_copy
from rldf_ray.storage.yaml_text import read_yaml

progress = Progress()
serves = typer.Typer(
    cls=DefaultCommandGroup,
    help="Serve a model behind an OpenAI-compatible API, with a page.",
    no_args_is_help=True,
)

Model = Annotated[str, typer.Argument(metavar="MODEL", help="a run folder, model folder or hub id")]
Store = Annotated[Path, typer.Option("--store", metavar="DIR", help="the model store")]
Keys = Annotated[Path, typer.Option("--keys", metavar="FILE", help="the key file")]
Set = Annotated[
    list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the settings")
]
AsJSON = Annotated[bool, typer.Option("--json", help="print JSON instead of lines")]
Host = Annotated[
    str | None, typer.Option("--host", help="address; another than loopback needs --keys")
]
PolicyStore = Annotated[
    str | None,
    typer.Option("--store", metavar="DIR", help="serve the policy from this model store"),
]
Names = Annotated[
    str, typer.Option("--models", help="of a run folder: which of policy, sft and base")
]


ModelName = Annotated[str, typer.Option("--name", help="the served model's name in the store")]


@serves.command()
def start(
    model: Model,
    names: Names = "policy,base",
    host: Host = None,
    port: Annotated[int | None, typer.Option(help="port; 0 is any free one")] = None,
    keys: Annotated[str | None, typer.Option(metavar="FILE", help="API keys")] = None,
    store: PolicyStore = None,
    set_: Set = [],  # noqa: B006
) -> None:
    """Serve until SIGTERM: `rldf serve MODEL`. MODEL may also be a Serve config file."""
    from rldf_ray.apps.serve.launch import serve_until_stopped

    given = {"host": host, "port": port, "keys": keys, "store": store}
    serve_until_stopped(_settings(model, names, set_, given), progress.say)


@serves.command()
def config(model: Model, names: Names = "policy,base", set_: Set = []) -> None:  # noqa: B006
    """Print the same as a Serve config file, for `serve run` and `serve deploy`."""
    from rldf_ray.apps.serve.proxy import controller_options

    settings = _settings(model, names, set_, {})
    application = {
        "name": settings.name,
        "route_prefix": "/",
        "import_path": "rldf_ray.apps.serve.app:build",
        "args": settings.model_dump(mode="json", exclude_defaults=True),
    }
    http = {"host": settings.host, "port": settings.port}
    deployment = {
        "proxy_location": "HeadOnly",
        "http_options": http,
        "controller_options": controller_options(),
        "applications": [application],
    }
    print(yaml.safe_dump(deployment, sort_keys=False), end="")


@serves.command()
def rollout(
    version: Annotated[str, typer.Argument(help="a published version")],
    store: Store,
    percent: Annotated[
        float, typer.Option(min=0, max=100, help="its share; 100 makes it current, 0 takes it back")
    ],
    name: ModelName = "policy",
) -> None:
    """Shift traffic to a version and back; servers on the store follow within a second."""
    from rldf_ray.apps.serve.store import ModelStore

    traffic = ModelStore(store.resolve(), name).rollout(version, percent)
    shift = f", {traffic.percent:g} % to {traffic.next}" if traffic.next else ""
    progress.say(f"{name}: current {traffic.current}{shift}")


@serves.command()
def versions(store: Store, name: ModelName = "policy", as_json: AsJSON = False) -> None:
    """The published versions, and which are served."""
    from rldf_ray.apps.serve.store import ModelStore

    model_store = ModelStore(store.resolve(), name)
    traffic = model_store.traffic()
    shares = {} if traffic is None else {traffic.current: 100 - traffic.percent}
    if traffic is not None and traffic.next is not None:
        shares[traffic.next] = traffic.percent
    rows = [{"version": v, "percent": shares.get(v, 0.0)} for v in model_store.versions()]
    if as_json:
        print(json_text(rows, indent=2))
        return
    for row in rows:
        progress.say(f"{row['version']}  {row['percent']:g} %")


@serves.command()
def key(
    name: Annotated[str, typer.Argument(help="whose key")],
    keys: Keys,
    requests: Annotated[float | None, typer.Option(min=1, help="requests a minute")] = None,
    tokens: Annotated[float | None, typer.Option(min=1, help="tokens a minute")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="take the key back")] = False,
) -> None:
    """Make a key (or a new one), shown this once; running servers know it within a second."""
    from rldf_ray.apps.serve.keys import add_key, remove_key

    if remove:
        remove_key(keys, name)
        return
    print(add_key(keys, name, requests, tokens))


def _settings(model: str, names: str, set_: list[str], given: dict[str, Any]) -> Any:
    """The settings of a model or run, or the `args` of a Serve config file, with overrides."""
    from rldf_ray.apps.serve.settings import SettingsError
    from rldf_ray.apps.serve.settings_sources import set_field, settings_for, settings_of_file

    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for override in set_:
        dotted, _, text = override.partition("=")
        try:
            set_field(values, dotted, read_yaml(text))
        except yaml.YAMLError as error:
            raise SettingsError(f"--set {dotted}: the value is not valid YAML: {error}") from error
    if model.endswith((".yaml", ".yml")):
        return settings_of_file(local_path(model), values)
    if is_address(model) and (local_copy(model, PLAN) / PLAN).exists():
        raise SettingsError(
            f"{model} is a run at an address, of which its model alone can be served: "
            f"{RunFolder.at(model).address('model')}; copy the run to this machine to serve the "
            "rest of it"
        )
    return settings_for(model, tuple(names.split(",")), values)
