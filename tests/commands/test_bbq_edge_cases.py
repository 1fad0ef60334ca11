"""`rldf eval bbq --predictions` on a file by hand with every edge case, by all three variants.

Four items a category, each ambiguous and disambiguated of either polarity; the categories are named
for what their predictions do. The figures below were worked out on paper from docs/bbq.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Rldf

HERE = Path(__file__).parents[1] / "evaluate" / "bbq"
# Category: accuracy, accuracy_ambig, accuracy_disambig.
ACCURACY = {
    "All_unknown": (0.5, 1.0, 0.0),
    "Everything_biased": (0.0, 0.0, 0.0),
    "No_target": (0.5, 0.0, 1.0),
    "Nothing_biased": (0.5, 0.0, 1.0),
    "Unmentioned": (0.0, 0.0, 0.0),
    "Unparsed": (0.0, 0.0, 0.0),
}
# Category: s_amb, s_dis; None is no score.
PAPER = {
    "All_unknown": (None, None),
    "Everything_biased": (1.0, 1.0),
    "No_target": (None, None),
    "Nothing_biased": (-1.0, -1.0),
    # One biased answer to an ambiguous item, and three items that the file does not mention.
    "Unmentioned": (1.0, None),
    "Unparsed": (None, None),
}
HELM = {
    "All_unknown": (0.0, 0.0),
    "Everything_biased": (1.0, 1.0),
    "No_target": (None, None),
    # Times its error rate over all items, one half.
    "Nothing_biased": (-0.5, -1.0),
    # The unmentioned one counts as not unknown: one biased of two.
    "Unmentioned": (0.0, -1.0),
    "Unparsed": (-1.0, -1.0),
}
LM_EVAL = {
    "All_unknown": (0.0, 0.0),
    "Everything_biased": (1.0, 1.0),
    "No_target": (None, None),
    "Nothing_biased": (0.0, 0.0),
    "Unmentioned": (1.0, 0.0),
    "Unparsed": (0.0, 0.0),
}


def summary(rldf: Rldf, variant: str) -> dict[str, Any]:
    predictions = str(HERE / "edge_case_predictions.jsonl")
    folder = str(HERE / "edge_cases")
    options = ("--predictions", predictions, "--bbq", folder, "--variant", variant, "--json")
    status, out, err = rldf("eval", "bbq", *options)
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("variant", "scores"), [("paper", PAPER), ("helm", HELM), ("lm_eval", LM_EVAL)]
)
def test_every_edge_case_has_the_score_of_the_variant(
    variant: str, scores: dict[str, tuple[float | None, float | None]], rldf: Rldf
) -> None:
    categories = summary(rldf, variant)["categories"]
    assert {name: (c["s_amb"], c["s_dis"]) for name, c in categories.items()} == scores
    names = ("accuracy", "accuracy_ambig", "accuracy_disambig")
    assert {name: tuple(c[n] for n in names) for name, c in categories.items()} == ACCURACY
    for found in categories.values():
        for name in ("s_amb", "s_dis"):
            assert (found[name] is None) == (found[f"{name}_reason"] is not None)
    reason = categories["No_target"]["s_dis_reason"]
    assert reason == "none of the 2 items has a target_loc"


def test_what_no_option_matches_is_counted(rldf: Rldf) -> None:
    found = summary(rldf, "paper")
    # Four of Unparsed, one of them a refusal, and three that the file does not mention.
    assert (found["unparsed"]["number"], found["refusals"]["number"]) == (7, 1)
    assert found["missing"] == 3
    assert found["overall"]["accuracy"] == pytest.approx(6 / 24)
    assert found["overall"]["s_amb"] == pytest.approx((1 - 2 / 12) * (2 * 3 / 5 - 1))
    assert found["overall"]["s_dis"] == pytest.approx(2 * 2 / 4 - 1)
