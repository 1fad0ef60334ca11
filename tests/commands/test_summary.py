"""The table that ends a run's commands."""

from __future__ import annotations

import io

from rich.console import Console

from rldf_ray.commands.summary import SCORES, evaluation_table


def test_no_name_or_figure_is_cut_at_80_columns() -> None:
    scores = dict.fromkeys(SCORES, -0.125)
    model = {
        "multiple_choice": {"overall": scores},
        "reward": {"mean": -10.5},
        "perplexity": {"value": 12345.6},
    }
    unmeasured = {**model, "reward": None, "perplexity": None}
    evaluation = {"models": {"base": model, "policy": unmeasured}, "always_unknown": scores}
    output = io.StringIO()
    Console(file=output, width=80).print(evaluation_table(evaluation))
    text = output.getvalue()
    assert max(map(len, text.splitlines())) <= 80 and "\N{HORIZONTAL ELLIPSIS}" not in text
    for word in ("disambig.", "perplexity", "always unknown", "-10.500", "12345.6", "n/a"):
        assert word in text
    assert text.count("-0.125") == 3 * len(SCORES)
