"""What a study is said to ask of each model is what it asks where nothing fails."""

from collections import Counter

import pytest

from rldf_ray.protocols.persuasion.estimate import estimate
from rldf_ray.protocols.persuasion.study import hold
from rldf_ray.protocols.study import StudyCast
from tests.protocols.persuasion.script import ITEM, Script, honest, settings, trusts_quotes

THREE = {name: {"model": "m"} for name in "xyz"}
CHOOSES = {"d": {"model": "m", "best_of": 2, "critiques": 2}}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"reasons_first": False},
        {"order": "sequential"},
        {"judges": ["j", "k"], "expert": "e"},
        {"debaters": THREE, "matches": "round_robin", "interactive": [True], "rounds": 3},
        {"interactive": [False, True], "judges": ["j", "k"], "reasons_first": False},
        {"debaters": CHOOSES, "oversampling": 2, "preference": "p", "critic": "c"},
        {"debaters": CHOOSES, "interactive": [True], "preference": "p", "critic": "c"},
    ],
)
async def test_calls_of_every_model(changes):
    plan = settings(**{"judges": ["j"], **changes})
    scripts = {name: Script(honest, trusts_quotes) for name in plan.models()}
    await hold(ITEM, StudyCast(seed=3, settings=plan, models=scripts))
    asked = Counter({name: len(script.asked) for name, script in scripts.items()})
    assert Counter({one.speaker: one.calls for one in estimate([ITEM], plan)}) == asked


def test_a_consultant_s_arguments_are_as_long_as_they_may_be():
    def read(**changes):
        plan = settings(protocols=["consultancy"], judges=["j"], **changes)
        return {one.speaker: one.prompt for one in estimate([ITEM], plan)}

    longer = {"words": 8, "least": 3, "most": 60}
    assert read(debate_length=longer) == read()
    assert all(tokens > read()[name] for name, tokens in read(consultancy_length=longer).items())
