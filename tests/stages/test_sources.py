"""Another protocol than multirole as the source of a run's data: topics in, rows out."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from rldf_ray import pipeline
from rldf_ray.comparison.method import methods_of
from rldf_ray.console import Progress
from rldf_ray.dataset.preference_data import prompt_of
from rldf_ray.engines.checks import PreflightError
from rldf_ray.plan import Plan
from rldf_ray.preflight.checks import check_protocol
from rldf_ray.preflight.estimate import estimate
from rldf_ray.protocols.evince.items import ITEM_SCHEMA, LABELS
from rldf_ray.protocols.evince.items import items_of as texts_of
from rldf_ray.protocols.mabrf.items import items_of
from rldf_ray.protocols.persuasion.items import items_of as questions_of
from rldf_ray.protocols.source import source_settings
from rldf_ray.records import topics_of
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.unknown import UNKNOWN
from tests.endpoint import Answer, Server, completion, serving, with_top
from tests.fakes import plan_with

MABRF = "debate={protocol: mabrf, debates: 24, in_flight: 4}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server(otherwise=mabrf_roles)) as running:
        yield running


def mabrf_roles(body: dict[str, Any]) -> Answer:
    """First steps are biased, rewritten ones are not, and every answer is the first option."""
    said = body["messages"][-1]["content"]
    form = json.dumps(body)
    if "relevancy_reason" in form:
        bias = 1 if "2. Rewritten" in said else 7
        verdict = {"bias_reason": "It sweeps.", "relevancy_reason": "So.", "relevancy": 8}
        return completion(json.dumps({**verdict, "bias": bias}))
    if "A judge finds this bias" in said:
        return completion(f"1. Two wait.\n2. Rewritten from {len(said)} characters.")
    if "[Reasoning]" in said:
        return completion("0")
    return completion(f"1. Somebody did.\n2. {len(said)} letters say it.")


def evince_roles(body: dict[str, Any]) -> Answer:
    """Both sides agree at once; reasons of B are weak where the text has an even length."""
    asked = body["messages"][-1]["content"]
    form = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    parts = form.get("properties", {})
    if "justification" in parts:
        case = {"findings": [], "action": "keep", "proposal": ""}
        return completion(json.dumps({"justification": f"{len(asked)} letters tell.", **case}))
    if "distribution" in parts:
        percent = _certain(parts["distribution"])
        return completion(json.dumps({"reason": "So.", "distribution": percent}))
    if "distributions" in parts:
        labels = parts["distributions"]["properties"]["the text"]
        side = "B" if "You are B." in asked else "A"
        last = list(labels["properties"])[-1]
        claim = {"label": last, "claim": f"{side} claims {len(asked)}.", "reason": "Read it."}
        turn = {"arguments": [{**claim, "quote": ""}]}
        return completion(json.dumps({**turn, "distributions": {"the text": _certain(labels)}}))
    weak = "B claims" in asked and len(asked.partition("[End of the text]")[0]) % 2 == 0
    return completion("2" if weak else "9")


def persuasion_roles(body: dict[str, Any]) -> Answer:
    """Debaters give numbered arguments; whom a judge believes goes by the digest of the prompt."""
    asked = body["messages"][-1]["content"]
    choices = body.get("structured_outputs", {}).get("choice")
    drawn = zlib.crc32(json.dumps(body["messages"]).encode())
    if choices:
        chance = 0.1 + 0.8 * (drawn % 1000) / 1000
        return with_top(choices[0], {choices[0]: chance, choices[1]: 1 - chance})
    if "<argument>" not in asked:
        return completion("I weigh both.")
    words = " ".join(["indeed"] * 80)
    numbers = (f"{drawn}, sample {number}" for number in range(body.get("n", 1)))
    return completion(
        *(f"<argument><quote>Both</quote> {words} {each}.</argument>" for each in numbers)
    )


def persuaded(server: Server, *overrides: str) -> Plan:
    server.otherwise = persuasion_roles
    return sourced(
        server,
        "debate={protocol: persuasion, debates: 24, settings: {rounds: 1}}",
        "topics.judgement_share=1",
        *overrides,
    )


def _certain(labels: dict[str, Any]) -> dict[str, int]:
    """All on the last label."""
    names = list(labels["properties"])
    return {**dict.fromkeys(names, 0), names[-1]: 100}


def disputed(server: Server, *overrides: str) -> Plan:
    server.otherwise = evince_roles
    return sourced(
        server,
        "debate={protocol: evince, debates: 24, settings: {stop: {max_rounds: 2}}}",
        "topics.judgement_share=1",
        *overrides,
    )


def sourced(server: Server, *overrides: str) -> Plan:
    return plan_with(
        "teacher=openai:wise",
        "topics={per_bias_type: 20, seeds_per_bias_type: 20, tries: 1}",
        f"endpoint={{base_url: '{server.url}'}}",
        MABRF,
        *overrides,
    )


def do(plan: Plan, out: Path, *only: str) -> RunFolder:
    pipeline.run(plan, out, Progress(Console(quiet=True)), only=only)
    return RunFolder(out)


def test_scenes_are_items_with_options_and_the_answer_goes_to_nobody(
    server: Server, tmp_path: Path
) -> None:
    plan = sourced(server)
    folder = do(plan, tmp_path, "topics", "debates")
    topics = {t.topic_id: t for t in topics_of(folder.read_table("data/topics.parquet"))}
    items = items_of(folder.read_table("source/data/items.parquet"))
    assert len(items) == 24
    labels = Counter()
    for item in items:
        topic = topics[item.group]
        if topic.kind == "opinion":
            assert (item.question, item.options, item.label) == (topic.text, (), None)
            continue
        assert topic.groups is not None and topic.clue is not None and item.label is not None
        (unknown,) = set(item.options) - set(topic.groups)
        assert unknown in UNKNOWN[plan.debate.unknown]
        shown = topic.clue in item.context
        assert item.options[item.label] == (topic.answer if shown else unknown)
        labels[shown] += 1
    assert labels[True] and labels[False]
    places = Counter(item.label for item in items if item.options)
    assert len(places) == 3


def test_rows_of_the_source_are_the_run_s_under_its_one_prompt(
    server: Server, tmp_path: Path
) -> None:
    folder = do(sourced(server), tmp_path, "topics", "debates", "data")
    topics = {t.topic_id: t for t in topics_of(folder.read_table("data/topics.parquet"))}
    pairs = folder.read_table("data/pairs.parquet").to_pylist()
    sft = folder.read_table("data/sft.parquet").to_pylist()
    assert pairs and sft
    for row in (*pairs, *sft):
        assert row["prompt"] == prompt_of(topics[row["topic_id"]], row["clue_shown"])
    for pair in pairs:
        assert "Rewritten" in pair["chosen"][0]["content"]
        assert "Somebody" in pair["rejected"][0]["content"]
    # An opinion has no right answer, so it gives pairs alone.
    assert {row["kind"] for row in pairs} == {"opinion", "judgement"}
    assert {row["kind"] for row in sft} == {"judgement"}
    report = folder.read_json("report.json")
    assert report["debates"]["source"] == "mabrf"
    assert sum(report["data"]["rows"]["pairs"].values()) == len(pairs)
    assert "The data come from the protocol mabrf" in (tmp_path / "report.html").read_text("utf-8")


def test_a_source_begun_goes_on_without_asking_anything_twice(
    server: Server, tmp_path: Path
) -> None:
    plan = sourced(server)
    folder = do(plan, tmp_path, "topics", "debates")
    held = folder.read_table("source/data/outcomes.parquet")
    asked = len(server.received)
    (tmp_path / "stages/debates.json").unlink()
    (tmp_path / "source/data/outcomes.parquet").unlink()
    do(plan, tmp_path, "debates")
    assert len(server.received) == asked
    assert folder.read_table("source/data/outcomes.parquet") == held


def test_scenes_of_evince_have_their_groups_and_a_not_known_wording_as_labels(
    server: Server, tmp_path: Path
) -> None:
    plan = disputed(server)
    folder = do(plan, tmp_path, "topics", "debates", "data")
    topics = {t.topic_id: t for t in topics_of(folder.read_table("data/topics.parquet"))}
    schema = pa.schema([*ITEM_SCHEMA, LABELS])
    items = list(texts_of(folder.read_table("source/data/items.parquet", schema)))
    for item in items:
        topic = topics[item.text_id]
        assert topic.groups is not None and topic.clue is not None
        *groups, unknown = item.labels
        assert {label.lower() for label in groups} == {label.lower() for label in topic.groups}
        assert unknown in UNKNOWN[plan.debate.unknown]
        assert item.target == topic.question and not item.given
    assert {topics[i.text_id].clue in i.text for i in items} == {True, False}  # type: ignore[operator]
    sft = folder.read_table("data/sft.parquet").to_pylist()
    pairs = folder.read_table("data/pairs.parquet").to_pylist()
    assert sft and pairs
    for row in (*sft, *pairs):
        assert row["prompt"] == prompt_of(topics[row["topic_id"]], row["clue_shown"])
    # A label that nobody has to review, justified; an argument that held against a weak one.
    unknowns = tuple(UNKNOWN[plan.debate.unknown])
    assert all(row["completion"][0]["content"].startswith(unknowns) for row in sft)
    assert all("A claims" in row["chosen"][0]["content"] for row in pairs)
    assert all("B claims" in row["rejected"][0]["content"] for row in pairs)


def test_persuasion_takes_scenes_with_their_clue_and_what_the_correct_side_said(
    server: Server, tmp_path: Path
) -> None:
    folder = do(persuaded(server), tmp_path, "topics", "debates", "data")
    topics = {t.topic_id: t for t in topics_of(folder.read_table("data/topics.parquet"))}
    questions = questions_of(folder.read_table("source/data/items.parquet"))
    assert 0 < len(questions) < 24
    for item in questions:
        topic = topics[item.group]
        assert topic.clue is not None and item.story.endswith(topic.clue)
        assert item.correct == topic.answer
        assert {item.correct, item.incorrect} == set(topic.groups or ())
    sft = folder.read_table("data/sft.parquet").to_pylist()
    pairs = folder.read_table("data/pairs.parquet").to_pylist()
    assert sft and pairs
    held = folder.read_table("source/data/candidates.parquet").to_pylist()
    said = {one["text"].replace("<quote>Both</quote>", "Both"): one for one in held}
    for row in sft:
        assert said[row["completion"][0]["content"]]["side"] == "correct"
    for row in pairs:
        best, worst = (said[row[side][0]["content"]] for side in ("chosen", "rejected"))
        assert best["side"] == worst["side"] == "correct"
        assert best["rating"] > worst["rating"]
    for row in (*sft, *pairs):
        assert row["clue_shown"]
        assert row["prompt"] == prompt_of(topics[row["topic_id"]], clue_shown=True)


def test_what_is_said_of_the_default_debater_is_merged_with_its_defaults(server: Server) -> None:
    plan = persuaded(server, "debate.settings={debaters: {debater: {critiques: 2}}}")
    check_protocol(plan)
    debater = source_settings(plan).debaters["debater"]
    assert (debater.model, debater.best_of, debater.critiques) == ("debate", 4, 2)


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("topics.judgement_share=0.5", "topics.judgement_share"),
        ("debate.settings={debaters: {one: {model: debate}}}", "debaters.one.best_of"),
        ("debate.settings={matches: swiss}", "debate.settings.matches"),
        ("debate.settings={kind: quality}", "debate.settings.kind"),
    ],
)
def test_persuasion_refuses_what_its_rows_cannot_come_from(
    server: Server, override: str, named: str
) -> None:
    with pytest.raises(PreflightError, match=named):
        check_protocol(persuaded(server, override))
    assert server.received == []


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("topics.judgement_share=0.5", "topics.judgement_share"),
        ("debate.settings={remediation: false}", "debate.settings.remediation"),
        ("debate.settings={given: both}", "debate.settings.given"),
        ("debate.settings={scale: toward}", "debate.settings.scale"),
    ],
)
def test_evince_refuses_what_its_rows_cannot_come_from(
    server: Server, override: str, named: str
) -> None:
    with pytest.raises(PreflightError, match=named):
        check_protocol(disputed(server, override))
    assert server.received == []


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("topics.judgement_share=0", "topics.judgement_share"),
        ("debate.settings={kind: bbq}", "debate.settings.kind"),
        ("debate.settings={judge: somebody}", "debate, referee, topics"),
        ("debate.settings={loop: {max_passes: -1}}", "debate.settings.loop.max_passes"),
        ("data.pairing=same_role", "data.pairing"),
        ("debate.protocol=judges", "evince, mabrf, multirole, persuasion"),
    ],
)
def test_a_plan_that_the_source_cannot_take_is_refused_before_anything_is_asked(
    server: Server, override: str, named: str
) -> None:
    with pytest.raises(PreflightError, match=named):
        check_protocol(sourced(server, override))
    assert server.received == []


def test_settings_are_no_part_of_a_multirole_plan() -> None:
    with pytest.raises(PreflightError, match=r"debate\.settings"):
        check_protocol(plan_with("debate.settings={loop: {max_passes: 1}}"))


def test_an_estimate_grows_with_the_source_s_passes(server: Server) -> None:
    def passes(number: int) -> Plan:
        return sourced(server, f"debate.settings={{loop: {{max_passes: {number}}}}}")

    few, many = ({s.name: s for s in estimate(passes(number))} for number in (1, 4))
    assert 0 < few["debates"].calls < many["debates"].calls
    assert few["debates"].billed == (1.0, 1.0)


def test_a_comparison_s_rows_say_where_their_data_come_from(server: Server) -> None:
    methods = methods_of(sourced(server), ("sft", "rlaif", "rldf_self", "rldf_teacher"), ())
    titles = {method.name: method.title for method in methods}
    assert titles["rldf_self"] == "RLDF self-reflection, data from mabrf"
    assert titles["sft"] == "SFT, data from mabrf"
    assert titles["rlaif"] == "RLAIF"
    (rlaif,) = (method for method in methods if method.name == "rlaif")
    assert rlaif.training is not None
    assert rlaif.training.source.debate.protocol == "multirole"
