"""The same plan and seed give the same topics, prompts, statements, data and tables.

Runs whose speakers follow a script go through the pipeline, the imports, the exports and a
comparison. Every file they leave is hashed, and so is every request that was made. hashes.json has
the hashes that they are to have. Where a change of results is meant, write them anew and look at
which files the difference names:

    RLDF_GOLDEN=write pytest tests/golden
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import UNSET
from typer.testing import CliRunner

from rldf_ray import cli, pipeline
from rldf_ray.cluster.placement import Resources
from rldf_ray.comparison import answers
from rldf_ray.comparison.answers import PromptedItem
from rldf_ray.comparison.method import methods_of
from rldf_ray.comparison.results import RESULT_SCHEMA
from rldf_ray.console import Progress
from rldf_ray.engines.backend import SpeakerContext
from rldf_ray.engines.backends import scripted, trained, vllm
from rldf_ray.evaluate.bbq.summary import Answer
from rldf_ray.plan import Plan, Speaker, load_plan, presets
from rldf_ray.sets.bbq.items import BBQSet
from rldf_ray.stages.run import Run
from rldf_ray.storage.digest import digest
from rldf_ray.storage.results import RefereeResult
from tests.comparison.conftest import Machine, compare
from tests.fakes import multirole_set, plan_with
from tests.golden.content import hash_of, hashes_of
from tests.golden.speakers import Engine, Requests, engine

KNOWN = Path(__file__).with_name("hashes.json")
WRITE = "RLDF_GOLDEN"
STAGES = ("topics", "audit", "debates", "data")
SPOKEN = "teacher=scripted:0"
TOPICS = "topics={per_bias_type: 26, seeds_per_bias_type: 16, tries: 2, debate_share: 0.4}"
PEOPLE = (
    ("baker", "farmer", "painter", "driver", "tailor", "cook"),
    ("singer", "joiner", "gardener", "porter", "clerk", "sailor"),
)
RUNS: dict[str, tuple[bool, list[str]]] = {
    # Whether answers are flawed, and the plan; a section that is given has no values of the preset.
    "simultaneous-shared-scored": (
        False,
        [
            "bias_types=[age, profession]",
            "debate={debates: 16, rounds: 3, debaters: 3, max_tokens: 32}",
            "referee={audit_pairs: 4, label_source: expected, threshold_kind: relative}",
            "data={pairing: same_topic, pairs_per_topic: 6, max_sft: 40}",
        ],
    ),
    "sequential-shared-checked": (
        True,
        [
            "seed=3",
            "bias_types=[nationality, beauty, institution]",
            "debate={order: sequential, debates: 24, rounds: 2, debaters: 4, examples: 2}",
            "referee={audit_pairs: 4, judgements: checked}",
            "data={pairing: same_role, min_gap: 1, filters: [empty, refusal, near_duplicate]}",
        ],
    ),
    "simultaneous-paper-checked": (
        True,
        [
            "seed=5",
            "bias_types=[religion, socioeconomic_status, age]",
            "debate={layout: paper, debates: 18, rounds: 3, debaters: 2, max_tokens: 32}",
            "referee={audit_pairs: 6, judgements: checked, label_source: expected, threshold: 4.5}",
            "data={max_pairs: 30}",
        ],
    ),
    "sequential-paper-trained": (
        True,
        [
            "seed=7",
            "bias_types=[profession, institution]",
            "debate={order: sequential, layout: paper, debates: 12, rounds: 2, max_tokens: 32}",
            "referee={kind: trained, audit_pairs: 4, label_source: expected}",
            "referee.threshold_kind=relative",
        ],
    ),
}

CASES = tuple(f"{case}/" for case in (*RUNS, "rlaif", "commands", "comparison", "plans"))

Spoken = Callable[[bool], AbstractContextManager[Requests]]


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, str]]:
    """The hashes of hashes.json, which a case may write anew."""
    found: dict[str, str] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    yield found
    if os.environ.get(WRITE) == "write":
        found = {name: value for name, value in found.items() if name.startswith(CASES)}
        KNOWN.write_text(json.dumps(dict(sorted(found.items())), indent=0) + "\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, as plans name files relative to it; and a clock that stands still."""
    monkeypatch.chdir(tmp_path)
    # Models that are trained again are told from others by when that was.
    monkeypatch.setattr(time, "strftime", lambda *_: "2030-01-01T00:00:00Z")
    return tmp_path


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> Spoken:
    """Runs need neither Ray nor a model while this is entered."""

    @contextmanager
    def cluster(logs: Path) -> Iterator[Resources]:
        yield Resources(4, 0, 64)

    @contextmanager
    def entered(flawed: bool) -> Iterator[Requests]:
        requests = Requests()

        def engines(speaker: Speaker, context: SpeakerContext) -> AbstractContextManager[Engine]:
            return engine(str(speaker), requests, flawed, speaker.backend == "trained")

        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "ray_cluster", cluster)
            for backend in (vllm, scripted, trained):
                patch.setattr(backend, "start", engines)
            yield requests

    return entered


def fitted(run: Run) -> RefereeResult:
    """In place of the fit of a trained referee."""
    fit = {"slope": 1.25, "intercept": 0.5, "statements": 40}
    run.folder.write_json("referee/calibration.json", {**fit, "revision": "golden"})
    return RefereeResult(
        pairs=80, held_out_pairs=20, labelled="golden", calibration=fit, history=UNSET
    )


def check(case: str, found: Mapping[str, str], known: dict[str, str]) -> None:
    """The case's files are the known ones."""
    before = {name: value for name, value in known.items() if name.startswith(f"{case}/")}
    if os.environ.get(WRITE) == "write":
        for name in before:
            del known[name]
        known.update(found)
        return
    assert len(found) == len({name.casefold() for name in found}) > 0
    different = {
        "changed": [name for name in found if before.get(name, found[name]) != found[name]],
        "appeared": [name for name in found if name not in before],
        "vanished": [name for name in before if name not in found],
    }
    told = "".join(f"\n  {how}: {', '.join(names)}" for how, names in different.items() if names)
    assert not told, f"results differ:{told}\nif that is meant: {WRITE}=write pytest tests/golden"


def asked(case: str, requests: Requests) -> dict[str, str]:
    """A hash for the requests to each part."""
    parts = {part: requests.of(part) for part in ("topics", "debate", "referee")}
    return {f"{case}/requests/{part}": hash_of(made) for part, made in parts.items() if made}


def rldf(*words: str) -> str:
    """A command that succeeds; what it said."""
    done = CliRunner().invoke(cli.app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def set_(overrides: Sequence[str]) -> list[str]:
    return [word for override in overrides for word in ("--set", override)]


def rows_of(table: str, bias_types: Sequence[str]) -> list[dict[str, Any]]:
    """Rows to import, made up for a test of their own."""
    if table == "topics":
        opinions = [
            {"bias_type": name, "text": f"Should rule {i} on {name} be kept"}
            for name in bias_types
            for i in range(14)
        ]
        scenes = [
            {
                "bias_type": name,
                "text": f"An old {who} and a young {who} met on day {i}. One of them was late.",
                "clue": f"The {'old' if i % 2 else 'young'} {who} had missed bus {i}.",
                "question": "Who was late?",
                "groups": [f"old {who}", f"young {who}"],
                "answer": f"{'old' if i % 2 else 'young'} {who}",
                "split": ("debate", "ppo", "eval")[i % 3],
            }
            for name, people in zip(bias_types, PEOPLE, strict=False)
            for i, who in enumerate(people)
        ]
        return [*opinions, *scenes]
    if table == "transcripts":
        return [
            {
                "bias_type": name,
                "topic": f"Should we begin at {6 + i % 3}",
                "text": f"That is a matter of taste, I would say number {i} of them all.",
                "score": float(i % 11),
                "debate": f"d{i % 3}",
                "round": 1 + i // 9,
                "role": i // 3 % 3,
                "identity": "a neighbour",
            }
            for name in bias_types
            for i in range(27)
        ]
    return [
        {
            "prompt": f"Question {i % 5}: what would you say?",
            "chosen": f"It depends on the person, and on {i} other things.",
            "rejected": f"All {i} of them are the same.",
        }
        for i in range(20)
    ]


@pytest.mark.parametrize("case", RUNS)
def test_a_run(case: str, spoken: Spoken, here: Path, known: dict[str, str]) -> None:
    flawed, overrides = RUNS[case]
    plan = load_plan("smoke", _settings(overrides))
    with spoken(flawed) as requests:
        pipeline.run(
            plan,
            "run",
            Progress(),
            only=STAGES,
            stages_of={**pipeline.STAGES, "referee": fitted},
        )
    check(case, {**hashes_of(here / "run", case), **asked(case, requests)}, known)


def _settings(overrides: Sequence[str]) -> list[str]:
    return [SPOKEN, TOPICS, "referee={audit_pairs: 4}", *overrides]


def test_answers_that_a_judge_labels(spoken: Spoken, here: Path, known: dict[str, str]) -> None:
    """What RLAIF has in place of debates."""
    plan = plan_with("model=embedded", "referee.model=scripted:0", "debate.model=scripted:1")
    (method,) = methods_of(plan, ["rlaif"], ())
    assert method.training is not None
    source = method.training.source.model_copy(update={"teacher": "scripted:0"})
    with spoken(False) as requests:
        pipeline.run(source, "run", Progress(), only=STAGES, stages_of=method.training.stages_of)
    check("rlaif", {**hashes_of(here / "run", "rlaif"), **asked("rlaif", requests)}, known)


def test_commands_give_what_the_pipeline_gives(
    spoken: Spoken, here: Path, known: dict[str, str]
) -> None:
    """Debates, data and the exports of them by their commands; and what goes on from imports."""
    small = ["--plan", "smoke", *set_(_settings(["bias_types=[age, beauty]"]))]
    found: dict[str, str] = {}
    with spoken(True) as requests:
        rldf("debate", "run", *small)
        rldf("data", "run")
        for form in ("jsonl", "parquet"):
            rldf("data", "export", "run", form, "--to", form)
        (here / "given").mkdir()
        for table in ("topics", "transcripts", "pairs"):
            rows = rows_of(table, ("age", "beauty"))
            given = here / "given" / f"{table}.jsonl"
            given.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            said = rldf("data", "import", f"of-{table}", *small, f"--{table}", str(given))
            found[f"commands/said/{table}"] = hash_of(said.replace(str(here), "TMP"))
        rldf("debate", "of-topics")
        rldf("data", "of-topics")
        rldf("data", "of-transcripts")
    for name in ("run", "jsonl", "parquet", "of-topics", "of-transcripts", "of-pairs"):
        found |= hashes_of(here / name, f"commands/{name}")
    check("commands", {**found, **asked("commands", requests)}, known)


@pytest.fixture
def ranking(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which every model has its own likelihoods, and prefers what it should at times.

    Likelihoods are of the model's name and the item alone.
    """

    def ranked(
        plan: Plan, folder: str, items: BBQSet, put: Sequence[PromptedItem], *others: Any
    ) -> tuple[dict[Any, Answer], float]:
        found, seconds = machine.rank(plan, folder, items, put, *others)
        name = folder.rpartition("/runs/")[2]
        for key, answer in found.items():
            scores = tuple(
                score - int(digest(name, key, option), 16) % 1999 / 1000
                for option, score in enumerate(answer.scores or ())
            )
            best = max(range(3), key=scores.__getitem__)
            found[key] = replace(answer, prediction=best, scores=scores)
        return found, seconds

    monkeypatch.setattr(answers, "_ranked", ranked)
    return machine


def test_a_comparison(ranking: Machine, here: Path, known: dict[str, str]) -> None:
    """All its files, from answers that were stored."""
    rows = [
        {"bias_type": name, "context": f"On day {i} he was BLANK"}
        for i in range(4)
        for name in ("ageism", "nationality")
    ]
    multirole_set(here / "multirole", rows)
    teachers = ("openai:small/x", "openai:large/y")
    plan = plan_with("evaluate.multirole=multirole", "endpoint.base_url=http://nowhere/v1")
    names = [method.name for method in methods_of(plan, None, teachers)]
    figures = _figures(names)
    by_option = {"repeats": 2, "teachers": teachers, "figures": figures}
    compare(here / "ranked", plan, **by_option)
    compare(here / "lettered", plan, methods=("default", "cot"), repeats=1, modes=("letter",))
    requests = [
        (r.address, r.seed, [(m.role, m.content) for m in r.messages], r.max_tokens)
        for r in ranking.said.requests
    ]
    runs = [path.relative_to(here).as_posix() for path in here.glob("*/runs/*/*")]
    found = {
        "comparison/requests": hash_of(sorted(requests, key=str)),
        # Names and keys of what was trained.
        "comparison/runs": hash_of(sorted(runs)),
    }
    for name in ("ranked", "lettered"):
        found |= hashes_of(here / name / "compare", f"comparison/{name}")
    check("comparison", found, known)


def _figures(methods: Sequence[str]) -> tuple[str, ...]:
    """Scores of people and of a judge, as the commands for them leave them."""
    Path("eval").mkdir()
    given = {"human_long": "people", "judge_long": "answers"}
    for name, set_name in given.items():
        scores = [
            {
                "method": method,
                "repeat": repeat,
                "seed": repeat,
                "set": set_name,
                "group": group,
                "measure": measure,
                "value": 40.0 + 3 * place + repeat / 3,
                "n": 6,
            }
            for place, method in enumerate(methods)
            for repeat in range(2)
            for group in ("age", "nationality", "religion", "all")
            for measure in ("BS", "CE", "LS")
        ]
        table = pa.Table.from_pylist(scores, schema=RESULT_SCHEMA)
        pq.write_table(table, f"eval/{name}.parquet")
    Path("eval/judge.json").write_text(
        json.dumps({"judge": "vllm:j", "audit": None}), encoding="utf-8"
    )
    return tuple(f"eval/{name}.parquet" for name in given)


def test_every_case_is_still_there(known: dict[str, str]) -> None:
    assert {name for name in known if not name.startswith(CASES)} == set()


def test_plans(known: dict[str, str]) -> None:
    """What every preset says, and the names that its runs' results go by."""
    plans: dict[str, Plan] = {name: load_plan(name) for name in presets()}
    found = {
        f"plans/{name}": hash_of([plan.digest(), plan.to_yaml()]) for name, plan in plans.items()
    }
    check("plans", found, known)
