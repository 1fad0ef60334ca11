"""What the ceiling of a benchmark is given: the requests that reached the engine."""

from types import SimpleNamespace

import pytest

from benchmarks.recorded import guide_of, sampling_of

UNGUIDED = {
    "temperature": 0.7,
    "top_p": 0.9,
    "seed": 3,
    "allowed": None,
    "generated": 17,
    "max_tokens": 64,
    "guide": None,
}


def test_a_guide_is_kept_as_it_was_asked() -> None:
    schema = {"type": "object"}
    asked = SimpleNamespace(json=schema, choice=None)
    assert guide_of(SimpleNamespace(structured_outputs=asked)) == {"json": schema}
    asked = SimpleNamespace(json=None, choice=["A", "B"])
    assert guide_of(SimpleNamespace(structured_outputs=asked)) == {"choice": ["A", "B"]}
    assert guide_of(SimpleNamespace(structured_outputs=None)) is None


@pytest.mark.slow
def test_an_unguided_answer_is_as_long_as_it_was() -> None:
    pytest.importorskip("vllm")
    sampling = sampling_of(UNGUIDED)
    assert (sampling.min_tokens, sampling.max_tokens, sampling.ignore_eos) == (17, 17, True)
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (0.7, 0.9, 3)


@pytest.mark.slow
def test_a_guided_answer_is_guided_and_ends_by_itself() -> None:
    pytest.importorskip("vllm")
    sampling = sampling_of({**UNGUIDED, "guide": {"json": {"type": "object"}}})
    assert sampling.structured_outputs.json == {"type": "object"}
    assert (sampling.min_tokens, sampling.max_tokens, sampling.ignore_eos) == (0, 64, False)
