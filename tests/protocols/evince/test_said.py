"""What was written, and what counts: both labels and both expected positions, named apart."""

import pytest

from rldf_ray.protocols.evince.records import label_fields
from rldf_ray.protocols.evince.scale import LabelScale
from tests.protocols.evince.script import FIVE, Script, held, outcome, percent, turn
from tests.protocols.evince.test_failures import BASELINES, SAID, Wild

SPREAD = {
    **SAID,
    "A1": turn(50, 0, 0, 30, 20, label="negative", quote="a scandal"),
    "B1": turn(0, 0, 20, 60, 20),
    "one shot": {"reason": "r", "distribution": percent(60, 0, 0, 0, 40)},
}


async def test_said_percentages_count_by_their_likeliest_label_and_their_mean():
    found = await held(Script(SPREAD), baselines=BASELINES, stop={"max_rounds": 1})
    row = outcome(found)
    # Both sides weigh the same: .25 0 .1 .45 .2, whose mean is 0 + .2 + 1.35 + .8 steps.
    assert row["said_label"] == row["label"] == "weakly positive"
    assert row["said_mean_position"] == row["mean_position"] == pytest.approx(2.35)
    for baseline in BASELINES:
        row = outcome(found, baseline)
        # The likeliest label is an end of the scale, the expected position its middle.
        assert row["said_label"] == row["label"] == "negative"
        assert row["said_mean_position"] == row["mean_position"] == pytest.approx(1.6)


@pytest.mark.parametrize("distribution", ["token", "sampled"])
async def test_where_others_count_the_said_ones_are_kept_beside_them(distribution):
    script = Wild(SPREAD)
    found = await held(
        script,
        distribution=distribution,
        samples=2,
        baselines=BASELINES,
        stop={"max_rounds": 1, "agreed": False},
    )
    row = outcome(found)
    assert (row["label"], row["said_label"]) == ("neutral", "weakly positive")
    assert (row["mean_position"], row["said_mean_position"]) == pytest.approx((2.0, 2.35))
    for baseline in BASELINES:
        row = outcome(found, baseline)
        assert (row["label"], row["said_label"]) == ("neutral", "negative")
        assert row["said_mean_position"] == pytest.approx(1.6)


async def test_percentages_that_are_none_are_kept_as_none():
    halves = {**SAID, "B1": turn(10, 10, 10, 10, 10), "one shot": {"reason": "r"}}
    found = await held(
        Wild(halves), distribution="token", baselines=["one_shot"], stop={"max_rounds": 1}
    )
    for arm in ("main", "one_shot"):
        row = outcome(found, arm)
        assert row["label"] == "neutral"
        assert (row["said_label"], row["said_mean_position"]) == (None, None)


async def test_labels_without_an_order_have_no_expected_position():

    nominal = LabelScale("n", "t", "q", FIVE.labels, nominal=True)
    assert label_fields((0, 0, 1, 0, 0), nominal, "said_") == {
        "said_label": "neutral",
        "said_mean_position": None,
    }
