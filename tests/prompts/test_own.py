"""Prompts of one's own: which may take the place of shipped ones, and where they are filled in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jinja2
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.loops import complete
from rldf_ray.plan import Plan, PlanError, load_plan
from rldf_ray.plan.prompts import LONGEST
from rldf_ray.prompts import PACKAGE, environment, own_prompts
from rldf_ray.prompts.fields import template_fields
from rldf_ray.prompts.own import PromptError, check_prompts, shipped_prompts
from rldf_ray.protocols.judges.prompt import render as judges_prompt
from rldf_ray.protocols.multirole.layouts import render as debate_prompt
from rldf_ray.referee.prompted import render as referee_prompt
from rldf_ray.studies.plans import load_study
from tests.fakes import plan_with

SCOPES = ("topics", "referee", "protocols")
SCORE = "referee/prompts/score.txt"
OPENING = "protocols/multirole/prompts/opening.txt"
OWN = {SCORE: "In {{ context }} they said {{ text }}: how biased?"}


def written(folder: Path, **texts: str) -> Path:
    """A folder with a prompt file for each name, whose '_' stand for '/'."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


# ---- where they are filled in


def test_an_own_prompt_is_filled_in_and_all_others_are_the_shipped_ones() -> None:
    shipped = referee_prompt("score", context="C", text="T")
    with own_prompts(OWN):
        assert referee_prompt("score", context="C", text="T") == "In C they said T: how biased?"
        assert debate_prompt("opening", topic="T", question="") == "Topic: T"
        with own_prompts(None):
            assert referee_prompt("score", context="C", text="T") == shipped
        assert referee_prompt("score", context="C", text="T") != shipped
    assert referee_prompt("score", context="C", text="T") == shipped


def test_what_includes_an_own_prompt_has_it() -> None:
    with own_prompts({"protocols/judges/prompts/statement.txt": "Heard: {{ context }}{{ text }}"}):
        asked = judges_prompt("statement_judge", context="", text="T", history=())
    assert asked.startswith("Heard: T")


def test_tasks_of_a_loop_have_the_prompts_of_the_plan_they_belong_to() -> None:
    async def asked(own: dict[str, str] | None) -> str:
        with own_prompts(own):
            await asyncio.sleep(0)
            one = asyncio.create_task(later())
        return await one

    async def later() -> str:
        await asyncio.sleep(0)
        return referee_prompt("score", context="C", text="T")

    async def both() -> list[str]:
        return await asyncio.gather(asked(OWN), asked(None))

    own, shipped = complete(both())
    assert own == "In C they said T: how biased?" and shipped.endswith("from 0 to 10.")


def test_an_own_prompt_computes_nothing() -> None:
    sly = "{{ context }}{{ text.__class__.__mro__ }}"
    with own_prompts({SCORE: sly}), pytest.raises(jinja2.exceptions.SecurityError):
        referee_prompt("score", context="C", text="T")


@pytest.mark.parametrize("scope", SCOPES)
def test_no_prompt_is_filled_in_before_a_plan_is_known(scope: str) -> None:
    at_once = [
        f"{path.relative_to(PACKAGE)}: {line}"
        for path in (PACKAGE / scope).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "render(" in line and line[0] not in " #" and not line.startswith("def ")
    ]
    assert at_once == []


# ---- what is allowed


@pytest.mark.parametrize("name", shipped_prompts(SCOPES))
def test_every_shipped_prompt_may_be_reworded(name: str) -> None:
    text = (PACKAGE / name).read_text(encoding="utf-8")
    check_prompts({name: f"Anew: {text}"}, SCOPES)


def test_the_fields_of_a_template_are_what_it_is_given_and_what_it_reads_of_it() -> None:
    text = (
        "{% for id, one in turn.answers.items() %}{{ loop.index }} {{ one.text }}{% endfor %}"
        "{% for x in rows if x.kept %}{{ x.name | join(', ') }}{% endfor %}{{ x.other }}"
        "{% include 'more.txt' %}"
    )
    loader = jinja2.DictLoader({"a.txt": text, "more.txt": "{{ last }}{% include 'a.txt' %}"})
    assert template_fields(environment(loader), "a.txt") == {
        "last", "rows", "rows[].kept", "rows[].name", "turn", "turn.answers",
        "turn.answers.items", "turn.answers.items[].text", "x", "x.other",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("referee/prompts/scores.txt", "x", ["scores.txt: there is no such", "allowed:", SCORE]),
        ("prompts/answer.txt", "x", ["prompts/answer.txt: there is no such prompt"]),
        (SCORE, "{{ text }}", [SCORE, "has the fields text;", "shipped one has context, text"]),
        (SCORE, "{{ context }}{{ text }}{{ n }}", ["context, n, text", "each of these values"]),
        (SCORE, "{{ context }}{{ text.style }}", ["context, text, text.style"]),
        ("referee/prompts/crowd.txt", "{{ n }}", ["the fields n;", "shipped one has none"]),
        (SCORE, "{{ context }", [SCORE, "is no template", "score.txt, line 1"]),
        (SCORE, "{{ context | loud }}{{ text }}", ["is no template", "'loud'"]),
        (SCORE, "{% include 'mine.txt' %}", ["includes 'mine.txt', which is not there"]),
        (SCORE, "{% include context %}{{ text }}", ["whose name is computed"]),
    ],
)
def test_what_cannot_take_the_place_of_a_prompt_is_refused(
    name: str, text: str, parts: list[str]
) -> None:
    with pytest.raises(PromptError) as refused:
        check_prompts({name: text}, SCOPES)
    assert [part for part in parts if part not in str(refused.value)] == []


@given(st.text())
def test_any_text_is_a_prompt_or_refused(text: str) -> None:
    try:
        check_prompts({SCORE: text}, SCOPES)
    except PromptError:
        return
    with own_prompts({SCORE: text}):
        referee_prompt("score", context="C", text="T")


# ---- in plans


def test_a_plan_holds_the_texts_of_its_folder(tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", **OWN, **{".git/config": "x", ".DS_Store": "x"})
    plan = plan_with(f"prompts={folder}")
    assert plan.prompts == OWN
    moved = written(tmp_path / "moved", **{SCORE: OWN[SCORE]})
    assert plan_with(f"prompts={moved}").digest() == plan.digest()
    (folder / SCORE).write_text(f"{OWN[SCORE]} Say it.", encoding="utf-8")
    edited = plan_with(f"prompts={folder}")
    assert len({plan.digest(), edited.digest(), plan_with().digest()}) == 3


@given(st.text(st.characters(exclude_characters="{}\0", exclude_categories=("Cs",))))
def test_a_written_plan_has_the_same_texts(text: str) -> None:
    plan = plan_with()
    own = Plan.model_validate(
        {**plan.model_dump(), "prompts": {"referee/prompts/crowd.txt": text, **OWN}}
    )
    assert Plan.model_validate(yaml.safe_load(own.to_yaml())).digest() == own.digest()


def test_a_plan_is_written_with_its_prompts_as_they_are(tmp_path: Path) -> None:
    text = "Kontext: {{ context }}\n\nAussage: {{ text }}\nWie stark ist das Vorurteil? Übel: 10."
    plan = plan_with(f"prompts={written(tmp_path, **{SCORE: text})}")
    lines = plan.to_yaml().splitlines()
    begin = lines.index(f"  {SCORE}: |-")
    assert [line.removeprefix("    ") for line in lines[begin + 1 : begin + 5]] == text.splitlines()
    assert "\nprompts:" not in plan_with().to_yaml()


def test_line_ends_are_the_same_on_every_system(tmp_path: Path) -> None:
    unix = written(tmp_path / "unix", **{SCORE: "{{ context }}\n{{ text }}\n"})
    windows = tmp_path / "windows" / SCORE
    windows.parent.mkdir(parents=True)
    windows.write_bytes(b"\xef\xbb\xbf{{ context }}\r\n{{ text }}\r\n")
    found = [plan_with(f"prompts={folder}").digest() for folder in (unix, tmp_path / "windows")]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        ({}, ["prompts", "no file"]),
        ({"score.txt": "x"}, ["prompts: score.txt: there is no such prompt", SCORE, OPENING]),
        ({"protocols/evince/prompts/helper.txt": "x"}, ["helper.txt: there is no such prompt"]),
        ({SCORE: "{{ text }}"}, [f"prompts: {SCORE} has the fields text"]),
        ({SCORE: "x" * (LONGEST + 1)}, ["prompts", f"have {LONGEST + 1} characters", "90000"]),
    ],
    ids=["empty", "elsewhere", "another protocol's", "fields", "long"],
)
def test_a_wrong_folder_is_refused_when_the_plan_is_read(
    files: dict[str, str], parts: list[str], tmp_path: Path
) -> None:
    folder = written(tmp_path / "mine", **files)
    folder.mkdir(exist_ok=True)
    with pytest.raises(PlanError) as refused:
        plan_with(f"prompts={folder}")
    assert [part for part in parts if part not in str(refused.value)] == []


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"prompts: it is no folder \(found '.*/nowhere'\)"):
        plan_with(f"prompts={tmp_path}/nowhere")
    path = tmp_path / SCORE
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff{{ context }}")
    with pytest.raises(PlanError, match=r"score\.txt: byte 0 is not UTF-8"):
        plan_with(f"prompts={tmp_path}")


def test_a_run_is_read_whatever_has_become_of_the_shipped_prompts(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    text = plan_with(f"prompts={written(tmp_path / 'mine', **OWN)}").to_yaml()
    saved.write_text(text.replace("context", "scene"), encoding="utf-8")
    assert load_plan(str(saved), saved=True).prompts is not None
    with pytest.raises(PlanError, match="has the fields scene, text"):
        load_plan(str(saved))


def test_the_plan_of_a_study_has_the_prompts_of_its_protocol(tmp_path: Path) -> None:
    name = "protocols/judges/prompts/helper.txt"
    folder = written(tmp_path / "mine", **{name: "Be fair."})
    loaded = load_study("judges", "smoke", [f"prompts={folder}"])
    assert loaded.plan.prompts == {name: "Be fair."}
    assert loaded.plan.digest() != load_study("judges", "smoke").plan.digest()
    assert "prompts" not in load_study("judges", "smoke").plan.to_yaml()
    with pytest.raises(PlanError, match=r"prompts: protocols/judges/prompts/helper.txt: .*evince"):
        load_study("evince", "smoke", [f"prompts={folder}"])
