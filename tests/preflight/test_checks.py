"""What is missing is said before anything expensive starts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rldf_ray.engines.checks import PreflightError, check_model
from rldf_ray.models.chat_template import chat_template
from rldf_ray.plan import load_plan
from rldf_ray.preflight import checks as preflight
from rldf_ray.preflight.checks import check_inputs, check_searches
from rldf_ray.preflight.disk import check_disk
from rldf_ray.preflight.doctor import checked
from rldf_ray.preflight.models import check_templates, parameters_of


@pytest.fixture(autouse=True)
def model_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    write_model(folder)
    return folder


def write_model(folder: Path, **config: object) -> None:
    """A model's folder with the embedded model's tokenizer, and no weights that say anything."""
    chat_template("embedded").tokenizer.save_pretrained(folder)
    described = {"model_type": "llama", "dtype": "float32", "max_position_embeddings": 8192}
    (folder / "config.json").write_text(json.dumps(described | config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"0" * 4096)


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine has free does not decide a test."""
    with_room(monkeypatch, 1000)


def with_room(monkeypatch: pytest.MonkeyPatch, gib: float) -> None:
    """A disk with so much free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=gib * 2**30))


def plan_of(model: Path, *overrides: str):  # type: ignore[no-untyped-def]
    return load_plan("smoke", [f"model={model}", *overrides])


def test_a_good_plan_passes(model_folder: Path, tmp_path: Path) -> None:
    check_inputs(plan_of(model_folder), tmp_path / "out")


def test_a_hub_cache_that_cannot_be_written_is_named_with_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("no folder", encoding="utf-8")
    cache = tmp_path / "home/hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    plan = load_plan("smoke", ["model=some/model"])
    with pytest.raises(PreflightError, match=rf"some/model.*{cache} cannot be.*set HF_HOME to"):
        check_model(plan)
    # One that is there already is read.
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: "config.json")
    assert check_model(plan) == "some/model"


def test_a_name_that_the_hub_cannot_have_is_refused() -> None:
    with pytest.raises(PreflightError, match="no folder, and no hub id"):
        check_model(load_plan("smoke", ["model=a/b/c"]))


def test_parameters_are_counted_from_the_weights(model_folder: Path) -> None:
    assert parameters_of(str(model_folder)) == 1024


def test_parameters_are_read_off_weights_of_any_kind_and_off_names(model_folder: Path) -> None:
    (model_folder / "model.safetensors").rename(model_folder / "pytorch_model.bin")
    assert parameters_of(str(model_folder)) == 1024
    assert parameters_of("HuggingFaceTB/SmolLM2-135M-Instruct") == 135e6
    assert parameters_of("Qwen/Qwen1.5-1.8B-Chat") == 1.8e9
    assert parameters_of("someone/3mice") == 7e9


def test_a_base_model_is_refused_before_the_first_stage(model_folder: Path, tmp_path: Path) -> None:
    (model_folder / "chat_template.jinja").unlink()
    with pytest.raises(PreflightError, match=r"has no chat template.*instructions"):
        check_inputs(plan_of(model_folder), tmp_path / "out")


def test_a_context_shorter_than_the_engines_is_said_with_both_numbers(
    model_folder: Path, tmp_path: Path
) -> None:
    write_model(model_folder, max_position_embeddings=512)
    plan = plan_of(model_folder, "engines.max_model_len=1024")
    with pytest.raises(PreflightError, match=r"max_model_len=1024: .* 512 tokens"):
        check_inputs(plan, tmp_path / "out")


def test_a_model_that_is_fitted_as_the_referee_reads_what_it_is_fitted_to_alone(
    model_folder: Path, tmp_path: Path
) -> None:
    """It is on no engine, so the engines' context is not its own."""
    short = tmp_path / "short"
    shutil.copytree(model_folder, short)
    write_model(short, max_position_embeddings=512)
    fitted = ["engines.max_model_len=1024", "referee.kind=trained", f"referee.fit.model={short}"]
    check_templates(plan_of(model_folder, *fitted))
    with pytest.raises(PreflightError, match=r"referee\.fit\.max_length=600: .* 512 tokens"):
        check_templates(plan_of(model_folder, *fitted, "referee.fit.max_length=600"))


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(PreflightError, match=r"embeded.*did you mean 'embedded'"):
        check_inputs(load_plan("smoke", ["model=embeded"]), tmp_path / "out")


def test_doctor_describes_the_template(model_folder: Path) -> None:
    found = check_templates(plan_of(model_folder))
    assert found.startswith(f"{model_folder}: an answer ends with")


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("model=/nowhere/model", "/nowhere/model"),
        ("teacher=vllm:/nowhere/teacher", "/nowhere/teacher"),
        ("debate.protocol=duel", "debate.protocol=duel: .*multirole"),
        ("bias_types=[shoes]", "shoes"),
        ("data.language=xx", "data.language='xx'"),
        ("evaluate.bbq=/nowhere/bbq", "/nowhere/bbq"),
    ],
)
def test_a_missing_input_is_named(
    model_folder: Path, tmp_path: Path, override: str, named: str
) -> None:
    with pytest.raises(PreflightError, match=named):
        check_inputs(plan_of(model_folder, override), tmp_path / "out")


def searching(model: Path, what: str):  # type: ignore[no-untyped-def]
    """A plan whose source searches."""
    settings = f'{{searches: {{without: none, web: "{what}"}}}}'
    return plan_of(model, f"debate={{protocol: mabrf, settings: {settings}}}")


def test_a_search_that_cannot_be_opened_is_named_before_topics_are_written(
    model_folder: Path, tmp_path: Path
) -> None:
    wrong = searching(model_folder, "local:/nowhere/typo")
    with pytest.raises(PreflightError, match=r"debate\.settings\.searches\.web: .*/nowhere/typo"):
        check_inputs(wrong, tmp_path / "out")
    # Of what has been held, nothing is searched again.
    check_inputs(wrong, tmp_path / "out", ("data", "sft"))
    found = checked("searches", lambda: check_searches(wrong))
    assert not found.ok and "debate.settings.searches.web" in found.found
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/one.txt").write_text("A text about judges.", encoding="utf-8")
    right = searching(model_folder, f"local:{tmp_path / 'texts'}")
    check_inputs(right, tmp_path / "out")
    assert check_searches(right) == "web: local"
    assert check_searches(plan_of(model_folder)) == "nothing is searched"


def test_a_missing_key_names_its_variable(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(PreflightError, match="OPENAI_API_KEY"):
        check_inputs(plan_of(model_folder, "teacher=openai:some-model"), tmp_path / "out")


def test_a_key_is_asked_for_by_stages_that_ask_the_endpoint_alone(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    plan = plan_of(model_folder, "teacher=openai:some-model")
    check_inputs(plan, tmp_path / "out", ("data",))
    check_inputs(plan, tmp_path / "out", ("sft", "eval"))
    with pytest.raises(PreflightError, match="OPENAI_API_KEY"):
        check_inputs(plan, tmp_path / "out", ("debates", "data"))


def test_checkpoints_need_room_for_weights_and_optimizers(
    model_folder: Path, tmp_path: Path
) -> None:
    with (model_folder / "model.safetensors").open("wb") as weights:
        weights.truncate(2 * 2**30)  # 2**29 parameters of float32: 2 GiB of weights, 8 in all
    kept = ("train.checkpoint_every=1", "train.checkpoint_keep=2", "train.lora.rank=0")

    def needed(*stages: str, critic: bool = True, overrides: tuple[str, ...] = kept) -> float:
        answers = () if critic else ("ppo.answers_per_prompt=2",)
        plan = plan_of(model_folder, *overrides, *answers)
        return float(check_disk(plan, tmp_path, stages).split()[-2])

    none = needed("sft", overrides=("train.checkpoint_every=null",))
    assert needed("sft") - none == 3 * 8
    assert needed("sft", "reward") - needed("sft") == 2.0
    without = needed("ppo", overrides=("train.checkpoint_every=null",))
    assert needed("ppo") - without == 4 * 2 * 8
    assert needed("ppo", critic=False) - without == 4 * 8
    # A model with adapters in bfloat16 is half of one in float32, and those are small.
    assert needed("sft", overrides=(*kept, "train.lora.rank=8")) == 1.5


def test_what_is_removed_first_makes_room(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (model_folder / "model.safetensors").open("wb") as weights:
        weights.truncate(2 * 2**30)
    with_room(monkeypatch, 1)
    plan = plan_of(model_folder)
    with pytest.raises(PreflightError, match=r"1\.0 GiB free, 2\.5 are written"):
        check_inputs(plan, tmp_path / "out", ("sft",))
    check_inputs(plan, tmp_path / "out", ("sft",), freed_gib=1.9)


def test_a_full_disk_is_named_with_what_is_needed(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_room(monkeypatch, 2**-10)
    with pytest.raises(PreflightError, match=r"0\.0 GiB free, 0\.5 are written at most"):
        check_inputs(plan_of(model_folder), tmp_path / "out")


def test_adapters_of_bfloat16_take_half_the_room(model_folder: Path, tmp_path: Path) -> None:
    """What is written has the base's precision; trained whole, bfloat16 keeps float32 copies."""
    with (model_folder / "model.safetensors").open("wb") as weights:
        weights.truncate(2 * 2**30)  # 2**29 parameters of float32; the file is sparse
    bfloat16 = ("referee.kind=prompted", "train.dtype=bfloat16", "ppo.dtype=bfloat16")
    whole = check_disk(plan_of(model_folder, *bfloat16), tmp_path)
    adapters = check_disk(plan_of(model_folder, *bfloat16, "train.lora.rank=8"), tmp_path)
    assert whole.endswith(" 10.5 needed") and adapters.endswith(" 5.5 needed")


def test_a_run_of_some_stages_needs_room_for_their_models_alone(
    model_folder: Path, tmp_path: Path
) -> None:
    with (model_folder / "model.safetensors").open("wb") as weights:
        weights.truncate(2 * 2**30)
    plan = plan_of(model_folder)
    needed = {
        stages: check_disk(plan, tmp_path, stages).partition(", ")[2]
        for stages in [("data", "sft"), ("reward",), ("ppo",), ("topics",)]
    }
    assert list(needed.values()) == ["2.5 needed", "2.5 needed", "6.5 needed", "0.5 needed"]


def test_a_referee_that_is_fitted_needs_room_as_well(model_folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    write_model(base, dtype="bfloat16")
    with (base / "model.safetensors").open("wb") as weights:
        weights.truncate(2**30)  # 2**29 parameters; what is fitted is written in float32
    named = f"referee.fit.model={base}"
    prompted = plan_of(model_folder, named, "referee.kind=prompted")
    fitted = plan_of(model_folder, named, "referee.kind=trained")
    assert check_disk(fitted, tmp_path).endswith(" 2.5 needed")
    assert check_disk(fitted, tmp_path, ["debates"]).endswith(" 0.5 needed")
    assert check_disk(prompted, tmp_path).endswith(" 0.5 needed")


def test_statements_of_a_bias_type_that_has_none_are_refused_by_name(model_folder: Path) -> None:
    plan = plan_of(model_folder, "referee.kind=trained", "referee.fit.bias_types=[age, agge]")
    with pytest.raises(preflight.PreflightError, match=r"no labelled statements of agge; allowed"):
        preflight.check_referee(plan)


def test_a_source_needs_no_referee_that_could_be_fitted(model_folder: Path) -> None:
    unfit = ("referee.kind=trained", "referee.fit.bias_types=[agge]", "debate.protocol=evince")
    source = plan_of(model_folder, *unfit)
    assert preflight.check_referee(source) == "nobody: evince has preferences of its own"


def test_where_every_answer_is_matched_nobody_referees(model_folder: Path) -> None:
    matched = ("debate.answers=chosen", "referee.judgements=matched")
    scenes = plan_of(model_folder, *matched, "topics.judgement_share=1.0", "referee.kind=prompted")
    assert "nobody" in preflight.check_referee(scenes)
    both = plan_of(model_folder, *matched, "topics.judgement_share=0.5", "referee.kind=prompted")
    assert "nobody" not in preflight.check_referee(both)
