"""Which rows there are, and the plans behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.comparison.costs import remarks_on
from rldf_ray.comparison.method import Method, known_methods, methods_of
from rldf_ray.comparison.plans import (
    Learning,
    debated,
    debating,
    gathered,
    own_teacher,
    sampling,
    trained,
)
from rldf_ray.plan import Plan, PlanError, load_plan, presets
from tests.fakes import plan_with

PAPER = (
    "default",
    "instructed",
    "cot",
    "fair_thinking",
    "sft",
    "rlaif",
    "rldf_self",
    "rldf_teacher",
)
CONTROLS = {"cot_instructed", "gold_sft", "rlaif_instructed", "rldf_unheard", "rldf_unmarked"}
ON_REQUEST = {"dpo", "kto", "mabrf", "mabrf_search"}


def names(methods: list[Method]) -> list[str]:
    return [method.name for method in methods]


def source(methods: list[Method], name: str) -> Plan:
    (training,) = [m.training for m in methods if m.name == name]
    assert training is not None
    return training.source


def test_methods_are_found_by_their_files_in_the_papers_order() -> None:
    assert tuple(name for name in known_methods() if name not in CONTROLS | ON_REQUEST) == PAPER


def test_a_plan_without_a_teacher_has_no_teacher_row_unless_it_is_asked_for() -> None:
    assert names(methods_of(plan_with(), None, ())) == list(PAPER[:-1])
    with pytest.raises(PlanError, match="rldf_teacher: no teacher; give --teacher"):
        methods_of(plan_with(), ["rldf_teacher"], ())


def test_every_teacher_is_a_row_of_its_own() -> None:
    found = methods_of(plan_with(), ["rldf_teacher"], ("openai:a", "vllm:/models/b", "openai:a"))
    assert [m.title for m in found] == ["RLDF teacher a", "RLDF teacher b"]
    assert len(set(names(found))) == 2


def test_teachers_of_one_last_name_are_told_apart() -> None:
    teachers = ("vllm:/a/chat", "vllm:/b/chat", "openai:c")
    found = methods_of(plan_with(), ["rldf_teacher"], teachers)
    assert [method.title for method in found] == [
        "RLDF teacher vllm:/a/chat",
        "RLDF teacher vllm:/b/chat",
        "RLDF teacher c",
    ]


def test_a_teacher_that_a_run_trained_is_known_by_its_run() -> None:
    teachers = ("vllm:runs/fair/ppo/model", "vllm:/runs/fair/model", "openai:org/name-1B/")
    found = methods_of(plan_with(), ["rldf_teacher"], teachers)
    assert [method.title for method in found] == [
        "RLDF teacher fair/ppo/model",
        "RLDF teacher runs/fair/model",
        "RLDF teacher name-1B",
    ]


def titles(*overrides: str) -> dict[str, str]:
    found = methods_of(plan_with(*overrides), ["gold_sft", "dpo", "kto", "rldf_teacher"], ())
    return {method.name.partition("-")[0]: method.title for method in found}


def test_rows_whose_data_are_another_protocols_say_so() -> None:
    seats = "debate.seats=[openai:a, openai:b, openai:c]"
    assert titles(seats) == {
        "gold_sft": "SFT on right answers",
        "dpo": "DPO on RLDF's pairs",
        "kto": "KTO on RLDF's pairs",
        "rldf_teacher": "RLDF, a model for each seat",
    }
    assert titles(seats, "debate.protocol=evince") == {
        "gold_sft": "SFT on right answers, data from evince",
        "dpo": "DPO on its pairs, data from evince",
        "kto": "KTO on its pairs, data from evince",
        "rldf_teacher": "RLDF, a model for each seat, data from evince",
    }


@pytest.mark.parametrize("other", ["openai:x-y", "openai:x:y", "openai:x/y/"])
def test_teachers_whom_files_would_not_tell_apart_are_refused(other: str) -> None:
    with pytest.raises(PlanError, match=rf"openai:x/y and {other}: .* both openai-x-y"):
        methods_of(plan_with(), ["rldf_teacher"], ("openai:x/y", other))


def test_a_method_that_is_named_twice_is_one_row() -> None:
    assert len(methods_of(plan_with(), ["cot", "cot"], ())) == 1


def test_the_plans_own_teacher_is_the_default() -> None:
    assert names(methods_of(plan_with("teacher=openai:a"), None, ()))[-1] == "rldf_teacher-openai-a"


@pytest.mark.parametrize("teacher", ["gpt-4", "vllm:", "scripted:soon"])
def test_a_teacher_that_is_no_speaker_is_refused(teacher: str) -> None:
    with pytest.raises(PlanError, match=f"--teacher {teacher}: "):
        methods_of(plan_with(), None, (teacher,))


def test_a_teacher_that_no_method_debates_with_is_refused() -> None:
    with pytest.raises(PlanError, match=r"--teacher openai:a: .*add --method rldf_teacher"):
        methods_of(plan_with(), ["default", "rldf_self"], ("openai:a",))


def test_the_plans_own_referee_judges_whoever_debates() -> None:
    plan = plan_with("teacher=openai:a", "debate.model=openai:b")
    found = methods_of(plan, ["sft", "rlaif"], ())
    assert str(plan.speaker_of("referee")) == "openai:a"
    assert {str(m.training.source.speaker_of("referee")) for m in found if m.training} == {
        "openai:a"
    }


def test_an_unknown_method_is_refused_with_those_there_are() -> None:
    with pytest.raises(PlanError, match=r"--method grpo: allowed are default, instructed, cot"):
        methods_of(plan_with(), ["default", "grpo"], ())


def test_all_sources_have_the_same_topics_and_debates_of_the_same_size() -> None:
    plan = plan_with("teacher=openai:a")
    found = methods_of(plan, None, ("openai:a", "openai:b"))
    sources = [m.training.source for m in found if m.training]
    assert {str(s.speaker_of("topics")) for s in sources} == {"openai:a"}
    assert {(s.topics, s.seed, s.evaluate, s.engines) for s in sources} == {
        (sources[0].topics, plan.seed, plan.evaluate, plan.engines)
    }
    sizes = {(s.debate.debates, s.debate.rounds, s.debate.debaters) for s in sources}
    assert sizes == {(6, 2, 3)}


def test_who_speaks_and_who_referees() -> None:
    found = methods_of(plan_with("teacher=openai:a"), None, ("openai:a", "openai:b"))
    speaks = {
        m.name: (str(s.speaker_of("debate")), str(s.speaker_of("referee")))
        for m in found
        if m.training and (s := m.training.source)
    }
    assert speaks == {
        "sft": ("openai:a", "openai:a"),
        "rlaif": ("vllm:embedded", "openai:a"),
        "rldf_self": ("vllm:embedded", "vllm:embedded"),
        "rldf_teacher-openai-a": ("openai:a", "openai:a"),
        "rldf_teacher-openai-b": ("openai:b", "openai:b"),
    }


def test_a_referee_that_the_plan_names_judges_for_all() -> None:
    found = methods_of(plan_with("referee.model=openai:judge"), None, ("openai:a",))
    assert {str(m.training.source.speaker_of("referee")) for m in found if m.training} == {
        "openai:judge"
    }


def test_sft_is_stage_one_of_the_plans_own_mode() -> None:
    found = methods_of(plan_with(), None, ())
    assert source(found, "sft") == source(found, "rldf_self")


def test_a_debater_of_its_own_is_a_teacher() -> None:
    plan = plan_with("debate.model=openai:a")
    assert own_teacher(plan) == "openai:a" and own_teacher(plan_with()) is None
    assert str(debating(plan, None).speaker_of("debate")) == "vllm:embedded"


def test_samples_have_no_identity_to_pair_by() -> None:
    assert sampling(plan_with("data.pairing=same_role")).data.pairing == "same_topic"


def test_training_differs_by_seed_and_number_of_pairs_alone() -> None:
    plan = debating(plan_with("reward.epochs=2", "ppo.episodes=64"), None)
    other = trained(plan, "ppo", 7, 5)
    assert (other.seed, other.data.max_pairs) == (7, 5)
    assert other.model_copy(update={"seed": plan.seed, "data": plan.data}) == plan


@pytest.mark.parametrize(
    ("stage", "later"),
    [("sft", ("reward.epochs=2", "ppo.episodes=64")), ("reward", ("ppo.episodes=64",))],
)
def test_what_only_later_stages_read_does_not_change_a_plan(
    stage: Learning, later: tuple[str, ...]
) -> None:
    pairs = None if stage == "sft" else 5
    assert trained(plan_with(*later), stage, 7, pairs) == trained(plan_with(), stage, 7, pairs)


@pytest.mark.parametrize(
    ("stage", "read"),
    [("sft", "sft.epochs=2"), ("reward", "reward.epochs=2"), ("ppo", "ppo.episodes=64")],
)
def test_what_a_stage_reads_changes_its_plan(stage: Learning, read: str) -> None:
    assert trained(plan_with(read), stage, 7, 5) != trained(plan_with(), stage, 7, 5)


def remarks(*overrides: str) -> set[tuple[str, ...]]:
    methods = methods_of(plan_with(*overrides), ["sft"], ())
    return {remarks_on(m.training) for m in methods if m.training is not None}


def test_who_judges_whom_is_told_by_the_model_not_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    same = f"referee.model=vllm:{tmp_path}/../{tmp_path.name}/m/"
    assert remarks(f"model={tmp_path}/m", same) == {("its judge is the model itself",)}
    served = ("teacher=openai:big", "referee.model=vllm:big")
    assert remarks(*served) == {("teacher and referee are one model",)}
    assert remarks("teacher=openai:big", "referee.model=vllm:other") == {()}


def test_what_a_referee_is_fitted_from_is_told() -> None:
    fitted = "referee.kind=trained"
    assert remarks(fitted) == {("its referee is fitted from the model itself",)}
    teacher = ("teacher=vllm:big", "referee.fit.model=big")
    assert remarks(fitted, *teacher) == {("its referee is fitted from its teacher",)}


@pytest.mark.parametrize("preset", presets())
def test_every_run_of_a_comparison_has_a_plan_that_can_be_given_again(
    preset: str, tmp_path: Path
) -> None:
    assert_given_again(load_plan(preset), tmp_path / "plan.yaml")


def test_batches_that_many_workers_share_are_a_plan_of_every_run(tmp_path: Path) -> None:
    batches = [f"{section}={{batch_size: 12, micro_batch: 4}}" for section in ("sft", "reward")]
    ppo = "ppo={batch_size: 12, micro_batch: 4, rollout_batch: 24, episodes: 48}"
    assert_given_again(plan_with("train.workers=3", *batches, ppo), tmp_path / "plan.yaml")


def assert_given_again(plan: Plan, written: Path) -> None:
    """What the runs of a comparison write as their plans can be read, and is the same."""
    source = sampling(plan)
    for one in (debated(source), gathered(source), trained(source, "sft", 1, None)):
        written.write_text(one.to_yaml(), encoding="utf-8")
        assert load_plan(str(written)) == one
