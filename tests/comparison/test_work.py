"""The whole flow with stand-ins for what computes: files, equal keys, nothing done twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rldf_ray.cluster.placement import PlacementError, Resources
from rldf_ray.comparison import answers, work
from rldf_ray.engines.checks import PreflightError
from rldf_ray.evaluate.bbq.run_models import SCENES_NAME, load_items
from rldf_ray.models.base import ChatRequest
from rldf_ray.storage.journal import Journal
from tests.comparison.conftest import Machine, compare, with_room
from tests.fakes import multirole_set, plan_with


def free(request: ChatRequest) -> bool:
    """Whether it is about a held-out prompt."""
    return request.address.startswith("held_out/") or "/age-" in request.address


def test_all_methods_are_asked_and_all_files_are_written(machine: Machine, tmp_path: Path) -> None:
    found = compare(tmp_path)
    items = len(load_items(plan_with()).items)
    # Default once for all repeats; the six others in each.
    assert len(machine.ranked) == 1 + 6 * 3
    thoughts = [r for r in machine.said.requests if not free(r)]
    assert len(thoughts) == 3 * items * (1 + 3)
    rows = pq.read_table(tmp_path / "compare/results.parquet").to_pylist()
    assert {(r["method"], r["repeat"]) for r in rows} == {
        (m, r) for m in found.titles for r in range(3)
    }
    answered = pq.read_table(tmp_path / "compare/eval/items.parquet").to_pylist()
    assert len(answered) == 7 * 3 * items
    summary = json.loads((tmp_path / "compare/compare.json").read_text(encoding="utf-8"))
    assert summary["seeds"] == [0, 1, 2] and summary["pairs"] == 9
    better = [c for c in summary["comparisons"] if c["verdict"] == "better"]
    assert {(c["method"], c["against"]) for c in better} == {
        (m, a) for m in ("rlaif", "rldf_self") for a in ("default", "instructed", "sft")
    }
    text = (tmp_path / "compare/tables.md").read_text(encoding="utf-8")
    assert "**Table 1." in text and "its judge is the model itself" in text
    assert (tmp_path / "compare/tables.tex").exists()
    assert (tmp_path / "compare/tables.csv").exists()
    lines = (tmp_path / "compare/differences.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(summary["comparisons"])


def test_every_model_is_read_once_for_its_perplexity(machine: Machine, tmp_path: Path) -> None:
    found = compare(tmp_path, repeats=2)
    # What is not trained is one model; SFT, RLAIF and RLDF are one a repeat.
    assert len(machine.read) == len(set(machine.read)) == 1 + 2 * 3
    read = {
        (r["method"], r["repeat"]): r["value"]
        for r in found.results
        if r["measure"] == "perplexity"
    }
    assert len(read) == 7 * 2
    assert read["cot", 1] == read["default", 0] == 20.0 and read["rldf_self", 1] == 21.0
    compare(tmp_path, repeats=2)
    assert len(machine.read) == 7


def test_whom_a_model_that_reads_nothing_is_ahead_of_is_said(
    machine: Machine, tmp_path: Path
) -> None:
    found = compare(tmp_path, repeats=1)
    (note,) = [n for n in found.notes if n.startswith("A model that always says")]
    # All that PPO did not train answer "unknown" here: they are level with it.
    assert "0.500 overall, at or ahead of Default, Instructed, CoT, FairThinking, SFT." in note


def test_whether_topics_repeat_the_items_is_said(machine: Machine, tmp_path: Path) -> None:
    found = compare(tmp_path, repeats=1)
    notes = [n for n in found.notes if "training topics" in n]
    assert notes[0].startswith("Of 1 training topics 0 have eight words in a row")
    assert [n.split(" with an item of ")[1] for n in notes] == [
        f"{name}, and 0 the same words." for name in (SCENES_NAME, "the held-out topics")
    ]
    untrained = compare(tmp_path / "other", repeats=1, methods=("default", "cot"))
    assert not any("training topics" in n for n in untrained.notes)


def test_a_method_that_answers_by_place_is_seen_to(machine: Machine, tmp_path: Path) -> None:
    machine.by_place = True
    found = compare(tmp_path, repeats=1, methods=("default", "rldf_self"), modes=("letter",))
    assert any(n.startswith("Default: 100 %") and "shown as A" in n for n in found.notes)
    text = (tmp_path / "compare/tables.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith("| Default | 1.000 | 0.000")]
    assert row == "| Default | 1.000 | 0.000 | 0.000 | 1.000 | 0.000 | 0.000 | 1.000 |"
    assert found.summary["option_order"]["default"][0]["chosen"]["A"]["share"] == 1.0


def test_the_same_items_are_asked_in_two_ways_and_both_are_in_every_file(
    machine: Machine, tmp_path: Path
) -> None:
    found = compare(tmp_path, repeats=1, methods=("default", "rldf_self"), modes=("rank", "letter"))
    items = len(load_items(plan_with()).items)
    answered = pq.read_table(tmp_path / "compare/eval/items.parquet").to_pylist()
    asked = {"bbq": 2 * items, "bbq_letter": 2 * items}
    assert Counter(row["set"] for row in answered) == asked
    rows = pq.read_table(tmp_path / "compare/results.parquet").to_pylist()
    measured = {
        name: {(r["method"], r["measure"]) for r in rows if r["set"] == name} for name in asked
    }
    assert measured["bbq"] - measured["bbq_letter"] == {
        (method, "perplexity") for method in ("default", "rldf_self")
    }
    assert {c["mode"] for c in found.summary["comparisons"]} == {"rank", "letter"}
    titles = {table.number: table.title for table in found.tables}
    assert sorted(titles) == [1, 2, 3, 4, 5, 7, 8, 9]
    assert "ranked" in titles[1] and "by letter" in titles[8] and "by letter" in titles[9]
    text = (tmp_path / "compare/tables.md").read_text(encoding="utf-8")
    assert f"| all ({items}), rank |" in text and f"| all ({items}), letter |" in text
    assert any("ranked" in note and "by letter" in note for note in found.notes)


def test_the_order_of_options_nobody_was_shown_is_not_told(
    machine: Machine, tmp_path: Path
) -> None:
    found = compare(tmp_path, repeats=1, methods=("default", "rldf_self"))
    assert found.positions == {}
    assert "Order of the options" not in (tmp_path / "compare/tables.md").read_text(
        encoding="utf-8"
    )


def test_the_same_command_again_does_nothing_twice(machine: Machine, tmp_path: Path) -> None:
    first = compare(tmp_path)
    before = (machine.stages.copy(), len(machine.ranked), len(machine.said.requests))
    synced = list(machine.synced)
    second = compare(tmp_path)
    assert (machine.stages, len(machine.ranked), len(machine.said.requests)) == before
    assert machine.synced == synced
    assert second.results == first.results and second.comparisons == first.comparisons


def test_a_model_that_was_trained_again_is_asked_again(machine: Machine, tmp_path: Path) -> None:
    compare(tmp_path, methods=("default", "rldf_self"), repeats=1)
    ranked = len(machine.ranked)
    (manifest,) = (tmp_path / "runs/trained").glob("*/stages/ppo.json")
    redone = json.loads(manifest.read_text(encoding="utf-8")) | {
        "finished_at": "2030-01-01T00:00:00Z"
    }
    manifest.write_text(json.dumps(redone), encoding="utf-8")
    compare(tmp_path, methods=("default", "rldf_self"), repeats=1)
    assert len(machine.ranked) == ranked + 1 and machine.ranked[-1].endswith("ppo/model")


def test_free_answers_are_left_for_a_judge(machine: Machine, tmp_path: Path) -> None:
    compare(tmp_path, repeats=2)
    path = tmp_path / "compare/free_answers.parquet"
    rows = pq.read_table(path).to_pylist()
    assert len(rows) == 7 * 2 * 3 and {len(r["answer"]) > 0 for r in rows} == {True}
    assert len({(r["method"], r["repeat"], r["prompt_id"]) for r in rows}) == len(rows)
    assert {r["method"] for r in rows if r["thought"]} == {"cot", "fair_thinking"}
    # Every trained model's weights once, after the model as it is has answered.
    assert len(machine.synced) == len(set(machine.synced)) == 3 * 2
    asked = machine.said.asked("held_out/")
    assert len(asked) == len(rows) and len({r.seed for r in asked}) == 2 * 3
    plain = [r for r in asked if len(r.messages) == 1 and "jury" not in r.messages[0].content]
    assert {r.messages[0].content for r in plain} == {r["prompt"] for r in rows}
    items = pq.read_table(tmp_path / "compare/eval/items.parquet").to_pylist()
    assert all(row["scores"][row["prediction"]] == max(row["scores"]) == 1 for row in items)
    assert "FairThinking" in (tmp_path / "compare/figures/abstention.svg").read_text(
        encoding="utf-8"
    )
    page = (tmp_path / "compare/figures/figure-7-cases.html").read_text(encoding="utf-8")
    assert page.count("<article>") == 7 * page.count("<section>") > 0 and "FairThinking" in page


def test_methods_without_topics_have_no_held_out_prompts(machine: Machine, tmp_path: Path) -> None:
    compare(tmp_path, methods=("default", "cot"))
    table = pq.read_table(tmp_path / "compare/free_answers.parquet")
    assert table.num_rows == 0 and "answer" in table.column_names
    drawn = {path.name for path in (tmp_path / "compare/figures").iterdir()}
    assert drawn == {"abstention.png", "abstention.svg"}


def test_the_multirole_set_is_asked_as_well(machine: Machine, tmp_path: Path) -> None:
    rows = [
        {"bias_type": name, "context": f"On day {i} he was BLANK"}
        for i in range(4)
        for name in ("ageism", "nationality")
    ]
    folder = multirole_set(tmp_path / "set", rows)
    out = tmp_path / "out"
    plan = plan_with(f"evaluate.multirole={folder}")
    found = compare(out, plan, repeats=1, methods=("default", "cot", "rldf_self"))
    shares = {
        (r["method"], r["group"], r["measure"]): r["value"]
        for r in found.results
        if r["set"] == "multirole"
    }
    assert len(shares) == 3 * 3 * 3 and shares["rldf_self", "age", "impartial"] == 1.0
    items = pq.read_table(out / "compare/eval/items.parquet").to_pylist()
    assert {r["set"] for r in items} == {"bbq", "multirole"}
    assert [t.columns[-1] for t in found.tables if t.number == 6] == ["Overall"]
    number = len(load_items(plan_with()).items)
    assert {c.n for c in found.comparisons if c.condition == "all"} == {number}
    (mine,) = [
        c
        for c in found.comparisons
        if (c.condition, c.method, c.against) == ("multirole", "rldf_self", "default")
    ]
    assert (mine.value, mine.n) == (1 - shares["default", "all", "impartial"], len(rows))
    assert mine.mode == "rank"
    assert f"| multi-role set ({len(rows)}), rank |" in (out / "compare/tables.md").read_text(
        encoding="utf-8"
    )


def test_more_repeats_go_on_from_those_there_are(machine: Machine, tmp_path: Path) -> None:
    compare(tmp_path, repeats=1)
    assert machine.stages["ppo"] == 2 and machine.stages["debates"] == 2
    compare(tmp_path, repeats=2)
    assert machine.stages["ppo"] == 4 and machine.stages["debates"] == 2
    assert len(machine.ranked) == 1 + 6 * 2


def test_a_kill_among_the_answers_loses_none(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = machine.rank

    def dies(*arguments: Any) -> Any:
        if len(machine.ranked) == 4:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(answers, "_ranked", dies)
    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path, repeats=1)
    said = len(machine.said.requests)
    monkeypatch.setattr(answers, "_ranked", whole)
    compare(tmp_path, repeats=1)
    assert len(machine.ranked) == 7
    assert len([r for r in machine.said.requests if not free(r)]) == said


def test_what_a_row_cost_is_told_in_full(machine: Machine, tmp_path: Path) -> None:
    costs = compare(tmp_path, repeats=2).costs
    assert costs["default"].generated_tokens == 0 and costs["default"].seconds == 0
    # audit, topics, debates, data, sft; and reward model and PPO.
    assert costs["sft"].seconds == 10.0 and costs["rldf_self"].seconds == 14.0
    assert costs["sft"].pairs == 0 and costs["rlaif"].pairs == 9
    assert costs["rldf_self"].statements == 36 and costs["rldf_self"].reward_accuracy == 0.5
    assert costs["cot"].answering["rank"].thought_tokens > 0
    assert costs["rldf_self"].answering["rank"].thought_tokens == 0
    assert (costs["rlaif"].auc_opinions, costs["rlaif"].auc_scenes) == (0.7, 0.5)


def test_a_row_says_where_its_rewards_may_be_noise(machine: Machine, tmp_path: Path) -> None:
    costs = compare(tmp_path, repeats=2).costs
    noise = "its reward model may be no better than a coin (0.50 on 20 held-out pairs)"
    assert costs["rldf_self"].remarks[-2:] == (f"seed 0: {noise}", f"seed 1: {noise}")
    assert not any("coin" in remark for remark in costs["sft"].remarks)


def test_ppo_that_will_not_fit_is_refused_before_anything_is_debated(
    machine: Machine, tmp_path: Path
) -> None:
    large = plan_with("engines.kv_cache_gib=30")
    with pytest.raises(PlacementError, match=r"PPO needs about 3\d\.\d GiB of memory"):
        compare(tmp_path, large, methods=("default", "rldf_self"))
    assert not machine.stages
    # SFT has no engines beside it; with its debates there is still no room for PPO.
    compare(tmp_path, large, methods=("default", "sft"))
    assert machine.stages["sft"] == 3
    with pytest.raises(PlacementError, match="PPO needs"):
        compare(tmp_path, large, methods=("default", "rldf_self"))
    assert "reward" not in machine.stages


def test_finished_ppo_is_shown_where_it_would_not_fit(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(tmp_path, methods=("default", "rldf_self"))
    monkeypatch.setattr(work, "reported_resources", lambda: Resources(2, 0, 1))
    compare(tmp_path, methods=("default", "rldf_self"))
    with pytest.raises(PlacementError, match="PPO needs"):
        compare(tmp_path, methods=("default", "rldf_self"), repeats=4)


def test_room_for_all_models_is_looked_for_before_anything_is_debated(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the embedded model takes 0.5 GiB; SFT, RLAIF and RLDF leave three or one a seed."""
    with_room(monkeypatch, 3)
    compare(tmp_path, methods=("sft",), repeats=3)
    with pytest.raises(PreflightError, match=r"3\.0 GiB free, 6\.\d are written at most"):
        compare(tmp_path, methods=("sft", "rlaif", "rldf_self"), repeats=2)
    assert "reward" not in machine.stages
    with_room(monkeypatch, 7)
    compare(tmp_path, methods=("sft", "rlaif", "rldf_self"), repeats=2)
    with_room(monkeypatch, 0)
    compare(tmp_path, methods=("sft", "rlaif", "rldf_self"), repeats=2)


def test_thinking_that_was_cut_off_keeps_its_seconds(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete, left = machine.said.complete, 20
    calls = tmp_path / "compare/journal/calls.jsonl"

    async def until_killed(request: ChatRequest) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            # What has been said before is thought about; the journal sets no event.
            while '"seconds"' not in calls.read_text(encoding="utf-8"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            raise KeyboardInterrupt
        return await complete(request)

    monkeypatch.setattr(machine.said, "complete", until_killed)
    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path, methods=("cot",), repeats=1)
    journal = Journal(calls)
    (address,) = {e["address"] for e in journal.entries() if "samples" not in e}
    journal.append(address, {"seconds": 100.0})
    journal.close()
    left = 10_000
    compare(tmp_path, methods=("cot",), repeats=1)
    # Ranked in another way, the scenes have been thought about already.
    compare(tmp_path, methods=("cot",), repeats=1, modes=("rank_sum",))
    facts = [
        json.loads(p.read_text(encoding="utf-8"))
        for p in (tmp_path / "compare/answers").glob("*.json")
    ]
    assert len(facts) == 2 and {one["answer_seconds"] for one in facts} == {1.5}
    assert all(100 <= one["think_seconds"] < 200 for one in facts)


def test_free_answers_found_again_are_those_of_this_comparisons_repeats(
    machine: Machine, tmp_path: Path
) -> None:
    for seed in (0, 1):
        compare(tmp_path, plan_with(f"seed={seed}"), methods=("default", "sft"), repeats=2)
        rows = pq.read_table(tmp_path / "compare/free_answers.parquet").to_pylist()
        assert {(r["repeat"], r["seed"]) for r in rows} == {(0, seed), (1, seed + 1)}
        assert len({(r["method"], r["repeat"], r["prompt_id"]) for r in rows}) == len(rows)


def test_how_often_mabrf_rewrote_is_said(machine: Machine, tmp_path: Path) -> None:
    items = len(load_items(plan_with()).items)
    found = compare(tmp_path, methods=("default", "mabrf"), repeats=2)
    (note,) = [note for note in found.notes if note.startswith("MABRF (rank): rewritten ")]
    assert f" of {2 * items}; verdicts that did not parse: " in note


def test_what_no_threshold_changes_has_intervals(machine: Machine, tmp_path: Path) -> None:
    compare(tmp_path, repeats=1, modes=("rank", "letter"), methods=("default", "sft", "rldf_self"))
    text = (tmp_path / "compare/tables.md").read_text(encoding="utf-8")
    assert "**Table 7's last two figures" in text and "**Table 9's last two figures" in text
    summary = json.loads((tmp_path / "compare/compare.json").read_text(encoding="utf-8"))
    found = {(r["method"], r["mode"], r["measure"]): r for r in summary["reading"]}
    assert len(found) == 3 * 2 * 2
    right = found["rldf_self", "rank", "unknown_auc"]
    assert right["figure"]["value"] == 1.0 and right["difference"]["value"] == 0.5
    assert found["default", "rank", "both_right"]["difference"] is None
