"""What can be known of a card without the hub."""

from __future__ import annotations

import pytest
from huggingface_hub import DatasetCard, ModelCard, RepoCard

from rldf_ray.storage.hub_card import CardError, check_card, is_hub_id


def card(head: str) -> RepoCard:
    return ModelCard(f"---\n{head}\n---\n# A card\n")


@pytest.mark.parametrize(
    "head",
    [
        "base_model: some/model\nlanguage: en\nlicense: mit\ntags: [a, b]",
        "base_model: [some/model, other]\nlanguage: [en, deu]\ndatasets: a/b",
        "license: other\nlicense_name: own-terms",
    ],
)
def test_a_card_that_the_hub_takes(head: str) -> None:
    check_card(card(head), "README.md")
    check_card(DatasetCard(str(card(head))), "README.md")


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("base_model: /models/mine", "base_model: '/models/mine' is no id of the hub"),
        ("base_model: [some/model, a/b/c]", "base_model: 'a/b/c'"),
        ("datasets: ../data", "datasets: '../data'"),
        ("language: no", "language: False"),
        ("language: English", "language: 'English'; allowed is an ISO 639 code"),
        ("tags: [a, 1]", "tags: 1 is no text"),
        ("license: other", "license: other needs license_name"),
        ("", "no metadata"),
    ],
)
def test_a_card_that_it_does_not_take_is_refused_with_the_field(head: str, why: str) -> None:
    with pytest.raises(CardError, match=r"^there/README\.md: .*change the head") as error:
        check_card(card(head), "there/README.md")
    assert why in str(error.value)


@pytest.mark.parametrize("name", [None, "", 1, "a//b", "-a/b", "a--b", "a/b.git", "x" * 97])
def test_what_is_no_id_of_the_hub(name: object) -> None:
    assert not is_hub_id(name)
