"""Reading BBQ folders: every place a target can come from, every way a file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem
from tests.evaluate.bbq.bbq_files import SHARED_BBQ, needs_published_data, row, write

SCENES = Path(__file__).resolve().parents[3] / "rldf_ray" / "evaluate" / "bbq" / "scenes"


def write_targets(path: Path, *rows: tuple[object, ...], category: str = "Age") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{category},{','.join(map(str, line))}" for line in rows]
    path.write_text("\n".join(["category,example_id,target_loc", *lines]) + "\n", encoding="utf-8")
    return path


def write_metadata(path: Path, *targets: str) -> Path:
    """As published: more columns, quotes, and NA for what is not known."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = '"category","question_index","example_id","target_loc","label_type"'
    lines = [f'"Age","1",{number},{target},"label"' for number, target in enumerate(targets)]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def targets(directory: Path) -> list[int | None]:
    return [item.target_loc for item in load_bbq(directory).items]


# ---- reading


def test_a_line_becomes_an_item(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(1)])
    assert load_bbq(tmp_path).items == (
        BBQItem(
            category="Age",
            example_id=1,
            question_index="1",
            polarity="neg",
            condition="disambig",
            context="Scene 0: an old and a young person came in. The young one had lost the key.",
            question="Who was forgetful?",
            options=("The old one", "The young one", "Not known"),
            label=1,
            unknown=2,
            target_loc=None,
        ),
    )


@pytest.mark.parametrize("missing", [[], ["", ""], ["Latina"]])
def test_an_answer_without_its_group_is_no_reason_to_refuse_the_file(
    missing: list[str], tmp_path: Path
) -> None:
    """A few published rows lack what they say of one answer (Race_x_gender's 4320)."""
    info = row(1)["answer_info"] | {"ans0": missing}
    write(tmp_path / "Age.jsonl", [row(1, answer_info=info)])
    (item,) = load_bbq(tmp_path).items
    assert item.unknown == 2 and item.options[0] == "The old one"


def test_gzip_and_plain_files_are_read_in_category_and_published_order(tmp_path: Path) -> None:
    write(tmp_path / "SES.jsonl", [row(2, category="SES"), row(1, category="SES")])
    write(tmp_path / "Age.jsonl.gz", [row(0), row(1)])
    (tmp_path / "LICENSE").write_text("not data", encoding="utf-8")
    loaded = load_bbq(str(tmp_path))
    assert [item.key for item in loaded.items] == [("Age", 0), ("Age", 1), ("SES", 2), ("SES", 1)]
    assert loaded.source == str(tmp_path)


def test_what_macos_puts_beside_the_files_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0), row(1)])
    write_targets(tmp_path / "target_loc.csv", (0, 1), (1, 0))
    for name in ("._Age.jsonl", "._SES.jsonl.gz", "._target_loc.csv", ".DS_Store"):
        (tmp_path / name).write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X")
    loaded = load_bbq(tmp_path)
    assert [item.key for item in loaded.items] == [("Age", 0), ("Age", 1)]
    assert targets(tmp_path) == [1, 0]


def test_only_the_categories_asked_for_are_read(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row()])
    (tmp_path / "SES.jsonl").write_text("never read", encoding="utf-8")
    assert [item.category for item in load_bbq(tmp_path, ["Age"]).items] == ["Age"]


def test_blank_lines_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "Age.jsonl").write_text(
        f"\n{json.dumps(row())}\n\n{json.dumps(row(1))}", encoding="utf-8"
    )
    assert len(load_bbq(tmp_path).items) == 2


def test_unknown_goes_by_group_and_not_by_wording(tmp_path: Path) -> None:
    info = {"ans0": ["Unknown", "old"], "ans1": ["gallery", "unknown"], "ans2": ["x", "nonOld"]}
    write(tmp_path / "Age.jsonl", [row(answer_info=info, ans0="Unknown", ans1="The gallery")])
    assert load_bbq(tmp_path).items[0].unknown == 1


# ---- where the targets are


def test_targets_beside_the_items(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0), row(1), row(2)])
    path = write_targets(tmp_path / "target_loc.csv", (0, 0), (1, 1), (9, 2))
    loaded = load_bbq(tmp_path)
    assert [item.target_loc for item in loaded.items] == [0, 1, None]
    assert loaded.target_sources == (str(path),)
    assert loaded.why_no_bias_scores is None


def test_split_target_files_are_all_read(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0)])
    write(tmp_path / "SES.jsonl", [row(0, category="SES")])
    write_targets(tmp_path / "target_loc.Age.csv", (0, 0))
    write_targets(tmp_path / "target_loc_ses.csv", (0, 1), category="SES")
    assert targets(tmp_path) == [0, 1]
    assert len(load_bbq(tmp_path).target_sources) == 2


@pytest.mark.parametrize("items_in", ["data", "."])
@pytest.mark.parametrize("metadata_in", [".", "analysis_scripts", "supplemental"])
def test_published_metadata_is_found_from_the_checkout(
    tmp_path: Path, items_in: str, metadata_in: str
) -> None:
    write(tmp_path / items_in / "Age.jsonl", [row(0), row(1)])
    write_metadata(tmp_path / metadata_in / "additional_metadata.csv", "0", "1")
    assert targets(tmp_path) == [0, 1]


@pytest.mark.parametrize("metadata_in", ["data", "analysis_scripts", "supplemental"])
def test_published_metadata_is_found_from_the_data_folder(
    tmp_path: Path, metadata_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "data" / "Age.jsonl", [row(0)])
    write_metadata(tmp_path / metadata_in / "additional_metadata.csv", "1")
    assert targets(tmp_path / "data") == [1]
    monkeypatch.chdir(tmp_path / "data")
    assert targets(Path()) == [1]


def test_target_files_go_before_metadata(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0)])
    write_metadata(tmp_path / "additional_metadata.csv", "1")
    write_targets(tmp_path / "target_loc.csv", (0, 0))
    assert targets(tmp_path) == [0]


def test_metadata_rows_without_a_target(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(number) for number in range(7)])
    path = tmp_path / "additional_metadata.csv"
    write_metadata(path, "", "NA", "nan", '"x"', "2.0", " 1 ")
    path.write_text(path.read_text(encoding="utf-8") + '"Age","1",NA,1,"label"\n', encoding="utf-8")
    assert targets(tmp_path) == [None, None, None, None, 2, 1, None]


def test_a_target_is_not_flipped_for_polarity(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0), row(2)])
    write_targets(tmp_path / "target_loc.csv", (0, 0), (2, 1))
    loaded = load_bbq(tmp_path).items
    assert [(item.polarity, item.target_loc) for item in loaded] == [("neg", 0), ("nonneg", 1)]


def test_rows_that_disagree_leave_no_target_and_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0), row(1)])
    write_targets(
        tmp_path / "target_loc.csv", (0, 0), (0, 1), (0, 0), (1, 1), (1, 1), (8, 1), (8, 2)
    )
    loaded = load_bbq(tmp_path)
    assert [item.target_loc for item in loaded.items] == [None, 1]
    assert loaded.contradictory == {("Age", 0)}


def test_targets_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0)])
    text = "category,example_id,target_loc\nÂge,0,1\n"
    (tmp_path / "target_loc.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"target_loc\.csv: .*; allowed: UTF-8 text"):
        load_bbq(tmp_path)


def test_without_targets_the_set_says_why(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0)])
    loaded = load_bbq(tmp_path)
    assert loaded.target_sources == ()
    assert loaded.why_no_bias_scores is not None
    assert str(tmp_path) in loaded.why_no_bias_scores
    assert "additional_metadata.csv" in loaded.why_no_bias_scores


def test_targets_of_other_items_only_say_why(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(0)])
    write_targets(tmp_path / "target_loc.csv", (5, 0))
    why = load_bbq(tmp_path).why_no_bias_scores
    assert why is not None
    assert "target_loc.csv" in why
    assert "1 items" in why


# ---- errors


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_no_such_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=rf"{name} is not a folder.*jsonl"):
        load_bbq(tmp_path / name)


def test_no_files(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl.txt").write_text("", encoding="utf-8")
    (tmp_path / "Age.jsonl.zst").write_text("", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"no BBQ file in .*<category>\.jsonl"):
        load_bbq(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"example_id": ', r"Age\.jsonl, line 2: Invalid JSON: .* at column 14"),
        ("[1]", r"Age\.jsonl, line 2: .*should be an object \(found \[1\]\)"),
        (json.dumps({"category": "Age"}), r"line 2: example_id: Field required; question_index: "),
        (json.dumps(row(1, label=3)), r"line 2: label: .*less than or equal to 2 \(found 3\)"),
        (json.dumps(row(1, label=True)), r"line 2: label: .*found True"),
        (json.dumps(row(1, example_id="1")), r"line 2: example_id: .*valid integer \(found '1'\)"),
        (json.dumps(row(1, context_condition="clear")), r"'ambig' or 'disambig' \(found 'clear'\)"),
        (json.dumps(row(1, question_polarity="pos")), r"'neg' or 'nonneg' \(found 'pos'\)"),
        (json.dumps(row(1, ans1=None)), r"line 2: ans1: .*valid string \(found None\)"),
        (json.dumps(row(1, answer_info={})), r"line 2: answer_info\.ans0: Field required"),
        (json.dumps(row(1, category="SES")), r"line 2: category is 'SES'; allowed: .*'Age'"),
        (json.dumps(row(0)), r"line 2: example_id 0 stands there a second time"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "Age.jsonl").write_text(f"{json.dumps(row(0))}\n{text}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_bbq(tmp_path)


@pytest.mark.parametrize("groups", [("old", "nonOld", "none"), ("unknown", "old", "unknown")])
def test_not_exactly_one_unknown(tmp_path: Path, groups: tuple[str, ...]) -> None:
    info = {f"ans{index}": ["text", group] for index, group in enumerate(groups)}
    write(tmp_path / "Age.jsonl", [row(answer_info=info)])
    with pytest.raises(ValueError, match=r"Age\.jsonl, line 1: .*allowed: exactly one 'unknown'"):
        load_bbq(tmp_path)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "Age.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"Age\.jsonl: no line in it"):
        load_bbq(tmp_path)


def test_two_files_of_one_category(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row()])
    write(tmp_path / "Age.jsonl.gz", [row()])
    with pytest.raises(ValueError, match=r"both Age\.jsonl and Age\.jsonl\.gz"):
        load_bbq(tmp_path)


def test_a_broken_gzip_file(tmp_path: Path) -> None:
    path = write(tmp_path / "Age.jsonl.gz", [row(number) for number in range(8)])
    whole = path.read_bytes()
    for broken in (b"no gzip", whole[:-20], whole[:40] + bytes(20) + whole[60:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"Age\.jsonl\.gz, after line \d+: broken gzip file"):
            load_bbq(tmp_path)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "Age.jsonl").write_bytes(json.dumps(row()).encode() + b"\n\xff\xfe\n")
    with pytest.raises(ValueError, match=r"Age\.jsonl, line 2: .*allowed: UTF-8"):
        load_bbq(tmp_path)


@pytest.mark.parametrize("categories", [["SES"], ["Age", "SES"], []])
def test_categories_that_are_not_there(tmp_path: Path, categories: list[str]) -> None:
    write(tmp_path / "Age.jsonl", [row()])
    with pytest.raises(ValueError, match=r"asked for; allowed: some of \['Age'\]"):
        load_bbq(tmp_path, categories)


@pytest.mark.parametrize("limit", [-1, 0, 3])
def test_a_limit_too_small_to_balance(tmp_path: Path, limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit_per_category is {limit}; allowed: 4 or more"):
        load_bbq(tmp_path, limit_per_category=limit)


def test_a_category_that_no_balanced_sample_can_be_drawn_from_is_named(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(i) for i in range(40) if i % 4 < 2])
    assert len(load_bbq(tmp_path).items) == 20
    with pytest.raises(ValueError, match=r"Age\.jsonl: no balanced sample of 8 items"):
        load_bbq(tmp_path, limit_per_category=8)


@pytest.mark.parametrize("bad", [(0, 3), (0, "old"), ("first", 1), (0, -1)])
def test_a_broken_target_row(tmp_path: Path, bad: tuple[object, ...]) -> None:
    write(tmp_path / "Age.jsonl", [row()])
    write_targets(tmp_path / "target_loc.csv", (1, 1), bad)
    with pytest.raises(ValueError, match=r"target_loc\.csv, line 3: .*allowed: .*0, 1, 2"):
        load_bbq(tmp_path)


def test_missing_target_columns(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row()])
    (tmp_path / "target_loc.csv").write_text("category,example_id\nAge,0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"target_loc\.csv, line 1: no column \['target_loc'\]"):
        load_bbq(tmp_path)


# ---- the real sets


@pytest.mark.skipif(not SCENES.is_dir(), reason="the project's own scenes are not there")
def test_the_projects_own_scenes_load_with_every_target() -> None:
    loaded = load_bbq(SCENES)
    assert loaded.items
    assert all(item.target_loc not in (None, item.unknown) for item in loaded.items)
    assert not loaded.contradictory


@needs_published_data
def test_the_published_files_load_with_every_target() -> None:
    loaded = load_bbq(SHARED_BBQ)
    assert len(loaded.items) == 11_956
    assert all(item.target_loc not in (None, item.unknown) for item in loaded.items)
    ambiguous = [item for item in loaded.items if item.condition == "ambig"]
    assert all(item.label == item.unknown for item in ambiguous)
