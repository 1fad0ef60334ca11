"""What layers below all adapters make of a batch is computed once, and only for that batch."""

from __future__ import annotations

import pytest
import torch

from rldf_ray.train.ppo.step import PPO
from rldf_ray.train.ppo.trunk import layers_below_adapters
from tests.train.conftest import with_adapters
from tests.train.tiny import random_rollouts, tiny_job

pytestmark = pytest.mark.usefixtures("alone")


def above_a_trunk(folders: dict[str, str]) -> PPO:
    job = tiny_job(with_adapters(folders, 0.5), "train.lora={rank: 4, alpha: 8, layers: 0.5}")
    return PPO(job)


def rows_through(layer: torch.nn.Module) -> list[int]:
    """Rows that the layer's attention reads from now on, pass by pass."""
    passes: list[int] = []
    attention = layer.get_submodule("self_attn")
    attention.register_forward_hook(
        lambda module, inputs, options, output: passes.append(len(options["hidden_states"])),
        with_kwargs=True,
    )
    return passes


def test_a_step_passes_a_batch_through_the_trunk_once(folders: dict[str, str]) -> None:
    ppo = above_a_trunk(folders)
    model = ppo.models.actor.module._shared[0]._peft.get_base_model()
    below, above = (rows_through(model.model.layers[place]) for place in (0, 1))
    rollouts = random_rollouts(4)
    ppo.step(rollouts, torch.linspace(-1, 1, 4))
    batches = 4 // ppo.section.micro_batch
    assert len(below) == batches
    # Actor, critic and reference; the first two again for their update where graphs are not kept.
    assert len(above) >= 3 * batches


def test_another_batch_is_another_pass(folders: dict[str, str]) -> None:
    shared = above_a_trunk(folders).models.actor.module._shared[0]
    ids = torch.randint(3, 40, (2, 9))
    first = shared.hidden("actor", ids)
    other = shared.hidden("actor", ids.flip(0))
    torch.testing.assert_close(other, first.flip(0))
    assert not torch.equal(other, first)
    wider = shared.hidden("actor", ids.view(1, 18))
    assert wider.shape[1] == 18


def test_no_layer_is_shared_where_all_have_adapters(folders: dict[str, str]) -> None:
    job = tiny_job(with_adapters(folders, 1.0), "train.lora={rank: 4, alpha: 8}")
    shared = PPO(job).models.actor.module._shared[0]
    assert len(layers_below_adapters(shared._peft)) == 0
