"""Samples hold smaller ones, and do not depend on the order of the items."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.protocols.item_sets import id_given_twice, sampled


@dataclass(frozen=True)
class Item:
    item_id: str
    kind: int = 0


ITEMS = st.lists(
    st.builds(Item, st.text(max_size=4), st.integers(0, 2)),
    unique_by=lambda item: item.item_id,
    max_size=20,
)


@given(ITEMS, st.integers(0, 6), st.integers(0, 9))
def test_a_larger_sample_holds_a_smaller(items, number, seed):
    few, more = (sampled(items, n, seed, lambda item: item.kind) for n in (number, number + 1))
    assert set(few) <= set(more)
    assert few == [item for item in items if item in few]
    for kind in range(3):
        there = sum(item.kind == kind for item in items)
        assert sum(item.kind == kind for item in few) == min(number, there)


@given(ITEMS, st.integers(0, 6), st.integers(0, 9))
def test_the_order_of_the_items_changes_nothing(items, number, seed):
    assert set(sampled(items, number, seed)) == set(sampled(items[::-1], number, seed))


def test_an_id_given_twice():
    assert id_given_twice([Item("a"), Item("b"), Item("a", 1)]) == "a"
    assert id_given_twice([Item("a"), Item("b")]) is None
