"""The `rldf` command: plans, overrides, and errors of one message and exit status 1."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from rich.console import Console

import rldf_ray
from rldf_ray import cli
from rldf_ray.cluster.placement import PlacementError
from rldf_ray.console import Progress
from rldf_ray.models.base import BudgetSpentError, ModelError
from rldf_ray.plan import PlanError, load_plan, plan_fields, presets
from rldf_ray.protocols.known import study_names
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.studies.plans import study_fields
from rldf_ray.topics.bias_type import BiasTypeError

Rldf = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rldf(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rldf:
    """Runs a command line in this process; returns exit status, stdout and stderr."""
    monkeypatch.setattr(
        cli, "progress", Progress(Console(width=200, highlight=False, soft_wrap=True))
    )

    def run(*arguments: str) -> tuple[int, str, str]:
        status = 0
        try:
            cli.main(lambda: cli.app(list(arguments), prog_name="rldf"))
        except SystemExit as end:
            status = int(end.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return run


class Pipeline(SimpleNamespace):
    """Stands in for rldf_ray.pipeline, which brings Ray and torch with it."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error: BaseException | None = None

    def run(self, plan: Any, where: str, progress: Any, **options: Any) -> None:
        out = Path(where)
        self.calls.append((plan, out, options))
        if self.error is not None:
            raise self.error
        progress.say(f"report: {out / 'report.html'}")
        out.mkdir(exist_ok=True)
        (out / "report.json").write_text(json.dumps(REPORT), encoding="utf-8")


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    stand_in = Pipeline()
    monkeypatch.setitem(sys.modules, "rldf_ray.pipeline", stand_in)
    monkeypatch.setattr(rldf_ray, "pipeline", stand_in, raising=False)
    return stand_in


REPORT = {
    "evaluation": {
        "set": "the set shipped here",
        "models": {
            "base": {
                "multiple_choice": {
                    "overall": {
                        "accuracy": 0.5,
                        "accuracy_ambig": 0.25,
                        "accuracy_disambig": 0.75,
                        "s_amb": None,
                        "s_dis": -0.125,
                    }
                },
                "reward": None,
                "perplexity": {"value": 12.345, "tokens": 7},
            }
        },
        "always_unknown": {
            "accuracy": 0.5,
            "accuracy_ambig": 1.0,
            "accuracy_disambig": 0.0,
            "s_amb": None,
            "s_dis": None,
        },
    },
    "notes": ["A note with [brackets]."],
    "totals": {"seconds": 61.4, "peak_pss_gib": None},
}


def begun(folder: Path, *overrides: str) -> Path:
    (folder / "plan.yaml").write_text(load_plan("smoke", overrides).to_yaml(), encoding="utf-8")
    return folder


# ---- plans


@pytest.mark.parametrize("name", presets())
def test_showing_a_plan_prints_the_whole_plan_that_loads_again(
    name: str, rldf: Rldf, tmp_path: Path
) -> None:
    status, out, err = rldf("plan", "show", name)
    assert (status, err) == (0, "")
    saved = tmp_path / "plan.yaml"
    saved.write_text(out, encoding="utf-8")
    assert load_plan(str(saved)) == load_plan(name)


def test_a_plan_can_be_shown_as_json_with_overrides(rldf: Rldf) -> None:
    status, out, _ = rldf(
        "plan", "show", "smoke", "--json", "--set", "debate.rounds=7", "--set", "seed=3"
    )
    shown = json.loads(out)
    assert status == 0
    assert (shown["debate"]["rounds"], shown["seed"]) == (7, 3)
    assert shown == load_plan("smoke", ["debate.rounds=7", "seed=3"]).model_dump(mode="json")


def test_the_version_is_the_installed_ones(rldf: Rldf) -> None:
    assert rldf("--version") == (0, f"{version('rldf-ray')}\n", "")


def test_a_valid_plan_is_told_with_its_digest(rldf: Rldf) -> None:
    status, out, _ = rldf("plan", "validate", "smoke", "--set", "seed=3")
    assert status == 0
    assert out == f"smoke: valid, digest {load_plan('smoke', ['seed=3']).digest()}\n"


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("debate.protocol=nope", "debate.protocol=nope: no such protocol; allowed: "),
        ("bias_types=[nope]", "bias_types: "),
        ("data.language=xx", "data.language='xx'"),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_not_valid(
    override: str, named: str, rldf: Rldf
) -> None:
    status, out, err = rldf("plan", "validate", "opinions", "--set", override)
    assert (status, out) == (1, "") and named in err


def test_fields_as_json_have_path_type_default_unit_source_and_meaning(rldf: Rldf) -> None:
    status, out, _ = rldf("plan", "fields", "--json")
    rows = {row["path"]: row for row in json.loads(out)}
    assert status == 0 and list(rows) == [field.path for field in plan_fields()]
    assert rows["referee.threshold"] == {
        "path": "referee.threshold",
        "type": "float",
        "default": 3.0,
        "unit": "score 0-10",
        "source": "paper 3.1",
        "description": "absolute: a score above it is high bias",
    }


@pytest.mark.parametrize("name", study_names())
def test_fields_of_a_study_as_json_have_its_defaults(rldf: Rldf, name: str) -> None:
    status, out, _ = rldf("study", "fields", name, "--json")
    assert status == 0
    defaults = {row["path"]: row["default"] for row in json.loads(out)}
    assert list(defaults) == [field.path for field in study_fields(name)]
    if name == "persuasion":
        assert defaults["settings.debaters"]["debater"]["best_of"] == 1


def test_fields_show_every_field_with_its_unit_and_source(rldf: Rldf) -> None:
    status, out, _ = rldf("plan", "fields")
    lines = out.splitlines()
    assert status == 0
    for field in plan_fields():
        (place,) = [n for n, x in enumerate(lines) if x.startswith(f"{field.path}: ")]
        assert field.type in lines[place]
        about = lines[place + 1]
        assert field.description in about
        assert field.unit in about and field.source in about


def test_fields_are_named_in_full_on_a_narrow_terminal(
    rldf: Rldf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cli, "progress", Progress(Console(width=80, highlight=False, soft_wrap=True))
    )
    _, out, _ = rldf("plan", "fields")
    assert [field.path for field in plan_fields() if field.path not in out] == []


def test_the_type_of_every_field_is_shown_in_full(rldf: Rldf) -> None:
    _, out, _ = rldf("plan", "fields")
    assert "tuple[str, ...]" in out


# ---- errors


@pytest.mark.parametrize("command", [["plan", "show"], ["plan", "validate"], ["run"]], ids=" ".join)
@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("debate.rounds=0", ["debate.rounds", "found 0", "greater than or equal to 1"]),
        ("debate.order=any", ["debate.order", "'any'", "'simultaneous' or 'sequential'"]),
        ("debate.round=1", ["debate.round", "no such field", "allowed in debate", "rounds"]),
        ("rounds", ["'rounds'", "FIELD=VALUE"]),
    ],
)
def test_a_wrong_override_is_told_with_field_value_and_what_is_allowed(
    command: list[str], override: str, parts: list[str], rldf: Rldf, tmp_path: Path
) -> None:
    where = ["--out", str(tmp_path / "run")] if command == ["run"] else []
    status, out, err = rldf(*command, "smoke", *where, "--set", override)
    assert (status, out) == (1, "")
    assert err.startswith("error: ") and "Traceback" not in err
    assert [part for part in parts if part not in err] == []
    assert not (tmp_path / "run").exists()


def test_an_unknown_plan_is_told_the_presets(rldf: Rldf) -> None:
    status, _, err = rldf("plan", "show", "quikstart")
    assert status == 1
    assert err == (
        f"error: plan 'quikstart': neither a preset ({', '.join(presets())}) nor a file\n"
    )


def test_all_wrong_fields_of_a_file_are_told_at_once(rldf: Rldf, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("debate: {rounds: 0, order: any}\nfoo: 1\n", encoding="utf-8")
    status, _, err = rldf("plan", "validate", str(path))
    assert status == 1
    assert all(part in err for part in (str(path), "debate.rounds", "debate.order", "foo"))


@pytest.mark.parametrize(
    "error",
    [
        PlanError("p"),
        ModelError("m"),
        PlacementError("q"),
        BiasTypeError("b"),
        RunFolderError("r"),
        OSError(28, "No space left on device"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_expected_error_is_one_message_and_status_1(
    error: Exception, rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.error = error
    status, _, err = rldf("run", "smoke", "--out", str(tmp_path / "run"))
    assert status == 1 and err.startswith(f"error: {error}") and err.count("\n") == 1


def test_a_full_disk_is_said_with_the_file_and_what_to_do(
    rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.error = OSError(28, "No space left on device", "run/data/pairs.parquet")
    status, _, err = rldf("run", "smoke", "--out", str(tmp_path / "run"))
    assert status == 1
    advice = "make room: the same command continues from what was finished"
    assert err == f"error: {pipeline.error}; {advice}\n" and "run/data/pairs.parquet" in err


def test_a_spent_budget_is_no_error_and_status_3(
    rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.error = BudgetSpentError("the budget of 5 USD does not cover the next call")
    status, _, err = rldf("run", "smoke", "--out", str(tmp_path / "run"))
    assert (status, err) == (3, f"stopped: {pipeline.error}\n")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("rldf_ray.stages.run", "StageError"),
        ("rldf_ray.preflight.checks", "PreflightError"),
        ("rldf_ray.train.worker", "TrainingError"),
    ],
)
def test_an_error_of_a_stage_is_one_message_and_status_1(
    module: str, name: str, rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.error = getattr(importlib.import_module(module), name)("what to do")
    assert rldf("run", "smoke", "--out", str(tmp_path / "run"))[::2] == (1, "error: what to do\n")


def test_an_unexpected_error_keeps_its_traceback(
    rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.error = ZeroDivisionError("a mistake of ours")
    with pytest.raises(ZeroDivisionError):
        rldf("run", "smoke", "--out", str(tmp_path / "run"))


def test_an_interrupted_command_says_that_it_can_go_on(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        cli.main(interrupted)
    assert end.value.code == 130
    assert "continues from what was finished" in capsys.readouterr().err


def test_a_missing_argument_is_a_usage_error(rldf: Rldf) -> None:
    status, _, err = rldf("run", "smoke")
    assert status == 2 and "--out" in err


# ---- what the commands ask of the pipeline


def test_a_run_gets_the_overridden_plan_and_prints_the_report(
    rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    status, out, _ = rldf("run", "smoke", "--out", str(tmp_path / "run"), "--set", "seed=9")
    ((plan, where, options),) = pipeline.calls
    assert status == 0
    assert (plan, where, options) == (load_plan("smoke", ["seed=9"]), tmp_path / "run", {})
    assert "the set shipped here" in out and "A note with [brackets]." in out
    (row,) = [line for line in out.splitlines() if "base" in line]
    assert row.split() == ["base", "0.500", "0.250", "0.750", "n/a", "-0.125", "n/a", "12.3"]
    (row,) = [line for line in out.splitlines() if "always unknown" in line]
    assert "1.000 0.000" in " ".join(row.split())
    assert "61 s in all" in out and str(tmp_path / "run" / "report.html") in out.replace("\n", "")


def test_a_folder_with_bbqs_files_is_part_of_the_plan_with_its_whole_path(
    rldf: Rldf, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rldf("run", "smoke", "--out", "run", "--bbq", "my: data \U0001f600")
    assert pipeline.calls[0][0].evaluate.bbq == str(tmp_path / "my: data \U0001f600")


def test_fields_of_a_referee_are_refused_where_the_plans_own_would_be(
    rldf: Rldf, tmp_path: Path
) -> None:
    for fields, why in (
        ("{threshold: .nan}", "referee.threshold cannot be written: it is NaN"),
        ("{kind: 2024-01-01}", "(found '2024-01-01')"),
    ):
        out = str(tmp_path / "c")
        status, _, err = rldf(
            "referee", "compare", "smoke", "--out", out, "--referee", f"a={fields}"
        )
        assert status == 1 and "referee." in err and why in err


@pytest.mark.parametrize(
    ("command", "stages"),
    [
        (["debate"], ("topics", "audit", "debates")),
        (["data"], ("data",)),
        (["train", "sft"], ("sft",)),
        (["train", "reward"], ("reward",)),
        (["train", "ppo"], ("ppo",)),
        (["eval"], ("eval",)),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("redo", [False, True])
def test_a_stages_command_does_that_stage_with_the_folders_own_plan(
    command: list[str],
    stages: tuple[str, ...],
    redo: bool,
    rldf: Rldf,
    pipeline: Pipeline,
    tmp_path: Path,
) -> None:
    status, _, err = rldf(*command, str(begun(tmp_path, "seed=8")), *(["--redo"] if redo else []))
    assert (status, err) == (0, "")
    ((plan, where, options),) = pipeline.calls
    assert (plan, where) == (load_plan("smoke", ["seed=8"]), tmp_path)
    assert (options["only"], options["redo"]) == (stages, redo)


@pytest.mark.parametrize(
    "command", [["debate"], ["data"], ["train", "sft"], ["eval"]], ids=" ".join
)
def test_a_folder_without_a_plan_is_told_how_to_begin_one(
    command: list[str], rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    status, _, err = rldf(*command, str(tmp_path / "new"))
    assert status == 1 and pipeline.calls == []
    assert str(tmp_path / "new") in err and "plan.yaml" in err and "--plan" in err
    assert not (tmp_path / "new").exists()


def test_debates_may_begin_a_folder_with_a_plan(
    rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    rldf("debate", str(tmp_path / "new"), "--plan", "smoke", "--set", "debate.rounds=4")
    assert pipeline.calls[0][0] == load_plan("smoke", ["debate.rounds=4"])


@pytest.mark.parametrize("command", [["eval"], ["run", "smoke", "--out"]], ids=" ".join)
def test_json_is_all_that_is_printed_and_what_a_run_says_goes_to_stderr(
    command: list[str], rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    _, out, err = rldf(*command, str(begun(tmp_path)), "--json")
    assert json.loads(out) == REPORT["evaluation"]
    assert f"report: {tmp_path / 'report.html'}" in err


# ---- in a process of its own


def test_the_command_and_the_pure_modules_import_no_ray_torch_or_engine() -> None:
    code = """
import sys
from rldf_ray import cli, plan, prompts, records
from rldf_ray.cluster import placement
from rldf_ray.dataset import preference_data
from rldf_ray.protocols.multirole import debate, debater
from rldf_ray.referee import labels, prompted
from rldf_ray.topics import writer
from rldf_ray.report import notes
heavy = {"ray", "torch", "vllm", "transformers", "trl", "deepspeed", "openai"} & set(sys.modules)
cli.main(lambda: cli.app(["plan", "show", "nope", *sorted(heavy)]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: plan 'nope'") and done.stderr.count("\n") == 1


def test_the_shown_plan_is_plain_yaml(rldf: Rldf) -> None:
    _, out, _ = rldf("plan", "show", "smoke")
    assert yaml.safe_load(out) == load_plan("smoke").model_dump(mode="json")


def test_the_audit_is_done_alone_on_the_plans_own_or_on_given_statements(
    rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    found = {"auc": 0.7, "verdict": "It separates.", "bag_of_words": {"auc": 0.61}}
    (tmp_path / "audit.json").write_text(json.dumps(found), encoding="utf-8")
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"text": "They are all alike.", "label": 1}\n', encoding="utf-8")
    status, out, _ = rldf("referee", "audit", "smoke", "--out", str(tmp_path))
    assert status == 0 and "It separates." in out and "0.61" in out
    command = ("referee", "audit", "smoke", "--out", str(tmp_path), "--statements", str(mine))
    status, out, _ = rldf(*command, "--json")
    assert json.loads(out) == found
    own, given = (options for _, _, options in pipeline.calls)
    assert own == {"only": ("audit",), "statements": None}
    assert given == {"only": ("audit",), "statements": mine}


def test_a_wrong_file_of_statements_is_told_before_anything_starts(
    rldf: Rldf, pipeline: Pipeline, tmp_path: Path
) -> None:
    wrong = tmp_path / "mine.jsonl"
    wrong.write_text('{"text": "a", "label": 1}\n{"text": "b", "label": 2}\n', encoding="utf-8")
    where = ("--out", str(tmp_path), "--statements", str(wrong))
    status, _, err = rldf("referee", "audit", "smoke", *where)
    assert status == 1 and f"{wrong}, line 2" in err and "label" in err
    assert pipeline.calls == []


def test_of_a_run_in_use_the_report_says_what_has_finished_and_writes_nothing(
    rldf: Rldf, tmp_path: Path
) -> None:
    folder = RunFolder(begun(tmp_path))
    facts = {"topics": {}, "seconds": 61.4, "peak_pss_gib": 1.0, "finished_at": "now"}
    folder.finish("topics", load_plan("smoke").digest(), facts)
    with folder.locked():
        before = {path.name for path in tmp_path.iterdir()}
        status, out, err = rldf("report", str(tmp_path))
        assert (status, err) == (0, f"{tmp_path} is in use: this is what has finished so far\n")
        assert "61 s in all" in out
        assert {path.name for path in tmp_path.iterdir()} == before
    assert rldf("report", str(tmp_path))[0] == 0 and (tmp_path / "report.html").exists()
