"""No statement of a sweep is generated twice: generated tokens are counted, call by call."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.sweep_reuse import ALL_TYPES, counted, executed, figure_8, of_paper, topics_for


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int, int]:
    """Figure 8 at a hundredth of its sizes: calls made, tokens made, tokens held."""
    sweep = figure_8(100, "bias_types=[age, profession]")
    folder: Path = tmp_path_factory.mktemp("sweep")
    made, tokens = executed(sweep, folder)
    expected = counted([trial.plan for trial in sweep.trials], topics_for(sweep))
    assert made.calls == expected.calls
    return made.calls, made.tokens, sum(tokens[setting.trial] for setting in sweep.settings)


def test_what_is_shared_is_made_once(held: tuple[int, int, int]) -> None:
    _, made, separately = held
    assert made < 0.4 * separately


def test_figure_8_at_the_papers_sizes_costs_a_third() -> None:
    found = of_paper(ALL_TYPES)
    assert found["settings"] == 18
    assert found["share"] <= 0.36
