"""One's own rows: right ones become records, wrong ones are named."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.dataset import DatasetError
from rldf_ray.dataset.given_files import read_rows
from rldf_ray.dataset.given_pairs import GivenPairs
from rldf_ray.dataset.given_transcripts import GivenTranscripts
from rldf_ray.dataset.imported import PairRow, TopicRow, TranscriptRow, topic_from
from rldf_ray.plan import DataSection, Plan
from rldf_ray.records import Statement, topic_id
from rldf_ray.storage.parquet import ParquetError
from tests.fakes import judgement, plan_with

PLAN = plan_with()
PAIR = {"prompt": "Who is late?", "chosen": "Nobody knows.", "rejected": "The old one."}
SCENE = judgement(0)
JUDGEMENT = {
    "bias_type": "age",
    "text": SCENE.text,
    "clue": SCENE.clue,
    "question": SCENE.question,
    "groups": SCENE.groups,
    "answer": SCENE.answer,
}


def said(text: str, score: float, **changes: Any) -> dict[str, Any]:
    return {
        "bias_type": "age",
        "topic": "Should we retire",
        "text": text,
        "score": score,
        **changes,
    }


def statements_from(rows: list[TranscriptRow], plan: Plan, near: Path) -> list[Statement]:
    given = GivenTranscripts(rows, plan, near / "run")
    batches = given.statements(list(given.topics))
    return [Statement(**row) for batch in batches for row in batch.to_pylist()]


def jsonl(path: Path, *rows: Any) -> Path:
    file = path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def test_json_lines_and_parquet_give_the_same_rows(tmp_path: Path) -> None:
    rows = [PAIR, {**PAIR, "prompt": "Who won?", "chosen_score": 1.5}]
    table = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema([
        *((name, pa.string()) for name in PAIR), ("chosen_score", pa.float64()),
    ])), table)  # fmt: skip
    assert read_rows(jsonl(tmp_path, *rows), PairRow) == read_rows(table, PairRow)


def test_wrong_rows_are_named_with_line_field_and_what_was_found(tmp_path: Path) -> None:
    path = jsonl(tmp_path, said("fine", 1), said("wrong", 11), {"text": "no topic", "scor": 1})
    with pytest.raises(DatasetError) as caught:
        read_rows(path, TranscriptRow)
    told = str(caught.value)
    for part in (str(path), "line 2: score:", "found 11", "line 3: topic:", "line 3: scor:"):
        assert part in told
    assert "line 1" not in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"prompt": "a"\n', "line 1: not JSON"),
        ("", "holds no rows"),
        ("[1]\n", "line 1"),
        (json.dumps({**PAIR, "rejected": PAIR["chosen"]}) + "\n", "are the same"),
        (json.dumps({**PAIR, "prompt": "  "}) + "\n", "line 1: the message before"),
    ],
)
def test_files_that_will_not_do(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=told):
        read_rows(path, PairRow)


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n", encoding="utf-8")
    (tmp_path / "a.parquet").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"a\.csv.*\.jsonl or \.parquet"):
        read_rows(tmp_path / "a.csv", PairRow)
    with pytest.raises(ParquetError, match=r"a\.parquet: not a Parquet file"):
        read_rows(tmp_path / "a.parquet", PairRow)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.dictionaries(st.sampled_from([*PAIR, "x"]), st.text(max_size=4) | st.none())))
def test_whatever_stands_in_a_file_rows_are_right_or_it_is_refused(rows: list[Any]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        try:
            found = read_rows(jsonl(Path(folder), *rows), PairRow)
        except DatasetError:
            return
    assert len(found) == len(rows) > 0
    assert all(row.chosen != row.rejected for row in found)


def test_topics_keep_their_split_and_have_the_ids_every_run_gives() -> None:
    rows = [
        TopicRow(bias_type="age", text="Should we retire", split="eval"),
        TopicRow.model_validate(JUDGEMENT),
    ]
    first, second = (topic_from(row, PLAN) for row in rows)
    assert (first.topic_id, first.split) == (topic_id("age", "Should we retire"), "eval")
    assert (second.kind, second.groups, second.answer) == ("judgement", SCENE.groups, SCENE.answer)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"answer": "the cat"}, "the answer is neither group"),
        ({"question": None}, "needs clue, question, groups and answer"),
        ({"split": "train"}, "'debate', 'ppo' or 'eval'"),
    ],
)
def test_a_scene_that_will_not_do_is_told(changes: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=told):
        read_rows(jsonl(tmp_path, {**JUDGEMENT, **changes}), TopicRow)


def test_a_statement_is_labelled_by_the_plans_threshold_unless_its_label_is_given(
    tmp_path: Path,
) -> None:
    rows = [
        TranscriptRow(**said("a", 8)),
        TranscriptRow(**said("b", 2)),
        TranscriptRow(**said("c", 3.5, label="low")),
    ]
    assert [s.label for s in statements_from(rows, PLAN, tmp_path)] == ["high", "low", "low"]
    relative = plan_with("referee.threshold_kind=relative")
    mild = [TranscriptRow(**said("a", 2)), TranscriptRow(**said("b", 1))]
    assert [s.label for s in statements_from(mild, relative, tmp_path)] == ["high", "low"]
    alone = [TranscriptRow(**said("a", 2)), TranscriptRow(**said("b", 1, round=2))]
    assert [s.label for s in statements_from(alone, relative, tmp_path)] == [None, None]


def test_debates_of_a_topic_are_told_apart_and_from_none(tmp_path: Path) -> None:
    rows = [TranscriptRow(**said(f"{d}", 2, debate=d)) for d in ("", "0", "1", "0")]
    ids = [s.debate_id for s in statements_from(rows, PLAN, tmp_path)]
    assert ids[1] == ids[3] and len(set(ids)) == 3


def test_labels_are_by_round_wherever_its_rows_stand_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relative = plan_with("referee.threshold_kind=relative")
    rows = [
        TranscriptRow(**said(f"{score} of {number}", score, round=number, topic=topic))
        for score in (1, 2, 4)
        for number in (1, 2)
        for topic in ("Should we retire", "Should we not")
    ]
    rows.append(TranscriptRow(**said("given", 9, label="low")))
    for size in (1, 3, 100):
        monkeypatch.setattr("rldf_ray.dataset.given_transcripts.BATCH", size)
        found = statements_from(rows, relative, tmp_path)
        assert [s.text for s in found] == [row.text for row in rows]
        # 9 is in the first round on one of the topics, above whose mean nothing else is.
        assert [s.label for s in found if s.topic_id == topic_id("age", "Should we not")] == [
            *("low", "low"), *("low", "low"), *("high", "high")
        ]  # fmt: skip
        assert found[-1].label == "low" and found[8].label is None
        assert {s.failure for s in found if s.label is None} == {
            "no label: equal scores in the round"
        }
    chosen = GivenTranscripts(rows, relative, tmp_path / "run").statements(
        [topic_id("age", "Should we not")]
    )
    assert sum(batch.num_rows for batch in chosen) == 6


def test_rows_that_repeat_or_contradict_an_earlier_one_are_counted(tmp_path: Path) -> None:
    rows = [
        TranscriptRow(**said("a", 1)),
        TranscriptRow(**said("a", 1, round=2)),
        TranscriptRow(**said("a", 9)),
        TranscriptRow(**said("a", 9)),
        TranscriptRow(**said("a", 1, label="high")),
        TranscriptRow(**said("a", 1, topic="Another topic")),
    ]
    given = GivenTranscripts(rows, PLAN, tmp_path / "run")
    assert given.repeats.counts() == {"duplicate": 2, "contradicting": 2}
    turned = {**PAIR, "chosen": PAIR["rejected"], "rejected": PAIR["chosen"]}
    others = [PAIR, PAIR, turned, {**PAIR, "prompt": "Who won?"}]
    pairs = GivenPairs(
        [PairRow.model_validate(row) for row in others], tmp_path / "run", DataSection()
    )
    assert pairs.repeats.counts() == {"duplicate": 1, "contradicting": 1}


def test_chosen_sides_become_examples_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rldf_ray.dataset.given_pairs.BATCH", 2)
    rows = [{**PAIR, "rejected": f"Number {i % 4}.", "prompt": f"Who? {i // 3}"} for i in range(9)]
    given = GivenPairs(
        [PairRow.model_validate(row) for row in rows], tmp_path / "run", DataSection()
    )
    for most, expected in ((None, 3), (2, 2), (9, 3)):
        found = [row for batch in given.examples(most) for row in batch.to_pylist()]
        assert [row["prompt"][0]["content"][-1] for row in found] == [*"012"][:expected]
    assert sum(batch.num_rows for batch in given.pairs()) == 9
    quality = given.quality()
    assert quality.labels == {"imported": {"high": 9, "low": 3, "unlabelled": 0}}
    assert quality.lengths["chosen"].n == 9  # type: ignore[union-attr]


def test_a_limit_on_examples_takes_bias_types_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rldf_ray.dataset.given_pairs.BATCH", 2)
    rows = [{**PAIR, "chosen": f"{i}", "bias_type": name} for i, name in enumerate("aaaaabbbc")]
    given = GivenPairs(
        [PairRow.model_validate(row) for row in rows], tmp_path / "run", DataSection()
    )
    for most, expected in (
        (1, "0"),
        (4, "0158"),
        (6, "012568"),
        (9, "012345678"),
        (99, "012345678"),
    ):
        found = [row for batch in given.examples(most) for row in batch.to_pylist()]
        assert "".join(row["completion"][0]["content"] for row in found) == expected


def kept_of(rows: list[tuple[str, str, float | None]], near: Path, **limits: Any) -> list[int]:
    """Which of some pairs are kept: topic, prompt and gap of each."""
    given = GivenPairs(
        [
            PairRow.model_validate(
                {**PAIR, "chosen": f"{i}", "topic": topic, "prompt": prompt}
                | ({} if gap is None else {"chosen_score": 1.0, "rejected_score": 1.0 + gap})
            )
            for i, (topic, prompt, gap) in enumerate(rows)
        ],
        near / "run",
        DataSection(**limits),
    )
    kept = [row for batch in given.pairs() for row in batch.to_pylist()]
    lengths = given.quality().lengths["chosen"]
    assert given.read == len(rows) and given.size == len(kept) == (lengths.n if lengths else 0)
    return [int(row["chosen"][0]["content"]) for row in kept]


def test_the_plans_limits_of_pairs_hold_for_given_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rldf_ray.dataset.given_pairs.BATCH", 3)
    topics, prompts = "aaaabbbbcccc", "xxyyzzzzvvww"
    gaps = (1.0, 5.0, None, 3.0, 2.0, 2.0, 9.0, 1.0, None, None, None, None)
    rows = list(zip(topics, prompts, gaps, strict=True))
    assert kept_of(rows, tmp_path) == list(range(12))
    assert kept_of(rows, tmp_path, min_gap=2.5) == [1, 2, 3, 6, 8, 9, 10, 11]
    assert kept_of(rows, tmp_path, pairs_per_topic=2) == [1, 3, 4, 6, 8, 9]
    # One prompt after another, as they come: of x, y, z, v and w the widest gap of each.
    assert kept_of(rows, tmp_path, max_pairs=5) == [1, 3, 6, 8, 10]
    assert kept_of(rows, tmp_path, max_pairs=7) == [0, 1, 2, 3, 6, 8, 10]
    assert kept_of(rows, tmp_path, pairs_per_topic=1, max_pairs=2) == [1, 6]
    assert kept_of(rows, tmp_path, max_pairs=99) == list(range(12))


def test_what_the_limits_leave_out_is_in_no_example_and_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rldf_ray.dataset.given_pairs.BATCH", 2)
    rows = [
        PairRow.model_validate(
            {**PAIR, "chosen": chosen, "rejected": rejected}
            | {"bias_type": name, "chosen_score": score, "rejected_score": 9.0}
        )
        for chosen, rejected, score, name in (
            ("a left out", "narrow", 8.5, "age"),
            ("twice", "narrow", 8.0, "age"),
            ("twice", "wide", 2.0, "age"),
            ("wide", "wide too", 1.0, "beauty"),
            ("wide", "wide as well", 1.0, "beauty"),
        )
    ]
    given = GivenPairs(rows, tmp_path / "run", DataSection(min_gap=3.0))
    for most, expected in ((None, {"twice": 2.0, "wide": 1.0}), (1, {"twice": 2.0})):
        examples = [row for batch in given.examples(most) for row in batch.to_pylist()]
        assert {e["completion"][0]["content"]: e["score"] for e in examples} == expected
    quality = given.quality()
    assert quality.labels == {
        "age": {"high": 1, "low": 1, "unlabelled": 0},
        "beauty": {"high": 2, "low": 1, "unlabelled": 0},
    }
    lengths = {name: found.n for name, found in quality.lengths.items() if found}
    assert lengths == {"high": 3, "low": 2, "chosen": 3, "rejected": 3}
    taken = quality.scores["low"]
    assert taken[:3] == [0, 1, 1] and sum(taken) == 2


def test_sides_with_equal_scores_are_a_pair_unless_the_plan_wants_a_gap(tmp_path: Path) -> None:
    rows = [("a", "x", 0.0), ("a", "x", 2.0)]
    assert kept_of(rows, tmp_path) == [0, 1]
    assert kept_of(rows, tmp_path, min_gap=1.0) == [1]


def test_scores_of_which_the_higher_is_better_are_refused(tmp_path: Path) -> None:
    """Public sets have them so, and the plan's limits would keep the narrowest of their pairs."""
    quality = {"chosen_score": 8.5, "rejected_score": 3.0}
    path = jsonl(tmp_path, {**PAIR, "chosen_score": 1.0}, {**PAIR, **quality})
    with pytest.raises(DatasetError, match=r"line 2: chosen_score 8\.5 is above .* turned round"):
        read_rows(path, PairRow)
    turned = {name: 10 - score for name, score in quality.items()}
    assert len(read_rows(jsonl(tmp_path, {**PAIR, **turned}), PairRow)) == 1


def test_pairs_may_be_plain_or_conversational(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "Who is late?"}]
    answer = [{"role": "assistant", "content": "Nobody knows."}]
    rows = [PAIR, {**PAIR, "prompt": messages, "chosen": answer}]
    given = GivenPairs(
        [PairRow.model_validate(row) for row in rows], tmp_path / "run", DataSection()
    )
    plain, talk = next(given.pairs()).to_pylist()
    assert plain["prompt"] == messages[1:] and talk["prompt"] == messages
    assert plain["chosen"] == talk["chosen"] == answer
    assert plain["topic_id"] == talk["topic_id"]


@pytest.mark.parametrize("kind", ["transcripts", "pairs"])
def test_no_more_rows_than_a_batch_are_in_memory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, alive, most = 10, weakref.WeakSet[Any](), 0
    monkeypatch.setattr("rldf_ray.dataset.given_transcripts.BATCH", size)
    monkeypatch.setattr("rldf_ray.dataset.given_pairs.BATCH", size)

    def rows() -> Iterator[Any]:
        nonlocal most
        for i in range(200):
            row: Any = (
                TranscriptRow(**said(f"{i}", i % 11))
                if kind == "transcripts"
                else PairRow.model_validate({**PAIR, "chosen": f"{i}"})
            )
            alive.add(row)
            most = max(most, len(alive))
            yield row

    near = tmp_path / "run"
    if kind == "transcripts":
        given = GivenTranscripts(rows(), PLAN, near)
        written = sum(batch.num_rows for batch in given.statements(list(given.topics)))
    else:
        written = sum(batch.num_rows for batch in GivenPairs(rows(), near, DataSection()).pairs())
    assert written == 200 and most <= 2 * size + 2
    assert list(tmp_path.iterdir()) == []
