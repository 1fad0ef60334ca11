"""model/ is the policy that PPO left, whatever the clock said, with a card that the hub reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard

from rldf_ray.evaluate.bbq.hub import CATEGORIES
from rldf_ray.evaluate.bbq.run_models import load_items, summarise
from rldf_ray.plan import Plan, load_plan
from rldf_ray.report.model_card import export_model, model_card
from rldf_ray.sets.bbq.items import BBQSet
from rldf_ray.storage.hub_card import check_card
from rldf_ray.storage.run_folder import RunFolder

AHEAD_S = 4_000_000_000


def trained(folder: RunFolder, weights: str) -> None:
    folder.write_text("ppo/model/config.json", "{}")
    folder.write_text("ppo/model/model.safetensors", weights)
    folder.finish("ppo", "key", {"history": [{"step": 1, "reward": len(weights)}]})


def exported(folder: RunFolder) -> str:
    export_model(folder, load_plan("smoke"))
    return (folder.root / "model/model.safetensors").read_text(encoding="utf-8")


def test_the_policy_of_another_training_takes_the_place_of_one_written_in_the_future(
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "old")
    assert exported(folder) == "old"
    os.utime(tmp_path / "model/README.md", (AHEAD_S, AHEAD_S))
    trained(folder, "newer")
    assert exported(folder) == "newer"


def test_what_was_exported_is_not_exported_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "old")
    exported(folder)
    (tmp_path / "model/model.safetensors").write_text("as people left it", encoding="utf-8")
    os.utime(tmp_path / "model/README.md", (0, 0))
    assert exported(folder) == "as people left it"


def test_a_card_that_an_earlier_version_or_a_kill_left_is_no_sign(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    folder.write_text("model/README.md", "a card")
    folder.write_text("model/model.safetensors", "old")
    assert exported(folder) == "new"


def evaluated(
    folder: RunFolder, plan: Plan, bbq: str | None = None, categories: Sequence[str] = CATEGORIES
) -> Plan:
    """A finished evaluation: the base always takes the stereotyped option, the policy is right.

    Args:
        bbq: the folder of items it was done on.
        categories: what the items' categories are called there.
    """
    items = _renamed(load_items(plan), categories)
    chosen = {
        "base": [
            item.unknown if item.target_loc is None else item.target_loc for item in items.items
        ],
        "policy": [item.label for item in items.items],
    }
    scores = {
        name: [tuple(0.0 if i == option else -1.0 for i in range(3)) for option in options]
        for name, options in chosen.items()
    }
    folder.finish(
        "eval",
        "key",
        {
            "evaluation": {
                "set": "a set",
                "bbq": bbq,
                "why_no_bias_scores": None,
                "models": {
                    name: {"multiple_choice": summarise(items, given, 0), "reward": None}
                    for name, given in scores.items()
                },
                "accuracy_change": {},
            }
        },
    )
    return plan


def _renamed(items: BBQSet, categories: Sequence[str]) -> BBQSet:
    names = sorted({item.category for item in items.items})
    other = dict(zip(names, categories, strict=False))
    return replace(items, items=tuple(replace(i, category=other[i.category]) for i in items.items))


def read_back(folder: RunFolder) -> Any:
    card = ModelCard.load(folder.root / "model/README.md")
    check_card(card, "the card")
    return card


def test_the_card_says_what_the_model_began_as_and_under_which_licence(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    exported(folder)
    card = read_back(folder)
    assert card.data.to_dict() == {
        "base_model": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "language": "en",
        "library_name": "transformers",
        "license": "apache-2.0",
        "pipeline_tag": "text-generation",
        "tags": ["rldf", "debiasing"],
    }
    assert "The licence (apache-2.0) is that of HuggingFaceTB/SmolLM2-135M-Instruct." in card.text
    assert "The models were not evaluated." in card.text


def test_a_licence_that_is_not_known_is_left_out_and_said(tmp_path: Path) -> None:
    folder, base = RunFolder(tmp_path / "run"), tmp_path / "secret" / "mine"
    base.mkdir(parents=True)
    trained(folder, "new")
    plan = load_plan("smoke", [f"model={base}"])
    card = model_card(folder, plan, "model")
    assert "license" not in card.data.to_dict() and "base_model" not in card.data.to_dict()
    assert "No licence is given here: none is known of mine" in card.text
    assert "secret" not in str(card)


def test_results_on_bbq_are_metadata_and_a_table(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    plan = evaluated(folder, load_plan("smoke"), bbq="/data/BBQ")
    export_model(folder, plan)
    card = read_back(folder)
    results = {result.metric_name: result for result in card.data.eval_results}
    # Where it cannot be known the policy always says so: there is no answer to take a bias score
    # from, so it is left out. Half of the right answers elsewhere are the stereotyped ones.
    assert {name: result.metric_value for name, result in results.items()} == {
        "Accuracy, ambiguous contexts": 1.0,
        "Accuracy, disambiguated contexts": 1.0,
        "Bias score, disambiguated contexts (s_DIS)": 0.0,
    }
    for result in results.values():
        assert (result.dataset_name, result.dataset_type) == ("BBQ (Parrish et al. 2022)", "bbq")
        assert result.dataset_args == {"items": 40, "folder": "BBQ"}
    assert card.data.model_name == plan.name
    (row,) = [line for line in card.text.splitlines() if line.startswith("| this model")]
    assert row.split(" | ")[3] == "none"
    (row,) = [line for line in card.text.splitlines() if line.startswith("| the model it began")]
    assert row.split(" | ")[1].startswith("0.000") and row.split(" | ")[3].startswith("1.000")


def test_results_on_items_of_our_own_are_no_results_on_bbq(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    export_model(folder, evaluated(folder, load_plan("smoke")))
    card = read_back(folder)
    assert card.data.eval_results is None
    assert "| this model | 1.000" in card.text and "a set, with 95 % intervals" in card.text


def results_of(folder: RunFolder, plan: Plan) -> list[Any]:
    return model_card(folder, plan, "model").data.eval_results or []


def test_results_name_the_folder_that_was_evaluated_and_not_the_plan_s(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    plan = load_plan("smoke")
    evaluated(folder, plan, bbq="/data/OTHER")
    for own in (plan, load_plan("smoke", ["evaluate.bbq=/data/OWN"])):
        assert {result.dataset_args["folder"] for result in results_of(folder, own)} == {"OTHER"}
    evaluated(folder, plan)
    assert results_of(folder, load_plan("smoke", ["evaluate.bbq=/data/OWN"])) == []


def test_items_in_bbq_s_format_are_not_called_bbq(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    plan = evaluated(folder, load_plan("smoke"), "/data/ours", ["Age", "Ours", "SES", "A", "B"])
    for result in results_of(folder, plan):
        assert (result.dataset_type, result.dataset_name) == ("ours", "ours, in BBQ's format")


def test_of_an_earlier_evaluation_the_folder_is_known_by_the_set_s_name(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    plan = evaluated(folder, load_plan("smoke"))
    manifest = folder.manifest("eval")
    assert manifest is not None
    del manifest["evaluation"]["bbq"]
    manifest["evaluation"]["set"] = "BBQ (theirs)"
    folder.write_json("stages/eval.json", manifest)
    assert {r.dataset_args["folder"] for r in results_of(folder, plan)} == {"theirs"}


def test_the_card_is_written_again_for_an_evaluation_and_not_without_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    exported(folder)
    path = tmp_path / "model/README.md"
    path.write_text(path.read_text(encoding="utf-8") + "and by hand", encoding="utf-8")
    assert exported(folder) == "new"
    assert path.read_text(encoding="utf-8").endswith("and by hand")
    evaluated(folder, load_plan("smoke"))
    exported(folder)
    assert "| this model | 1.000" in path.read_text(encoding="utf-8")


def test_the_card_of_an_adapter_names_its_library(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    trained(folder, "new")
    folder.write_text("ppo/adapter/adapter_model.safetensors", "weights")
    card = model_card(folder, load_plan("smoke"), "adapter")
    assert card.data.library_name == "peft"
    assert "- adapter_model.safetensors: sha256" in card.text and "AutoPeftModel" in card.text
