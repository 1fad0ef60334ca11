"""The sections about policies that learn from the pairs themselves: DPO and KTO.

Without a reward model and without rollouts: how much likelier the policy makes an answer than the
model it began as is the answer's reward, times beta.
"""

from __future__ import annotations

from typing import Literal

from rldf_ray.plan.section import Section, described

After = Literal["ppo", "dpo", "kto"]
"""What may come after SFT."""


class DPOSection(Section):
    """Direct preference optimisation; defaults are of Rafailov et al. 2023, appendix B."""

    beta: float = described(
        0.1, "weight of the KL to the model it begins as", source="Rafailov et al. 2023, B", gt=0
    )
    learning_rate: float = described(
        1e-6, "peak learning rate", source="Rafailov et al. 2023, B", gt=0
    )
    batch_size: int = described(
        64, "pairs an optimizer step", source="Rafailov et al. 2023, B", ge=1
    )
    micro_batch: int = described(4, "pairs a forward pass of one worker", ge=1)
    epochs: float = described(1.0, "passes over the data", source="choice", gt=0)
    max_length: int = described(
        1024, "longest prompt and answer, cut on the right as in SFT", unit="tokens", ge=16
    )
    held_out_share: float = described(
        0.1,
        "share of topics kept to measure the accuracy of the implicit reward; at the same share "
        "they are the reward model's",
        ge=0,
        lt=1,
    )


class KTOSection(Section):
    """Kahneman-Tversky optimisation (Ethayarajh et al. 2024)."""

    beta: float = described(
        0.1, "weight of the KL to the model it begins as", source="choice", gt=0
    )
    desirable_weight: float | None = described(
        None,
        "weight of desirable answers; null is 1, or where both weights are null what makes up for "
        "there being fewer of them",
        source="Ethayarajh et al. 2024, eq. 8",
        gt=0,
    )
    undesirable_weight: float | None = described(
        None,
        "weight of undesirable answers; null is 1, or where both weights are null what makes up "
        "for there being fewer of them",
        source="Ethayarajh et al. 2024, eq. 8",
        gt=0,
    )
    learning_rate: float = described(1e-6, "peak learning rate", source="choice", gt=0)
    batch_size: int = described(32, "answers an optimizer step", source="choice", ge=2)
    micro_batch: int = described(
        8,
        "answers a forward pass of one worker; the KL is estimated on prompts and answers that "
        "are mismatched within it",
        ge=2,
    )
    epochs: float = described(1.0, "passes over the data", source="choice", gt=0)
    max_length: int = described(
        1024, "longest prompt and answer, cut on the right as in SFT", unit="tokens", ge=16
    )
    held_out_share: float = described(
        0.1,
        "share of topics kept to measure the accuracy of the implicit reward; at the same share "
        "they are the reward model's",
        ge=0,
        lt=1,
    )
