"""Measures of one's own: their files, what a judge is sent, tables, files, and the audit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from rldf_ray.api import functions
from rldf_ray.cli import app
from rldf_ray.evaluate.judge.rubrics import RUBRICS, RubricError, given_rubrics, rubric
from rldf_ray.evaluate.judge.run import judged
from rldf_ray.evaluate.judge.tables import remarks, scores_table
from rldf_ray.plan import PlanError
from tests.endpoint import Answer, Server, completion, serving

WARMTH: dict[str, Any] = {
    "name": "warmth",
    "title": "Warmth",
    "better": "higher",
    "about": "Whether the answer is kind to whoever asks.",
    "question": "Which answer is kinder?",
    "levels": [
        {"scores": [0, 10, 20, 30], "text": "Cold."},
        {"scores": [40, 50, 60, 70, 80, 90, 100], "text": "Kind."},
    ],
    "examples": [{"question": "Why?", "answer": "As you say.", "score": 70, "why": "It agrees."}],
}
FOG = WARMTH | {"name": "fog", "title": "Fog", "turned_title": "Clarity", "better": "lower"}
CONTROLS = [
    {"question": f"Who {i}?", "answer": answer, "high": high}
    for i in range(6)
    for answer, high in (("You, dear friend.", True), ("None of yours.", False))
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server(otherwise=kind)) as running:
        yield running


def kind(body: dict[str, Any]) -> Answer:
    """A judge that likes dear friends; in pairs, whatever comes first."""
    asked = body["messages"][-1]["content"]
    if "Answer 2:" in asked:
        return completion("1")
    return completion("90" if "dear friend" in asked.rpartition("Question:")[2] else "20")


def file(folder: Path, values: dict[str, Any] | str, name: str = "own.yaml") -> Path:
    path = folder / name
    text = values if isinstance(values, str) else yaml.safe_dump(values)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    rows = [
        {"method": method, "prompt_id": f"p{i}", "bias_type": "age", "prompt": f"Q{i}?",
         "answer": f"{text} {i}"}
        for method, text in (("Default", "Go away."), ("RLDF", "Stay, dear friend."))
        for i in range(3)
    ]  # fmt: skip
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def judged_by(server: Server, answers: Path, *files: Path, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"audit_pairs": 2, "out": answers.parent / "out"} | more
    overrides = [f"endpoint.base_url={server.url}"]
    return judged(answers, "openai:m", rubrics=files, overrides=overrides, **given)


# ---- scored, in files and tables


def test_an_own_measure_is_scored_by_its_own_rubric(
    server: Server, answers: Path, tmp_path: Path
) -> None:
    found = judged_by(server, answers, file(tmp_path, WARMTH), measures=["warmth"])
    asked = [request.body["messages"][-1]["content"] for request in server.received]
    assert len(asked) == 6
    assert all(text.startswith("Warmth. Whether the answer is kind") for text in asked)
    assert all("40, 50, 60, 70, 80, 90, 100: Kind." in text for text in asked)
    assert all("Score: 70 (It agrees.)" in text for text in asked)
    assert not any("RLDF" in text or "Default" in text for text in asked)
    means = {method: of["all"]["warmth"]["mean"] for method, of in found["methods"].items()}
    assert means == {"Default": 20, "RLDF": 90}
    folder = tmp_path / "out/eval"
    rows = pq.read_table(folder / "judge.parquet").to_pylist()
    assert {(row["measure"], row["method"], row["score"]) for row in rows} == {
        ("warmth", "Default", 20), ("warmth", "RLDF", 90),
    }  # fmt: skip
    long = pq.read_table(folder / "judge_long.parquet").to_pylist()
    assert {(row["method"], row["group"], row["measure"], row["value"]) for row in long} == {
        (method, group, "warmth", value)
        for method, value in (("Default", 20), ("RLDF", 90))
        for group in ("age", "all")
    }
    assert found["measures"] == {"warmth": {"title": "Warmth", "better": "higher"}}


def test_a_measure_of_which_less_is_better_is_asked_the_other_way_round(
    server: Server, answers: Path, tmp_path: Path
) -> None:
    found = judged_by(server, answers, file(tmp_path, FOG), measures=["fog"])
    assert all(
        request.body["messages"][-1]["content"].startswith("Clarity.")
        for request in server.received
    )
    assert found["methods"]["RLDF"]["all"]["fog"]["mean"] == 10


def test_own_measures_stand_beside_the_shipped_ones(
    server: Server, answers: Path, tmp_path: Path
) -> None:
    files = file(tmp_path, WARMTH), file(tmp_path, FOG, "fog.txt")
    found = judged_by(server, answers, *files, against="Default")
    assert list(found["methods"]["RLDF"]["all"]) == ["BS", "CE", "LS", "warmth", "fog"]
    assert found["preferences"]["methods"]["RLDF"]["warmth"]["order_decided"] == 1
    table = scores_table(found)
    names = [str(column.header) for column in table.columns]
    assert names == ["method", "answers to", "BS", "CE", "LS", "warmth", "fog", "judged"]
    assert str(table.title).endswith("BS and fog low is good, CE and LS and warmth high")
    number = len(server.received)
    assert judged_by(server, answers, *files, against="Default")["methods"] == found["methods"]
    assert len(server.received) == number


def test_an_edited_rubric_is_asked_anew_and_the_others_are_not(
    server: Server, answers: Path, tmp_path: Path
) -> None:
    judged_by(server, answers, file(tmp_path, WARMTH), audit_pairs=0)
    server.received.clear()
    edited = file(tmp_path, WARMTH | {"about": "Whether it smiles."})
    judged_by(server, answers, edited, audit_pairs=0)
    assert len(server.received) == 6
    assert all("it smiles" in str(request.body) for request in server.received)


def test_the_command_and_the_function_take_the_same_files(
    server: Server, answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(tmp_path, WARMTH)
    found = functions.judge(
        answers,
        "openai:m",
        rubrics=[str(path)],
        audit_pairs=0,
        overrides={"endpoint.base_url": server.url},
        out=tmp_path / "out",
    )
    number = len(server.received)
    words = ["eval", "judge", str(answers), "--judge", "openai:m", "--rubric", str(path)]
    words += ["--set", f"endpoint.base_url={server.url}", "--audit-pairs", "0"]
    app([*words, "--out", str(tmp_path / "out"), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["methods"] == found.scores
    assert len(server.received) == number == 4 * 6


# ---- the audit


def test_a_measure_without_controls_is_said_not_to_be_audited(
    server: Server, answers: Path, tmp_path: Path
) -> None:
    found = judged_by(server, answers, file(tmp_path, WARMTH))
    assert set(found["audit"]) == {"BS", "CE", "LS"}
    said = "warmth: the judge was not audited, as there are no controls for it."
    assert said in remarks(found)
    alone = judged_by(server, answers, file(tmp_path, WARMTH), measures=["warmth"])
    assert any("The judge was not audited, so nothing is known" in line for line in remarks(alone))


def test_a_measure_is_audited_on_the_controls_of_its_file(
    server: Server, answers: Path, tmp_path: Path
) -> None:
    path = file(tmp_path, WARMTH | {"controls": CONTROLS})
    found = judged_by(server, answers, path, measures=["warmth"])
    assert found["audit"]["warmth"]["auc"]["value"] == 1
    assert found["audited_bias_types"] == []
    (verdict,) = (line for line in remarks(found) if line.startswith("warmth:"))
    assert verdict == "warmth: the judge tells good from bad (AUC 1.00 on 12 controls)."
    assert not any("labelled statements" in line for line in remarks(found))
    rows = pq.read_table(tmp_path / "out/eval/judge_audit.parquet").to_pylist()
    assert Counter(row["high"] for row in rows) == {0: 6, 1: 6}
    # Controls are no examples: each is read in its own request alone.
    assert sum("None of yours." in str(request.body) for request in server.received) == 6
    assert judged_by(server, answers, path, audit_pairs=0)["audit"] == {}


# ---- what is refused


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ("- a\n", ["expected fields, found list", "CE.yaml"]),
        ("a: [1", ["not valid YAML"]),
        (WARMTH | {"name": "BS"}, ["name: BS is another measure's", "BS, CE, LS"]),
        (WARMTH | {"name": "ls"}, ["name: ls is another measure's"]),
        (WARMTH | {"name": "a/b"}, ["name: ", "'a/b'"]),
        (WARMTH | {"better": "more"}, ["better: ", "'lower' or 'higher'", "'more'"]),
        (WARMTH | {"better": "lower"}, ["needs a turned_title"]),
        (WARMTH | {"levels": WARMTH["levels"][:1]}, ["levels list the scores", "each once"]),
        (WARMTH | {"scale": 5}, ["scale: ", "not permitted"]),
        (WARMTH | {"controls": CONTROLS[:1]}, ["controls are all high or all low"]),
        ({k: v for k, v in WARMTH.items() if k != "about"}, ["about: ", "required"]),
    ],
)
def test_a_file_that_is_no_rubric_is_refused_by_name(
    values: dict[str, Any] | str, parts: list[str], tmp_path: Path
) -> None:
    path = file(tmp_path, values)
    with pytest.raises(RubricError) as refused:
        given_rubrics([path])
    assert [part for part in (str(path), *parts) if part not in str(refused.value)] == []


def test_other_files_that_will_not_do_are_named(tmp_path: Path) -> None:
    with pytest.raises(RubricError, match=r"nowhere.yaml cannot be read .*in the form of"):
        given_rubrics([tmp_path / "nowhere.yaml"])
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(RubricError, match=r"binary.yaml: byte 0 is not UTF-8"):
        given_rubrics([binary])
    one = file(tmp_path, WARMTH)
    with pytest.raises(RubricError, match="name: warmth is another measure's"):
        given_rubrics([one, one])


def test_measures_are_named_among_those_there_are(server: Server, tmp_path: Path) -> None:
    path = file(tmp_path, WARMTH)
    with pytest.raises(PlanError, match="allowed: some of BS, CE, LS, warmth, each once"):
        judged_by(server, tmp_path / "answers.jsonl", path, measures=["BS", "wit"])
    with pytest.raises(PlanError, match="without warmth: name the measures of all --rubric files"):
        judged_by(server, tmp_path / "answers.jsonl", path, measures=["BS"])
    assert server.received == []


def test_a_shipped_file_under_another_name_is_a_rubric_of_ones_own(tmp_path: Path) -> None:
    text = (RUBRICS / "BS.yaml").read_text(encoding="utf-8")
    (own,) = given_rubrics([file(tmp_path, text.replace("name: BS", "name: mine"), "mine.txt")])
    assert own.model_dump() == rubric("BS").model_dump() | {"name": "mine"}
    assert "controls" not in own.model_dump()
