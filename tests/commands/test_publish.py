"""`rldf publish --to hub`: it says what it uploads, and nothing of this machine goes along."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from huggingface_hub import HfApi, ModelCard
from typer.testing import CliRunner

from rldf_ray import cli
from rldf_ray.errors import UserError
from rldf_ray.plan import Plan, load_plan
from rldf_ray.report.model_card import export_model
from rldf_ray.storage.hub import HubError
from rldf_ray.storage.hub_card import CardError
from rldf_ray.storage.run_folder import RunFolder

TOKEN = "hf_0123456789"
PUBLISH = "rldf_ray.commands.publish"
Rldf = Callable[..., Any]


@pytest.fixture
def rldf() -> Rldf:
    return lambda *words: CliRunner().invoke(cli.app, [str(word) for word in words])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    hub = create_autospec(HfApi(token=TOKEN))
    hub.token = TOKEN
    hub.repo_info.return_value.private = True
    monkeypatch.setattr(f"{PUBLISH}.hub_client", lambda: hub)
    return hub


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Any:
        raise AssertionError("the hub was asked for")

    monkeypatch.setattr(f"{PUBLISH}.hub_client", fails)


def run_of(root: Path, plan: Plan) -> RunFolder:
    folder = RunFolder(root)
    folder.write_text("plan.yaml", plan.to_yaml())
    for name, text in {
        "config.json": "{}",
        "model.safetensors": "weights",
        "training_args.bin": "a pickle",
        ".cache": "hidden",
    }.items():
        folder.write_text(f"ppo/model/{name}", text)
    folder.finish("ppo", plan.digest(), {"seconds": 1.0, "peak_pss_gib": 1.0, "history": []})
    export_model(folder, plan)
    return folder


def with_adapter(folder: RunFolder) -> RunFolder:
    folder.write_text(
        "ppo/adapter/adapter_config.json",
        json.dumps({"base_model_name_or_path": "/home/ann/models/base", "r": 8}),
    )
    folder.write_text("ppo/adapter/adapter_model.safetensors", "adapter")
    folder.write_text("ppo/adapter/README.md", "---\nbase_model: /home/ann/models/base\n---\n")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return run_of(tmp_path / "run", load_plan("smoke"))


def uploaded(hub: Any) -> dict[str, Any]:
    (_, operations), _ = hub.create_commit.call_args
    return {operation.path_in_repo: operation.path_or_fileobj for operation in operations}


def test_a_runs_model_goes_with_its_card_privately(run: RunFolder, hub: Any, rldf: Rldf) -> None:
    done = rldf("publish", run.root, "me/mine", "--to", "hub", "--dataset", "me/debates")
    assert done.exit_code == 0
    assert done.output.splitlines()[0] == "model me/mine:"
    assert done.output.splitlines()[-1] == "model me/mine, private"
    files = uploaded(hub)
    assert list(files) == ["README.md", "config.json", "model.safetensors"]
    assert files["model.safetensors"] == str(run.root / "model/model.safetensors")
    card = ModelCard(files["README.md"].decode())
    assert card.data.datasets == ["me/debates"] and card.data.license == "apache-2.0"
    assert hub.create_repo.call_args.kwargs["private"] is True
    assert TOKEN not in done.output


def test_public_has_to_be_said(run: RunFolder, hub: Any, rldf: Rldf) -> None:
    hub.repo_info.return_value.private = False
    done = rldf("publish", run.root, "me/mine", "--to", "hub", "--public")
    assert done.output.splitlines()[-1] == "model me/mine, public"
    assert hub.create_repo.call_args.kwargs["private"] is False


@pytest.mark.usefixtures("no_hub")
def test_a_dry_run_lists_files_and_sizes_and_needs_no_token(run: RunFolder, rldf: Rldf) -> None:
    done = rldf("publish", run.root, "me/mine", "--to", "hub", "--dry-run")
    assert done.exit_code == 0
    lines = [line.split() for line in done.output.splitlines()]
    card = (run.root / "model/README.md").stat().st_size
    assert lines == [
        ["model", "me/mine:"],
        [f"{card:,}", "README.md"],
        ["2", "config.json"],
        ["7", "model.safetensors"],
        [f"{card + 9:,}", "bytes", "in", "3", "files"],
        ["nothing", "is", "uploaded", "(--dry-run)"],
    ]


def test_an_adapters_base_is_named_by_its_id_not_by_a_folder(
    run: RunFolder, hub: Any, rldf: Rldf
) -> None:
    with_adapter(run)
    done = rldf("publish", run.root, "me/mine", "--to", "hub", "--adapter")
    assert done.exit_code == 0
    files = uploaded(hub)
    assert set(files) == {"README.md", "adapter_config.json", "adapter_model.safetensors"}
    base = "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert json.loads(files["adapter_config.json"]) == {"base_model_name_or_path": base, "r": 8}
    card = ModelCard(files["README.md"].decode())
    assert (card.data.base_model, card.data.library_name) == (base, "peft")
    assert b"/home/ann" not in files["README.md"]
    # What lies in the run stays as PEFT wrote it: it is loaded from there.
    assert "/home/ann" in (run.root / "ppo/adapter/adapter_config.json").read_text("utf-8")


def test_a_models_own_folder_goes_with_the_card_in_it(tmp_path: Path, hub: Any, rldf: Rldf) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("config.json", "sub/part.safetensors"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    for name in (".git/config", "sub/.env"):
        RunFolder(tmp_path).write_text(name, "hidden")
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n", encoding="utf-8")
    assert rldf("publish", tmp_path, "me/mine", "--to", "hub").exit_code == 0
    assert list(uploaded(hub)) == ["README.md", "config.json", "sub/part.safetensors"]
    assert "# Mine" in uploaded(hub)["README.md"].decode()


def refused(rldf: Rldf, kind: type[UserError], *words: object) -> str:
    error = rldf("publish", *words).exception
    assert isinstance(error, kind), error
    return str(error)


@pytest.mark.usefixtures("no_hub")
class TestRefusedBeforeTheHubIsAsked:
    def test_where_to(self, run: RunFolder, tmp_path: Path, rldf: Rldf) -> None:
        for words in ([], ["--store", tmp_path / "store", "--to", "hub"]):
            assert "--store DIR or --to hub" in refused(rldf, HubError, run.root, *words)
        assert "USER/NAME" in refused(rldf, HubError, run.root, "--to", "hub")
        assert "USER/NAME" in refused(rldf, HubError, run.root, "mine", "--to", "hub")

    def test_what_is_of_the_hub_alone(self, run: RunFolder, tmp_path: Path, rldf: Rldf) -> None:
        store = tmp_path / "store"
        for words in (
            ["me/mine"],
            ["--dry-run"],
            ["--public"],
            ["--adapter"],
            ["--dataset", "a/b"],
        ):
            error = refused(rldf, HubError, run.root, *words, "--store", store)
            shown = "USER/NAME" if words == ["me/mine"] else words[0]
            assert error == f"rldf publish --store: {shown} is of --to hub alone"
        both = refused(rldf, HubError, run.root, "--public", "--dry-run", "--store", store)
        assert both == "rldf publish --store: --public, --dry-run are of --to hub alone"
        assert not store.exists()

    def test_what_is_of_the_store_alone(self, run: RunFolder, rldf: Rldf) -> None:
        words = (run.root, "me/mine", "--to", "hub", "--name", "policy")
        assert "--name is of --store alone" in refused(rldf, HubError, *words)

    def test_data_for_everybody_in_a_folder(
        self, run: RunFolder, tmp_path: Path, rldf: Rldf
    ) -> None:
        words = ("data", "export", run.root, tmp_path / "there", "--to", "jsonl", "--public")
        error = rldf(*words).exception
        assert isinstance(error, HubError) and "--public is of --to hub alone" in str(error)
        assert not (tmp_path / "there").exists()

    def test_a_run_without_a_model(self, tmp_path: Path, rldf: Rldf) -> None:
        RunFolder(tmp_path).write_text("plan.yaml", load_plan("smoke").to_yaml())
        words = (tmp_path, "me/mine", "--to", "hub")
        assert "has no model yet: `rldf train ppo" in refused(rldf, HubError, *words)
        assert "train.lora.rank is 0" in refused(rldf, HubError, *words, "--adapter")

    def test_an_adapter_that_is_to_be_trained_again(self, run: RunFolder, rldf: Rldf) -> None:
        with_adapter(run).remove("stages/ppo.json")
        words = (run.root, "me/mine", "--to", "hub", "--adapter")
        assert "ppo/adapter is left over" in refused(rldf, HubError, *words)

    def test_an_adapter_of_a_folder(self, tmp_path: Path, rldf: Rldf) -> None:
        base = tmp_path / "base"
        base.mkdir()
        run = with_adapter(run_of(tmp_path / "run", load_plan("smoke", [f"model={base}"])))
        words = ("me/mine", "--to", "hub")
        why = "is not on the hub, so nobody else can load it"
        assert why in refused(rldf, HubError, run.root, *words, "--adapter")
        assert why in refused(rldf, HubError, run.root / "ppo/adapter", *words)
        assert "is no run" in refused(rldf, HubError, run.root / "ppo/adapter", *words, "--adapter")

    def test_a_folder_without_a_card_or_with_one_that_is_none(
        self, tmp_path: Path, rldf: Rldf
    ) -> None:
        words = (tmp_path, "me/mine", "--to", "hub")
        assert "is no model folder" in refused(rldf, HubError, *words)
        (tmp_path / "config.json").write_text("{}", encoding="utf-8")
        assert "README.md is missing" in refused(rldf, HubError, *words)
        card = tmp_path / "README.md"
        card.write_text("---\nbase_model: /home/ann/base\n---\n", encoding="utf-8")
        assert "base_model: '/home/ann/base'" in refused(rldf, CardError, *words)
        card.write_text("---\n- a list\n---\n", encoding="utf-8")
        assert "the head cannot be read" in refused(rldf, CardError, *words)

    def test_a_link_out_of_the_folder(self, run: RunFolder, tmp_path: Path, rldf: Rldf) -> None:
        (tmp_path / "secret").write_text("secret", encoding="utf-8")
        (run.root / "model/notes.txt").symlink_to(tmp_path / "secret")
        error = refused(rldf, HubError, run.root, "me/mine", "--to", "hub", "--dry-run")
        assert "a link that leads out of the folder" in error

    def test_a_data_set_that_is_no_id(self, run: RunFolder, rldf: Rldf) -> None:
        words = (run.root, "me/mine", "--to", "hub", "--dataset", "./data")
        assert "datasets: './data'" in refused(rldf, CardError, *words)
