"""The lower part of a language model, of which only the uppermost layers learn.

What a sentence says of people is best read from the middle layers; the upper ones prepare the next
word. Leaving those out and the lower ones as they are makes a fit take a fraction of the time.
"""

from __future__ import annotations

from typing import Any


def lower_layers(model: Any, kept: int | None, trained: int) -> None:
    """Cut a model with a score head down to its lower layers and freeze all but the end of it.

    Args:
        model: a transformers decoder for sequence classification, changed in place.
        kept: transformer layers that stay; None is half of them.
        trained: of these the uppermost that learn, with the final norm and the score head.

    Raises:
        ValueError: it has fewer layers, or they are not where transformers' decoders have them.
    """
    base = model.base_model
    if not hasattr(base, "layers") or not hasattr(base, "norm"):
        raise ValueError(
            f"referee.fit.model: {type(base).__name__} does not name its layers `layers` and its "
            "last norm `norm`; allowed are decoders that do, as Llama, Qwen, Mistral or SmolLM"
        )
    there = len(base.layers)
    kept = (there + 1) // 2 if kept is None else kept
    if kept > there:
        raise ValueError(f"referee.fit.layers={kept}: the model has {there} layers")
    base.layers = base.layers[:kept]
    model.config.num_hidden_layers = kept
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = model.config.layer_types[:kept]
    model.requires_grad_(False)
    learning = base.layers[max(0, kept - trained) :]
    for part in (*learning, base.norm, model.score):
        part.requires_grad_(True)
    if trained:
        # Random scores lie far apart here, and the rate that layers want hardly moves the head.
        model.score.weight.data.zero_()
