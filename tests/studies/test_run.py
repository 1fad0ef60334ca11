"""A whole study in one process: its folder, in a bucket too, its report, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldf_ray.console import Progress
from rldf_ray.models.base import ChatRequest, Completion, ModelError
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from tests.protocols.judges.items import judge_by, right
from tests.s3_server import as_environment, s3_server
from tests.studies.conftest import Played
from tests.studies.pairs import plan_file

Asked = list[str]


@pytest.fixture
def asked(played_by: Played) -> Asked:
    """Judges that know, without Ray; and the addresses of what they are asked."""
    addresses: Asked = []

    class Known(ScriptedModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            addresses.append(request.address)
            if len(addresses) == FAILS_AT.get("call"):
                raise ModelError("the engine is gone")
            return await judge_by(right).complete(request)

    FAILS_AT.clear()
    played_by(Known())
    return addresses


FAILS_AT: dict[str, int] = {}


def studied(plan: Path, out: str | Path, *overrides: str) -> None:
    run_study("judges", load_study("judges", str(plan), overrides), out, Progress())


def test_a_study_of_judges_that_know_says_so(tmp_path: Path, asked: Asked) -> None:
    out = tmp_path / "out"
    studied(plan_file(tmp_path), out)
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    rates = {cell["consistency"]["value"] for cell in report["facts"]["cells"]}
    assert rates == {1.0}
    assert report["notes"][0].startswith("a: 0.0% of its 36 verdicts alone did not parse")
    assert (out / "figures/selected-referees.svg").exists()
    assert not list((out / "journal").glob("items*"))
    made = len(asked)
    studied(plan_file(tmp_path), out)
    assert len(asked) == made


def test_what_was_answered_before_a_failure_is_not_asked_again(
    tmp_path: Path, asked: Asked
) -> None:
    plan, out = plan_file(tmp_path), tmp_path / "out"
    FAILS_AT["call"] = 100
    with pytest.raises(ModelError, match="the engine is gone"):
        studied(plan, out)
    answered = journal(out)
    asked.clear()
    FAILS_AT.clear()
    studied(plan, out)
    assert answered and not set(answered) & set(asked)
    assert sorted(journal(out)) == sorted({*answered, *asked})


def journal(out: Path) -> list[str]:
    lines = (out / "journal/calls.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["address"] for line in lines]


def test_a_study_may_lie_in_a_bucket(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = plan_file(tmp_path), "s3://bucket/studies/one"
    with s3_server("bucket") as (url, buckets):
        for name, value in as_environment(url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "here"))
        studied(plan, out)
        there = {key.removeprefix("studies/one/") for key in buckets.objects["bucket"]}
        assert {
            "plan.yaml",
            "study.json",
            "data/items.parquet",
            "data/turns.parquet",
            "data/outcomes.parquet",
            "tables/bias.md",
            "figures/consistency-by-round.png",
            "report.json",
            "report.html",
            "stages/hold.json",
        } <= there
        assert any(name.startswith("journal/") for name in there)
        # Another machine, which has nothing of it, asks nothing.
        made = len(asked)
        monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "elsewhere"))
        studied(plan, out)
        assert len(asked) == made


def test_a_folder_of_another_study_is_refused(tmp_path: Path, asked: Asked) -> None:
    plan, out = plan_file(tmp_path), tmp_path / "out"
    studied(plan, out)
    with pytest.raises(RunFolderError, match=r"differs in seed, settings\.rounds"):
        studied(plan, out, "settings.rounds=1", "seed=3")
    studied(plan, out, "in_flight=2")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(pairs.read_text(encoding="utf-8").replace("It is 4.", "It is four."))
    with pytest.raises(RunFolderError, match="begun on other items"):
        studied(plan, out)
    assert RunFolder.at(out).read_json("study.json")["study"] == "judges"


def test_judges_are_sent_the_prompts_of_ones_own(tmp_path: Path, played_by: Played) -> None:
    seen: list[str] = []

    class Reading(ScriptedModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            seen.append(request.messages[0].content)
            return await judge_by(right).complete(request)

    played_by(Reading())
    helper = tmp_path / "mine/protocols/judges/prompts/helper.txt"
    helper.parent.mkdir(parents=True)
    helper.write_text("You are a fair judge.", encoding="utf-8")
    plan, out, own = plan_file(tmp_path), tmp_path / "out", f"prompts={tmp_path / 'mine'}"
    studied(plan, out, own)
    assert set(seen) == {"You are a fair judge."}
    # The folder's plan has the text; an edited one is another study.
    helper.write_text("You are a judge.", encoding="utf-8")
    studied(out / "plan.yaml", out)
    with pytest.raises(RunFolderError, match=r"differs in prompts\.protocols/judges"):
        studied(plan, out, own)
