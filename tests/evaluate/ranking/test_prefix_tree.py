"""The tree of tokens: every sequence is in it once, and every node sees its ancestors alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.evaluate.ranking.prefix_tree import ROOT, PrefixTree, TokenQuestion, chains, trees

TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=6)
QUESTIONS = st.lists(
    st.tuples(TOKENS, st.lists(TOKENS, min_size=1, max_size=3)), min_size=1, max_size=8
).map(
    lambda found: [TokenQuestion(n, prompt, answers) for n, (prompt, answers) in enumerate(found)]
)


def path(tree: PrefixTree, node: int) -> list[int]:
    """The tokens from the root to a node."""
    return [] if node == ROOT else [*path(tree, tree.parents[node]), tree.ids[node]]


def test_shared_beginnings_stand_once() -> None:
    tree = PrefixTree()
    tree.add(TokenQuestion(0, [1, 2], [[5, 6], [5, 7]]))
    tree.add(TokenQuestion(1, [1, 2, 3], [[5]]))
    # 1, 2, 5 and 3; the last tokens of answers are predicted and not read.
    assert tree.ids == [1, 2, 5, 3]
    assert tree.depths == [0, 1, 2, 2]
    assert tree.attention().astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 0, 1],
    ]
    assert tree.new_tokens(TokenQuestion(2, [1, 2, 9, 9], [[1]])) == 2


@given(QUESTIONS, st.integers(1, 30))
def test_every_answer_is_in_its_steps(questions: list[TokenQuestion], budget: int) -> None:
    found: dict[tuple[int, int], list[int]] = {}
    for tree in trees(questions, budget):
        assert len(set(zip(tree.parents, tree.ids, strict=True))) == len(tree)
        for step in tree.steps:
            before = path(tree, step.node)
            answer = found.setdefault((step.place, step.answer), [])
            assert before == [*questions[step.place].prompt, *answer]
            answer.append(step.token)
    assert found == {
        (q.place, n): list(answer) for q in questions for n, answer in enumerate(q.answers)
    }


@given(QUESTIONS, st.integers(1, 30))
def test_a_node_sees_its_ancestors_and_itself(questions: list[TokenQuestion], budget: int) -> None:
    for tree in trees(questions, budget):
        seen = tree.attention()
        for node in range(len(tree)):
            line, at = [node], node
            while tree.parents[at] != ROOT:
                at = tree.parents[at]
                line.append(at)
            assert set(seen[node].nonzero()[0].tolist()) == set(line)
            assert tree.depths[node] == len(line) - 1


@given(QUESTIONS)
def test_a_chain_has_one_answer_and_no_branch(questions: list[TokenQuestion]) -> None:
    for number, tree in enumerate(chains(questions[0])):
        assert tree.parents == list(range(-1, len(tree) - 1))
        assert [step.token for step in tree.steps] == list(questions[0].answers[number])
