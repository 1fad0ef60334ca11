"""The commit that results name: of a checkout, of one with changes, and of none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rldf_ray.cluster import provenance


@pytest.fixture(autouse=True)
def _asked_anew() -> None:
    provenance.source_commit.cache_clear()


def _git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    ran = subprocess.run(
        ["git", *author, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    _git(tmp_path, "init", "--quiet")
    (tmp_path / "code.py").write_text("1\n", encoding="utf-8")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "-m", "one")
    monkeypatch.setattr(provenance, "SOURCE", tmp_path)
    return tmp_path


def test_a_checkout_names_its_commit(checkout: Path) -> None:
    (checkout / "untracked").touch()
    assert provenance.source_commit() == _git(checkout, "rev-parse", "HEAD")


def test_a_changed_file_is_said(checkout: Path) -> None:
    (checkout / "code.py").write_text("2\n", encoding="utf-8")
    assert provenance.source_commit() == _git(checkout, "rev-parse", "HEAD") + "+changes"


def test_a_package_installed_from_a_repository_names_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        @staticmethod
        def read_text(name: str) -> str:
            assert name == "direct_url.json"
            return '{"url": "x", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'

    monkeypatch.setattr(provenance, "SOURCE", tmp_path)
    monkeypatch.setattr(provenance, "distribution", lambda _: Installed)
    assert provenance.source_commit() == "abc"


def test_without_git_no_commit_is_known(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert provenance.source_commit() is None


@pytest.mark.parametrize(
    ("program", "arguments", "line"),
    [
        (
            "/venv/bin/rldf",
            ["run", "smoke", "--set", "name=a b"],
            "rldf run smoke --set 'name=a b'",
        ),
        ("/code/rldf_ray/__main__.py", ["--version"], "rldf --version"),
        ("/home/me/sizes.py", ["--many"], "python sizes.py --many"),
        (None, ["-f", "/tmp/kernel-1.json"], "Python"),
    ],
)
def test_the_command_is_what_was_typed_and_a_notebook_has_none(
    program: str | None, arguments: list[str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = SimpleNamespace() if program is None else SimpleNamespace(__file__=program)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [program or "ipykernel_launcher.py", *arguments])
    assert provenance.provenance()["command"] == line
