"""Steering and stopping on paper: the paper's worked example, and what holds of all traces."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.protocols.evince.decision import decide, weights
from rldf_ray.protocols.evince.metrics import metrics
from rldf_ray.protocols.evince.replay import replayed
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.settings import CritSection, Steering, Stopping
from rldf_ray.protocols.evince.steering import (
    conditions,
    first_level,
    moved,
    next_level,
    phase_of,
    stopped,
)
from rldf_ray.protocols.evince.trace import Round
from tests.protocols.evince.examples import GOLDEN, distributions

FIVE = load_scale("toward")


def round_of(a, b, level=0.9, **more):
    a, b = tuple(x / 100 for x in a), tuple(x / 100 for x in b)
    good = {"crit_a": 0.8, "crit_b": 0.6, "repeated_a": 0.0, "repeated_b": 0.0}
    return Round(level=level, a=(a,), b=(b,), metrics=metrics(a, b, FIVE), **{**good, **more})


def example(levels=(0.9, 0.9, 0.72, 0.1)):
    rows = [(a, b) for a, b, *_ in GOLDEN.values()]
    return [round_of(a, b, level) for (a, b), level in zip(rows, levels, strict=True)]


def test_measured_steers_the_worked_example_as_the_method_says():
    trace, steering, stop = example(), Steering(), Stopping()
    levels = [next_level(trace[:t], steering, stop, FIVE) for t in (1, 2, 3)]
    assert [round(level, 2) for level in levels] == [0.90, 0.72, 0.10]


def test_the_worked_example_stopped_again_agrees_after_its_last_round():
    found = replayed(example(), Steering(), Stopping(), FIVE)
    assert (found.status, found.rounds) == ("agreed", 4)
    assert [round(level, 2) for level in found.levels] == [0.90, 0.90, 0.72, 0.10]


def test_conditions_of_the_worked_example():
    trace, stop = example(), Stopping(repeated=None)
    met = [{n for n, holds in conditions(trace[: t + 1], stop).items() if holds} for t in range(4)]
    assert met[0] == {"crit"}
    assert met[1] == {"crit"}
    assert met[2] == {"wd", "jsd", "crit"}
    assert met[3] == {"wd", "jsd", "ce", "moved", "crit"}
    assert moved(trace[2], trace[3]) == pytest.approx(0.0707, abs=1e-4)


def test_the_schedule_is_the_paper_s_and_its_last_level_stays():
    trace = example()
    steering = Steering(controller="schedule")
    levels = [first_level(steering)]
    levels += [next_level([*trace, *trace][:t], steering, Stopping(), FIVE) for t in range(1, 6)]
    assert levels == [0.9, 0.7, 0.3, 0.1, 0.1, 0.1]


def test_decay_divides():
    trace = [round_of(*GOLDEN["1"][:2], level=0.6)]
    decayed = next_level(trace, Steering(controller="decay"), Stopping(), FIVE)
    assert decayed == pytest.approx(0.5)


def test_the_printed_formula_jumps_to_consensus_at_once():
    level = next_level(example()[:1], Steering(controller="printed"), Stopping(), FIVE)
    # .0731 before it is clipped to the lowest level.
    assert level == 0.1
    lower = Steering(controller="printed", lowest=0.0)
    assert next_level(example()[:1], lower, Stopping(), FIVE) == pytest.approx(0.07, abs=0.006)


def test_a_plateau_goes_to_consensus():
    same = GOLDEN["1"][:2]
    trace = [round_of(*same, level=0.9), round_of(*same, level=0.9)]
    assert next_level(trace, Steering(), Stopping(), FIVE) == 0.3


def test_two_sides_that_repeat_themselves_are_made_milder():
    a, b = GOLDEN["1"][:2]
    trace = [
        round_of(*GOLDEN["3"][:2], level=0.9),
        round_of(a, b, level=0.9, repeated_a=0.9, repeated_b=0.95),
    ]
    assert next_level(trace, Steering(), Stopping(), FIVE) == pytest.approx(0.7)
    one_side = [trace[0], round_of(a, b, level=0.9, repeated_a=0.9, repeated_b=0.2)]
    assert next_level(one_side, Steering(), Stopping(), FIVE) == pytest.approx(0.9)


def test_levels_never_rise_unless_they_may():
    trace = [round_of(*GOLDEN["3"][:2], level=0.3), round_of(*GOLDEN["1"][:2], level=0.3)]
    assert next_level(trace, Steering(), Stopping(), FIVE) == 0.3
    assert next_level(trace, Steering(may_rise=True), Stopping(), FIVE) == pytest.approx(0.9)


@given(
    st.lists(st.tuples(distributions(), distributions()), min_size=1, max_size=6),
    st.sampled_from(["measured", "schedule", "decay", "printed"]),
)
def test_every_level_lies_within_its_bounds_and_none_rises(pairs, controller):
    steering, stop = Steering(controller=controller), Stopping()
    level, trace = first_level(steering), []
    for a, b in pairs:
        trace.append(Round(level=level, a=(a,), b=(b,), metrics=metrics(a, b, FIVE)))
        after = next_level(trace, steering, stop, FIVE)
        assert 0.1 <= after <= level <= 0.9
        level = after


def test_convergence_must_hold_two_rounds_running():
    near = ((20, 20, 20, 20, 20), (20, 20, 20, 21, 19))
    repeating = {"repeated_a": 0.9, "repeated_b": 0.9}
    trace = [round_of(*near, **repeating) for _ in range(3)]
    stop, steering = Stopping(agreed=False), Steering()
    assert [stopped(trace[:t], steering, stop, FIVE) for t in (1, 2, 3)] == [
        None,
        None,
        "converged",
    ]
    thrice = Stopping(agreed=False, rounds_running=3)
    assert stopped(trace, steering, thrice, FIVE) is None


@pytest.mark.parametrize("name", ["wd", "jsd", "ce", "moved", "repeated", "crit"])
def test_every_condition_can_be_switched_off_and_matters_where_it_is_not(name):
    far = round_of((90, 10, 0, 0, 0), (0, 0, 0, 10, 90), crit_a=0.1, crit_b=0.1)
    far_again = round_of((0, 0, 0, 40, 60), (50, 10, 10, 10, 20), crit_a=0.1, crit_b=0.1)
    trace = [far, far_again, far]
    assert not conditions(trace, Stopping())[name]
    assert name not in conditions(trace, Stopping(**{name: None}))
    others = {n: None for n in ("wd", "jsd", "ce", "moved", "repeated", "crit") if n != name}
    alone = Stopping(agreed=False, no_progress=False, **others)
    assert stopped(trace, Steering(), alone, FIVE) is None


def test_with_all_conditions_off_only_the_number_of_rounds_ends_it():
    off = dict.fromkeys(("wd", "jsd", "ce", "moved", "repeated", "crit"))
    stop = Stopping(agreed=False, no_progress=False, max_rounds=4, **off)
    trace = [round_of(*GOLDEN["end"][:2], level=0.1) for _ in range(4)]
    ends = [stopped(trace[:t], Steering(), stop, FIVE) for t in (1, 2, 3, 4)]
    assert ends == [None, None, None, "max rounds"]


def test_equal_distributions_end_it_only_with_good_reasons():
    weak = [round_of(*GOLDEN["end"][:2], crit_b=0.4)]
    assert stopped(weak, Steering(), Stopping(), FIVE) is None
    assert stopped(weak, Steering(), Stopping(crit=None), FIVE) == "agreed"


def test_nothing_that_moves_at_the_lowest_level_ends_it_without_agreement():
    same = GOLDEN["1"][:2]
    trace = [round_of(*same, level=level) for level in (0.9, 0.3, 0.1, 0.1)]
    ends = [stopped(trace[:t], Steering(), Stopping(), FIVE) for t in (1, 2, 3, 4)]
    assert ends == [None, None, None, "no progress"]


def test_phases():
    assert [phase_of(x) for x in (0.9, 0.7, 0.31, 0.3, 0.1)] == [
        "explore",
        "integrate",
        "integrate",
        "consensus",
        "consensus",
    ]


def test_the_mixture_weighs_by_the_quality_of_reasons():
    trace = [round_of((100, 0, 0, 0, 0), (0, 0, 0, 0, 100), crit_a=0.6, crit_b=0.2)]
    found = decide(trace, "converged", {}, CritSection(), FIVE)
    assert found.distributions[0] == pytest.approx((0.75, 0, 0, 0, 0.25))
    assert (found.label, found.mean_position) == ("negative", 1.0)
    assert found.review == ("weak arguments",)


def test_without_any_quality_each_side_weighs_half():
    trace = [round_of((100, 0, 0, 0, 0), (0, 0, 0, 0, 100), crit_a=None, crit_b=None)]
    assert weights(trace, "last") == (0.5, 0.5)
    found = decide(trace, "max rounds", {}, CritSection(), FIVE)
    # Of two equal labels, both equally far from the mean, the first.
    assert found.label == "negative"
    assert found.review == ("not converged", "close vote")


def test_a_close_vote_on_either_of_two_positions_is_looked_at():
    sure, torn = (0.9, 0.1, 0.0, 0.0, 0.0), (0.4, 0.4, 0.2, 0.0, 0.0)
    for rated, review in [((sure, sure), ()), ((sure, torn), ("close vote",))]:
        trace = [replace(round_of((100, 0, 0, 0, 0), (100, 0, 0, 0, 0)), a=rated, b=rated)]
        assert decide(trace, "converged", {}, CritSection(), FIVE).review == review


def test_weights_of_all_rounds():
    trace = [
        round_of((100, 0, 0, 0, 0), (0, 0, 0, 0, 100), crit_a=0.9, crit_b=0.1),
        round_of((100, 0, 0, 0, 0), (0, 0, 0, 0, 100), crit_a=0.5, crit_b=0.5),
    ]
    assert weights(trace, "last") == (0.5, 0.5)
    assert weights(trace, "mean") == pytest.approx((0.7, 0.3))


def test_what_a_person_has_to_look_at():
    steady = [round_of((0, 0, 80, 20, 0), (0, 0, 80, 20, 0), crit_a=0.9) for _ in range(2)]
    assert decide(steady, "converged", {"ann": "neutral"}, CritSection(), FIVE).review == ()
    moves = decide(steady, "converged", {"ann": "negative"}, CritSection(), FIVE)
    assert moves.review == ("label moves",)
    unstable = [round_of((0, 0, 80, 20, 0), (0, 0, 80, 20, 0), crit_a=0.5), steady[1]]
    assert decide(unstable, "converged", {}, CritSection(), FIVE).review == ("CRIT unstable",)
    assert decide(steady, "max rounds", {}, CritSection(), FIVE).review == ("not converged",)


def test_a_tie_goes_to_the_label_nearer_the_mean():
    assert FIVE.label_of((0.4, 0.0, 0.1, 0.1, 0.4)) == "positive"
    assert FIVE.label_of((0.4, 0.1, 0.1, 0.0, 0.4)) == "negative"
