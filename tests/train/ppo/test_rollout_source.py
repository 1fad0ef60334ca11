"""Rollouts of the next batch, begun while this one is trained on."""

from __future__ import annotations

from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.train.ppo.prompts import Prompts
from rldf_ray.train.ppo.rollout import RolloutSource
from tests.fakes import plan_with
from tests.train.cluster_jobs import RecordedPool
from tests.train.tiny import prompt_rows

PROMPTS = Prompts.split(prompt_rows(8), 2)


class Remembering(RecordedPool):
    """Remembers the addresses it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        self.asked.append(request.address)
        return await super().complete(request)


def source(model: RecordedPool, *, overlap: bool) -> RolloutSource:
    section = plan_with(
        "ppo={episodes: 12, rollout_batch: 4, batch_size: 4}",
        f"ppo.overlap={str(overlap).lower()}",
        "engines.sleep=false",
    ).ppo
    return RolloutSource(model, PROMPTS, section, seed=3, rank=0, workers=1)


def test_held_out_prompts_have_the_same_addresses_at_every_step() -> None:
    model = Remembering()
    plain = source(model, overlap=False)
    rollouts, held_out = plain.of(0)
    assert (len(rollouts), len(held_out)) == (4, 2)
    assert plain.of(1)[1] == held_out and plain.of(1)[0] != rollouts
    assert [a for a in model.asked if "held" in a][:2] == ["ppo/held-out/0", "ppo/held-out/1"]


def test_the_next_batch_is_answered_while_this_one_is_trained_on() -> None:
    model = Remembering()
    ahead = source(model, overlap=True)
    ahead.begin(1)
    ahead.settle()
    asked = len(model.asked)
    assert asked == 6
    begun = ahead.of(1)
    assert len(model.asked) == asked, "answered once, not again"
    assert begun == source(model, overlap=False).of(1)


def test_nothing_is_begun_without_overlap_or_beyond_the_last_step() -> None:
    model = Remembering()
    source(model, overlap=False).begin(1)
    source(model, overlap=True).begin(3)
    assert model.asked == []


def test_rollouts_in_flight_survive_a_checkpoint() -> None:
    model = Remembering()
    ahead = source(model, overlap=True)
    ahead.begin(1)
    state = ahead.state_dict()
    again = source(model, overlap=True)
    again.load_state_dict(state)
    asked = len(model.asked)
    assert again.of(1) == ahead.of(1)
    assert len(model.asked) == asked
