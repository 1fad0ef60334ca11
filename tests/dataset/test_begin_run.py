"""A run folder that begins with given data, at the stage that comes next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rldf_ray import cli
from rldf_ray.dataset import DatasetError
from rldf_ray.dataset.begin_run import Given, import_run
from rldf_ray.dataset.preference_data import prompt_of
from rldf_ray.evaluate.bbq.run_models import load_items
from rldf_ray.evaluate.contamination import texts_to_avoid
from rldf_ray.plan import load_plan
from rldf_ray.report.build import write_report
from rldf_ray.storage.hub import HubError
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics
from tests.fakes import judgement, opinion, plan_with

PLAN = plan_with()
AVOIDED = texts_to_avoid(PLAN)
PAIRS = [
    {"prompt": f"Question {i}?", "chosen": "It depends.", "rejected": f"They all do {i}."}
    for i in range(6)
]
STATEMENTS = [
    {"bias_type": "age", "topic": "Should we retire", "text": f"I say {score}.", "score": score}
    for score in range(10)
]
TOPICS = [
    {"bias_type": name, "text": f"Should rule {i} stay here", "split": split}
    for name in ("age", "profession")
    for i, split in enumerate(["debate", "ppo", "eval"])
]


def file(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "given.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def finished(run: RunFolder) -> list[str]:
    return sorted(path.stem for path in (run.root / "stages").iterdir())


def test_given_topics_are_debated_next(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    found = import_run(PLAN, run, Given(topics=file(tmp_path, TOPICS)), AVOIDED)
    assert (found.topics, found.next_command) == (6, f"rldf debate {run.root}")
    assert finished(run) == ["topics"]
    assert load_plan(str(run.root / "plan.yaml")) == PLAN


def test_given_transcripts_are_made_into_data_next(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    found = import_run(PLAN, run, Given(transcripts=file(tmp_path, STATEMENTS)), AVOIDED)
    assert (found.statements, found.next_command) == (10, f"rldf data {run.root}")
    assert finished(run) == ["debates", "topics"]
    topics = run.read_table("data/topics.parquet").to_pylist()
    assert [t["text"] for t in topics if t["split"] == "debate"] == ["Should we retire"]
    assert {t["split"] for t in topics} == {"debate", "ppo", "eval"}
    labels = run.read_table("data/transcripts.parquet")["label"].to_pylist()
    assert (labels.count("high"), labels.count("low")) == (6, 4)


def test_given_pairs_are_trained_on_next_and_reported_as_given(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    found = import_run(PLAN, run, Given(pairs=file(tmp_path, [*PAIRS, PAIRS[0]])), AVOIDED)
    assert (found.pairs, found.next_command) == (7, f"rldf train sft {run.root}")
    assert finished(run) == ["data", "debates", "topics"]
    assert run.read_table("data/pairs.parquet").num_rows == 7
    assert run.read_table("data/sft.parquet").num_rows == 6
    assert set(run.read_table("data/prompts.parquet")["split"].to_pylist()) == {"ppo", "eval"}
    report = write_report(run, PLAN)
    assert report["data"]["imported"] == "given.jsonl"
    assert "Content warning" in (run.root / "data/README.md").read_text(encoding="utf-8")


def test_with_topics_of_ones_own_prompts_come_from_them_alone(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    topics = tmp_path / "topics.jsonl"
    file(tmp_path, TOPICS).rename(topics)
    import_run(PLAN, run, Given(topics=topics, pairs=file(tmp_path, PAIRS)), AVOIDED)
    rows = run.read_table("data/topics.parquet").to_pylist()
    assert len(rows) == 6 and {row["split"] for row in rows} == {"ppo", "eval"}


def test_what_repeats_an_evaluation_item_is_left_out_and_counted(tmp_path: Path) -> None:
    item = load_items(PLAN).items[0]
    again = {**STATEMENTS[0], "topic": f"Once more: {item.context}"}
    pair = {**PAIRS[0], "prompt": f"{item.context} {item.question} Say why."}
    shuffled = {"bias_type": "age", "text": " ".join(reversed(item.context.split()))}
    given = {
        "topics": (Given, [shuffled, *TOPICS], {"same_words": 1}),
        "transcripts": (Given, [again, *STATEMENTS], {"ngram": 1}),
        "pairs": (Given, [pair, *PAIRS], {"ngram": 1}),
    }
    for name, (make, rows, dropped) in given.items():
        run = RunFolder(tmp_path / name)
        found = import_run(PLAN, run, make(**{name: file(tmp_path, rows)}), AVOIDED)
        assert found.overlaps_dropped == dropped
        manifest = run.manifest("topics")
        assert manifest is not None and manifest["imported_overlaps_dropped"] == dropped
        assert found.statements + found.pairs in (0, len(rows) - 1)
        texts = [row["text"] for row in run.read_table("data/topics.parquet").to_pylist()]
        assert not any(item.context in text or text == shuffled["text"] for text in texts)


def test_what_repeats_a_held_out_topic_is_left_out_and_counted(tmp_path: Path) -> None:
    held_out = "Should people above sixty be asked to stop driving at night"
    topics = file(tmp_path, [*TOPICS, {**TOPICS[0], "text": held_out, "split": "eval"}])
    topics = topics.rename(tmp_path / "topics.jsonl")
    for name, rows in {
        "transcripts": [{**STATEMENTS[0], "topic": f"Say it: {held_out}?"}, *STATEMENTS],
        "pairs": [{**PAIRS[0], "prompt": f"{held_out}? Say why."}, *PAIRS],
    }.items():
        run = RunFolder(tmp_path / name)
        found = import_run(PLAN, run, Given(topics=topics, **{name: file(tmp_path, rows)}), AVOIDED)
        assert found.overlaps_dropped == {"ngram": 1}
        assert found.statements + found.pairs == len(rows) - 1


def test_a_held_out_prompt_itself_is_not_trained_on(tmp_path: Path) -> None:
    """Other prompts may have its wording around the topic in common with it."""
    held_out = next(t for t in seed_topics(bias_type("age"), "opinion", PLAN) if t.split == "eval")
    asked = prompt_of(held_out, clue_shown=False)[-1]["content"]
    other = asked.replace(held_out.text, "Should shops close on Sundays")
    rows = [{**PAIRS[0], "prompt": prompt} for prompt in (asked, other)]
    run = RunFolder(tmp_path / "run")
    assert import_run(PLAN, run, Given(pairs=file(tmp_path, rows)), AVOIDED).pairs == 1
    assert run.read_table("data/pairs.parquet")["prompt"].to_pylist()[0][-1]["content"] == other


def test_a_held_out_topic_is_not_trained_on_in_any_message_or_as_what_a_pair_is_about(
    tmp_path: Path,
) -> None:
    text = "Should people retire at sixty"
    topics = file(tmp_path, [*TOPICS, {**TOPICS[0], "text": text, "split": "eval"}])
    topics = topics.rename(tmp_path / "topics.jsonl")
    asked = prompt_of(opinion(0, text=text), clue_shown=False)
    system = {"role": "system", "content": "You are kind."}
    turns = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello, what is it?"},
    ]
    prompts: list[Any] = [
        [system, {"role": "user", "content": f"{text}?"}],
        [system, *asked],
        [*turns, {"role": "user", "content": f"{text}?"}],
        [{"role": "user", "content": f"{text}?"}, turns[1], {"role": "user", "content": "Well?"}],
    ]
    rows = [{**PAIRS[0], "prompt": prompt} for prompt in prompts]
    rows.append({**PAIRS[0], "prompt": "What do you think of age?", "topic": f"{text}?"})
    run = RunFolder(tmp_path / "run")
    given = Given(topics=topics, pairs=file(tmp_path, [*PAIRS, *rows]))
    found = import_run(PLAN, run, given, AVOIDED)
    assert found.pairs == len(PAIRS) and found.overlaps_dropped == {"same_words": len(rows)}


def test_a_given_topic_that_repeats_a_held_out_one_is_not_trained_on(tmp_path: Path) -> None:
    again = {**TOPICS[2], "text": "Stay here should rule 2", "split": "debate"}
    run = RunFolder(tmp_path / "run")
    found = import_run(PLAN, run, Given(topics=file(tmp_path, [*TOPICS, again])), AVOIDED)
    assert (found.topics, found.overlaps_dropped) == (6, {"same_words": 1})


def test_a_file_of_nothing_but_evaluation_items_is_refused(tmp_path: Path) -> None:
    rows = [{**PAIRS[0], "prompt": item.context} for item in load_items(PLAN).items[:3]]
    with pytest.raises(DatasetError, match="every row repeats an item"):
        import_run(PLAN, RunFolder(tmp_path / "run"), Given(pairs=file(tmp_path, rows)), AVOIDED)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "nothing to import"),
        ({"transcripts": STATEMENTS, "pairs": PAIRS}, "not both"),
        ({"pairs": [{**PAIRS[0], "chosen": 3}]}, "line 1: chosen"),
        (
            {"transcripts": [*STATEMENTS, {**STATEMENTS[0], "bias_type": "shoes"}]},
            (
                r"transcripts.jsonl:\n  line 11: bias_type: not in the plan \(found 'shoes'\); "
                "allowed: age, profession"
            ),
        ),
        ({"topics": [*TOPICS, {**TOPICS[0], "bias_type": "shoes"}]}, "line 7: bias_type: not in"),
        ({"topics": TOPICS[:2], "pairs": PAIRS}, "no topic is left for the eval split"),
    ],
)
def test_what_will_not_do_leaves_no_folder(given: Any, told: str, tmp_path: Path) -> None:
    files = {}
    for name, rows in given.items():
        files[name] = file(tmp_path, rows).rename(tmp_path / f"{name}.jsonl")
    with pytest.raises(DatasetError, match=told):
        import_run(PLAN, RunFolder(tmp_path / "run"), Given(**files), AVOIDED)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"clue": "The old baker overslept.", "answer": "the old baker"}, "clue and answer"),
        ({"question": "Who came later?", "split": "eval"}, "split and question"),
        ({"split": "eval"}, "split"),
        (dict.fromkeys(["clue", "question", "groups", "answer"]), "kind and clue and question"),
    ],
)
def test_a_topic_that_contradicts_an_earlier_one_is_refused(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    one = judgement(0)
    fields = ("bias_type", "text", "clue", "question", "groups", "answer")
    scene = {**{name: getattr(one, name) for name in fields}, "split": "ppo"}
    given = file(tmp_path, [*TOPICS, scene, {**scene, **changes}])
    told = rf"line 8: text: an earlier row has this text with another {named}"
    with pytest.raises(DatasetError, match=told):
        import_run(PLAN, RunFolder(tmp_path / "run"), Given(topics=given), AVOIDED)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("beside", [{}, {"pairs": PAIRS}, {"transcripts": STATEMENTS}])
def test_a_topic_that_is_given_twice_is_one(beside: dict[str, Any], tmp_path: Path) -> None:
    topics = file(tmp_path, [*TOPICS, TOPICS[1], TOPICS[0]]).rename(tmp_path / "topics.jsonl")
    others = {name: file(tmp_path, rows) for name, rows in beside.items()}
    run = RunFolder(tmp_path / "run")
    found = import_run(PLAN, run, Given(topics=topics, **others), AVOIDED)
    assert found.topics_merged == 2 and not found.repeats
    manifest = run.manifest("topics")
    assert manifest is not None and manifest["imported_topics_merged"] == 2
    ids = run.read_table("data/topics.parquet")["topic_id"].to_pylist()
    assert len(ids) == len(set(ids)) == found.topics


def test_given_statements_are_of_nobody_whom_a_prompt_could_name(tmp_path: Path) -> None:
    plan = plan_with("data.pairing=same_role")
    given = Given(transcripts=file(tmp_path, [{**STATEMENTS[0], "role": 7}, *STATEMENTS]))
    with pytest.raises(DatasetError, match=r"data\.pairing=same_role .*allowed: same_topic"):
        import_run(plan, RunFolder(tmp_path / "run"), given, AVOIDED)
    assert not (tmp_path / "run").exists()
    # Pairs have prompts of their own, and statements may be of any number of people.
    pairs = RunFolder(tmp_path / "pairs")
    import_run(plan, pairs, Given(pairs=file(tmp_path, PAIRS)), AVOIDED)


def test_a_run_is_not_imported_over(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    import_run(PLAN, run, Given(pairs=file(tmp_path, PAIRS)), AVOIDED)
    with pytest.raises(DatasetError, match="holds a run already"):
        import_run(PLAN, run, Given(pairs=file(tmp_path, PAIRS)), AVOIDED)


def test_the_commands_import_and_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, there = str(tmp_path / "run"), str(tmp_path / "there")
    given = str(file(tmp_path, PAIRS))
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)

    def rldf(*words: str) -> Any:
        return CliRunner().invoke(cli.app, ["data", *words])

    imported = rldf("import", run, "--plan", "smoke", "--pairs", given)
    assert imported.exit_code == 0 and f"rldf train sft {run}" in imported.output
    exported = rldf("export", run, there, "--to", "jsonl")
    assert exported.exit_code == 0 and f"{there}/pairs.jsonl" in exported.output
    refused = rldf("export", run, "me/mine", "--to", "hub")
    assert isinstance(refused.exception, HubError) and "HF_TOKEN" in str(refused.exception)
