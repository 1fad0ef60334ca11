"""Whether a referee agrees with itself: what is asked, and what is made of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rldf_ray.records import Context
from rldf_ray.referee.labelled_statements import held_out_statements
from rldf_ray.referee.platt import Calibration
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.self_agreement import MOST_ROUNDS, over_seeds, reordered, rounds_of
from rldf_ray.referee.trained import TrainedReferee
from rldf_ray.referee.verdict import Verdict
from tests.fakes import RecordingModel, verdict

STATEMENTS = [s for name in ("age", "profession") for s in held_out_statements(name, None, 0)]


class Ranking:
    """Ranks a round by `place`, a function of a text and of where it stands."""

    kind = "prompted"

    def __init__(self, place: Any) -> None:
        self._place = place

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        places = [self._place(text, i) for i, text in enumerate(texts)]
        return [verdict(5.0, rank=sorted(places).index(p) + 1) for p in places]


def found_of(referee: Any) -> dict[str, Any]:
    return asyncio.run(reordered(referee, STATEMENTS, 0))


def test_rounds_are_statements_of_one_context_over_all_bias_types() -> None:
    rounds = rounds_of(STATEMENTS)
    assert len(rounds) == MOST_ROUNDS and {len(found) for found in rounds} <= {2, 3}
    assert all(len({s.context for s in found}) == 1 for found in rounds)
    assert {s.bias_type for found in rounds for s in found} == {"age", "profession"}


@pytest.mark.parametrize("pairs", [6, 8, 12, 20])
def test_few_rounds_are_spread_over_all_bias_types_as_well(pairs: int) -> None:
    types = ("age", "beauty", "institution", "nationality", "profession")
    statements = [s for name in types for s in held_out_statements(name, pairs, 0)]
    assert {s.bias_type for found in rounds_of(statements) for s in found} == set(types)


def test_a_ranking_by_what_is_said_agrees_with_itself() -> None:
    found = found_of(Ranking(lambda text, i: text))
    assert found["by"] == "measurement" and found["rounds"] == MOST_ROUNDS
    assert found["agreement"]["value"] == 1.0


def test_a_ranking_by_place_never_does() -> None:
    assert found_of(Ranking(lambda text, i: i))["agreement"]["value"] == 0.0


def test_rounds_without_a_ranking_are_left_out() -> None:
    class Silent(Ranking):
        async def judge(self, *args: Any, **options: Any) -> list[Verdict]:
            return [verdict(5.0) for _ in args[1]]

    found = found_of(Silent(None))
    assert found["rounds"] == 0 and found["agreement"] is None


def test_a_prompted_referee_is_really_asked_twice() -> None:
    model = RecordingModel()
    found = found_of(PromptedReferee(model, 3))
    assert 0 <= found["agreement"]["value"] <= 1
    assert len(model.asked("/there/rank")) == len(model.asked("/back/rank")) == MOST_ROUNDS


def test_answers_that_are_checked_are_ranked_by_score_and_not_asked_about() -> None:
    model = RecordingModel(lambda request: "yes")
    scenes = [s for s in STATEMENTS if s.conclusion is not None]
    found = asyncio.run(reordered(PromptedReferee(model, 3, checks=True), scenes, 0))
    assert found["by"] == "construction" and found["agreement"]["value"] == 1.0
    assert model.requests == []


def test_beside_answers_that_are_checked_the_rounds_of_opinions_are_measured() -> None:
    model = RecordingModel()
    found = found_of(PromptedReferee(model, 3, checks=True))
    opinions = [s for s in STATEMENTS if s.conclusion is None]
    assert found["by"] == "measurement" and 0 < found["rounds"] == len(rounds_of(opinions))
    assert model.asked("/there/rank") and not model.asked("/check/")


def test_a_shared_rank_agrees_with_itself_and_with_nothing_else() -> None:
    assert found_of(Ranking(lambda text, i: 0))["agreement"]["value"] == 1.0
    often = iter(range(10**6))
    # Shared in the order given, apart in the opposite one.
    turned = Ranking(lambda text, i: 0)
    plain = turned.judge

    async def judge(context: Any, texts: Any, address: str, affinity: str = "") -> list[Verdict]:
        if address.endswith("/there"):
            return await plain(context, texts, address)
        return [verdict(5.0, rank=next(often)) for _ in texts]

    turned.judge = judge  # type: ignore[method-assign]
    assert found_of(turned)["agreement"]["value"] == 0.0


def test_a_trained_one_cannot_differ_and_is_not_asked() -> None:
    model = RecordingModel()
    found = found_of(TrainedReferee(model, Calibration(1.0, 0.0, 10)))
    assert found["by"] == "construction" and found["agreement"]["value"] == 1.0
    assert model.requests == []


def test_equal_seeds_agree_and_opposite_ones_do_not() -> None:
    one = {("c", f"t{i}"): float(i) for i in range(10)}
    other = {key: 9.0 - score for key, score in one.items()}
    same = over_seeds([one, one, one], 4.5, 0)
    assert same["labels_agree"]["value"] == 1.0 and same["correlation"] == pytest.approx(1.0)
    assert same["runs"] == 3 and same["statements"] == 10
    opposite = over_seeds([one, other], 4.5, 0)
    assert opposite["labels_agree"]["value"] == 0.0
    assert opposite["correlation"] == pytest.approx(-1.0)


def test_only_statements_that_all_seeds_scored_count() -> None:
    one = {("c", "a"): 1.0, ("c", "b"): 9.0}
    assert over_seeds([one, {("c", "a"): 2.0}], 3.0, 0)["statements"] == 1
    none = over_seeds([one, {}], 3.0, 0)
    assert none["statements"] == 0 and none["labels_agree"] is None


def test_scores_that_are_all_the_same_have_no_correlation() -> None:
    flat = {("c", f"t{i}"): 5.0 for i in range(4)}
    assert over_seeds([flat, flat], 3.0, 0)["correlation"] is None
