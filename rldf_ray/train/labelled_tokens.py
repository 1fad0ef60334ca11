"""The output head for the tokens that have a label, and for no others.

TRL's fused head scores every token where there is no GPU, and then leaves out those without a
label: the prompt's, which SFT, DPO and KTO learn nothing from. Of a step on prompts of a hundred
tokens with answers of five that is a third of the arithmetic, and in float32.
"""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor

from rldf_ray.train.sft import NO_LOSS

BY_TOKEN = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


def score_labelled_tokens(model: Any) -> None:
    """Have a causal model with TRL's fused head score labelled tokens alone; changed in place.

    What comes out has the shape and the values it had. A model on a GPU, where the head does so by
    itself, needs none of it.
    """
    decoder = model.base_model
    fused, read = model.forward, decoder.forward
    wanted: list[Tensor] = []

    def reading(*given: Any, **fields: Any) -> Any:
        output = read(*given, **fields)
        if wanted:
            output.last_hidden_state = output.last_hidden_state[:, :-1][wanted[0]][None]
        return output

    @functools.wraps(fused)
    def forward(
        *given: Any, labels: Tensor | None = None, fused_lm_head: bool = False, **fields: Any
    ) -> Any:
        if labels is None:
            return fused(*given, fused_lm_head=fused_lm_head, **fields)
        labelled = labels[:, 1:] != NO_LOSS
        if not fused_lm_head or not labelled.any():
            return fused(*given, labels=labels, fused_lm_head=fused_lm_head, **fields)
        wanted.append(labelled)
        try:
            # Labels that are shifted already are taken as they are, in any number.
            output = fused(
                *given, shift_labels=labels[:, 1:][labelled][None], fused_lm_head=True, **fields
            )
        finally:
            wanted.clear()
        return _in_rows(output, labelled)

    decoder.forward, model.forward = reading, forward


def _in_rows(output: Any, labelled: Tensor) -> Any:
    """Figures of the labelled tokens, [1, n], where they were in the batch, [B, T - 1]; else 0."""
    for name in BY_TOKEN:
        figures = getattr(output, name)
        if figures is not None:
            rows = figures.new_zeros(labelled.shape).masked_scatter(labelled, figures[0])
            setattr(output, name, rows)
    output.label_mask = labelled
    return output
