"""Low-rank adapters (Hu et al. 2021, arXiv:2106.09685): W x + (alpha / rank) B A x, W frozen.

Every trainer leaves its adapter in `adapter/` and, beside it, the same model merged in `model/`:
an ordinary Hugging Face folder, which evaluation, engines and other programs load.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldf_ray.cluster.placement import Placement
from rldf_ray.plan import LoraSection

ADAPTER = "adapter"


def lora_config(section: LoraSection, layers: int, *, scores: bool) -> Any:
    """PEFT's configuration of a plan; None where all parameters are trained.

    Args:
        layers: how many the model has.
        scores: for a model with a score head, which is trained whole beside the adapter.
    """
    from peft import LoraConfig, TaskType

    if not section.rank:
        return None
    upper = max(1, round(layers * section.layers))
    return LoraConfig(
        r=section.rank,
        lora_alpha=section.alpha,
        target_modules=list(section.targets),
        layers_to_transform=list(range(layers - upper, layers)) if upper < layers else None,
        lora_dropout=0.0,
        task_type=TaskType.SEQ_CLS if scores else TaskType.CAUSAL_LM,
        modules_to_save=["score"] if scores else None,
    )


def begin_as(model: Any, folder: Path) -> None:
    """Give the model's new adapter the weights of a trained one; what that lacks stays as it is.

    Raises:
        ValueError: the trained adapter has weights that the new one does not.
    """
    from peft import get_peft_model_state_dict, load_peft_weights, set_peft_model_state_dict

    own = get_peft_model_state_dict(model)
    trained = load_peft_weights(str(folder), device="cpu")
    if unknown := sorted(trained.keys() - own.keys()):
        raise ValueError(
            f"{folder}: this adapter does not fit the model's: {unknown[:3]}; "
            "train.lora has to be what it was trained with"
        )
    set_peft_model_state_dict(model, own | trained)


def under_adapter(model: Any) -> Any:
    """The transformers model that an adapter is on; a model without one itself."""
    from peft import PeftModel

    return model.get_base_model() if isinstance(model, PeftModel) else model


def adapters_in_engines(placement: Placement, section: LoraSection) -> bool:
    """Whether PPO's engines compute with adapters beside their weights, or merge them in.

    On a CPU an adapter costs an engine more at every token than merging does at every step.
    """
    return section.rank > 0 and placement.device == "cuda"


def save_trained(trainer: Any, tokenizer: Any, out: Path) -> None:
    """What one of TRL's trainers trained: `model/`, and `adapter/` where it trained one."""
    from peft import PeftModel

    model = trainer.accelerator.unwrap_model(trainer.model)
    if not isinstance(model, PeftModel):
        trainer.save_model(str(out / "model"))
        return
    trainer.save_model(str(out / ADAPTER))
    if trainer.is_world_process_zero():
        model.merge_and_unload().save_pretrained(out / "model")
        tokenizer.save_pretrained(out / "model")
