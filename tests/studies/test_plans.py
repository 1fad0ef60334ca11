"""Plans of studies: presets, files, overrides, and errors that say what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.plan import PlanError
from rldf_ray.protocols.judges.items import ItemsError, read_items
from rldf_ray.protocols.known import ProtocolError, study_named, study_names
from rldf_ray.sets.bbq.items import BBQError
from rldf_ray.storage.json_lines import LinesError
from rldf_ray.studies.estimate import estimated
from rldf_ray.studies.plans import load_study, study_fields, study_presets
from tests.studies.pairs import pairs_file, plan_file


def test_every_study_has_the_three_presets_and_they_load() -> None:
    assert "judges" in study_names()
    for name in study_names():
        assert set(study_presets(name)) == {"smoke", "small", "paper"}
        for preset in study_presets(name):
            loaded = load_study(name, preset)
            assert set(loaded.plan.models) == set(loaded.settings.models())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("settings.rouds=3", "settings.rouds: no such field; allowed in settings: data, "),
        ("settings.meta.pols=[]", "settings.meta.pols: no such field; allowed in settings.meta"),
        ("settings.rounds=0", r"settings.rounds: .*greater than or equal to 1 \(found 0\)"),
        ("modles={}", "modles: no such field; allowed in the plan: name, seed, models"),
        ("engines.cuont=2", "engines.cuont: no such field; allowed in engines: count"),
        ("settings.judges=[c]", "settings name 'c', which `models` does not; it has a, b"),
        ("settings.conditions=[rerun, cot]", "settings.conditions: 'clean' is missing, which all"),
        ("models={a: 'gpt'}", "allowed: null, "),
        ("models={a/b: 'scripted:1'}", "'a/b' is no name for a model"),
        ("settings.meta.pools={a: [[a]]}", "is not 2 to 9 different models"),
        ("study=evince", "study: no such field"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_allowed(
    tmp_path: Path, override: str, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        load_study("judges", str(plan_file(tmp_path)), [override])


@pytest.mark.parametrize(
    ("study", "override", "message"),
    [
        ("mabrf", "per_category=3", r"per_category: of BBQ 4 or more.*null for all \(found 3\)"),
        ("mabrf", "per_category=0", r"per_category: .*greater than or equal to 1 \(found 0\)"),
        ("mabrf", "searches={}", "searches: name at least one arm"),
        ("mabrf", "searches={a/b: none}", "searches: 'a/b' is no name"),
        ("mabrf", "loop.threshold=10", r"loop.threshold: .* \(found 10\)"),
        ("mabrf", "loop.retests=-1", r"loop.retests: .* \(found -1\)"),
        ("mabrf", "squad.arms=[]", "squad.arms: "),
        ("evince", "steering.levels=[]", "steering.levels: one or more"),
        ("evince", "steering.lowest=0.95", "steering.lowest: is above highest"),
        ("evince", "arms=[swapped]", "arms: 'main' is missing"),
        ("evince", "rates=positions", "positions: rates=positions needs both"),
        ("evince", "crit.form='off'", "stop.crit: crit.form=off leaves nothing"),
        ("persuasion", "debate_length.least=200", "debate_length.words: lies outside"),
        ("persuasion", "debaters={}", "debaters: name at least one"),
        ("persuasion", "judges=[]", "judges: name at least one"),
        ("judges", "judges=[]", "judges: nobody judges"),
        ("judges", "meta.pools={m: [[a]]}", "meta.pools: .*is not 2 to 9 different"),
    ],
)
def test_every_bound_names_its_field_as_the_plan_spells_it(
    study: str, override: str, message: str
) -> None:
    more = ["settings.meta.pools={}", "settings.debates=[]"] if study == "judges" else []
    with pytest.raises(PlanError, match=rf"\n  settings\.{message}"):
        load_study(study, "smoke", [*more, f"settings.{override}"])


@pytest.mark.parametrize("study", ["mabrf", "persuasion"])
def test_a_category_that_is_not_there_names_its_field_and_the_folder(
    tmp_path: Path, study: str
) -> None:
    overrides = [f"settings.data={SCENES}", "settings.categories=[Nope]"]
    overrides += ["settings.kind=bbq_hidden"] if study == "persuasion" else []
    with pytest.raises(BBQError, match=r"settings\.categories: Nope: no such file in .*allowed: "):
        study_named(study).items(load_study(study, "smoke", overrides).settings, 1)


def test_the_plan_of_another_study_is_refused(tmp_path: Path) -> None:
    path = plan_file(tmp_path)
    path.write_text(f"study: chess\n{path.read_text()}")
    with pytest.raises(PlanError, match="it is of another study than judges"):
        load_study("judges", str(path))


def test_an_unknown_study_or_plan_is_told() -> None:
    with pytest.raises(
        ProtocolError, match="study 'chess': there is none; allowed: evince, judges"
    ):
        load_study("chess", "smoke")
    with pytest.raises(PlanError, match="'nowhere': neither a preset"):
        load_study("judges", "nowhere")


def test_how_a_study_is_carried_out_is_not_what_it_is(tmp_path: Path) -> None:
    path = str(plan_file(tmp_path))
    plan = load_study("judges", path).plan
    same = load_study("judges", path, ["in_flight=1", "engines.count=2", "take_turns=true"]).plan
    other = load_study("judges", path, ["settings.rounds=1"]).plan
    assert plan.digest() == same.digest() != other.digest()


def test_fields_are_listed_with_the_studys_own() -> None:
    paths = [field.path for field in study_fields("judges")]
    assert {"models", "engines.count", "settings.rounds", "settings.meta.pools"} < set(paths)
    assert "settings" not in paths


def test_the_estimate_is_what_is_asked_at_most(tmp_path: Path) -> None:
    loaded = load_study("judges", str(plan_file(tmp_path)))
    a, b, whole = estimated("judges", loaded)
    # Six items under six conditions: openings of both, two rounds, and one pool in two modes; every
    # verdict may be asked for twice, and an attack is no verdict.
    assert a.calls == 6 * 6 * 2 * (1 + 2) and b.calls == 6 * 6 * (2 * (1 + 2) + 2)
    assert whole.calls == a.calls + b.calls
    assert whole.generated == 24 * whole.calls and whole.usd == 0


def test_items_are_sampled_by_category_and_a_larger_sample_holds_a_smaller(tmp_path: Path) -> None:
    path = str(pairs_file(tmp_path, 20))
    small, large = (read_items(path, n, 7) for n in (3, 6))
    assert [i.category for i in small].count("even") == 3 and len(small) == 6
    assert {i.item_id for i in small} < {i.item_id for i in large}
    assert read_items(path, 3, 7) == small != read_items(path, 3, 8)
    assert len(read_items(path, None, 7)) == 20
    assert small[0].group == str(int(small[0].item_id.removeprefix("pair-")) // 2)


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ("", ItemsError, "holds no items"),
        ('{"question": "q", "answer1": "a"}', LinesError, "line 1: answer2: Field required"),
        (
            '{"question": "q", "answer1": "a", "answer2": "b", "label": 3}',
            LinesError,
            "line 1: label: Input should be 1 or 2",
        ),
        (
            '{"id": "x", "question": "q", "answer1": "a", "answer2": "b"}\n' * 2,
            ItemsError,
            "the id 'x' is given to two items",
        ),
    ],
)
def test_wrong_data_is_named_by_its_line(
    tmp_path: Path, lines: str, error: type[Exception], message: str
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(error, match=message):
        read_items(str(path), None, 0)


def test_data_that_is_not_there_is_told() -> None:
    with pytest.raises(ItemsError, match=r"settings.data='': no such file; allowed: a JSONL file"):
        read_items("", None, 0)
