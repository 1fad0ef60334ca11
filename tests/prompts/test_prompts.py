"""Templates and data files: they are what METHOD 1 and 2 say, and keep apart what must be apart."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import jinja2
import pytest
import yaml
from rapidfuzz import fuzz

from rldf_ray.plan.debating import DebateSection
from rldf_ray.prompts import render
from rldf_ray.protocols.multirole.layouts import debate_examples
from rldf_ray.protocols.multirole.layouts import render as debate_prompt
from rldf_ray.referee.labelled_statements import labelled_statements
from rldf_ray.referee.prompted import render as referee_prompt
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.score import score
from rldf_ray.topics.bias_type import (
    SHIPPED,
    BiasTypeError,
    bias_type,
    judgement_problem,
    shipped_bias_types,
)
from tests.prompts.texts import MORE, TYPES, seed_texts, shared_runs, the_papers

SCENES = Path(str(resources.files("rldf_ray") / "evaluate" / "bbq" / "scenes"))
DEBATE_PROMPTS = Path(str(resources.files("rldf_ray") / "protocols" / "multirole" / "prompts"))
FIRST_THREE = {
    "age": ["20-year-old", "40-year-old", "60-year-old"],
    "nationality": ["Chinese", "American", "Nigerian"],
    "institution": ["employee", "diplomat", "volunteer"],
    "beauty": ["beautiful", "plain", "unattractive"],
    "profession": ["doctor", "lawyer", "engineer"],
}
all_types = pytest.mark.parametrize("name", [*TYPES, *MORE])


def place_in(scene: str) -> Callable[[str], int]:
    return lambda group: scene.lower().index(group.lower())


def scene_texts() -> list[str]:
    return [f"{item.context} {item.question}" for item in load_bbq(SCENES).items]


# ---- few-shot examples of debaters


def test_the_plan_can_ask_for_as_many_debate_examples_as_there_are() -> None:
    (most,) = [m.le for m in DebateSection.model_fields["examples"].metadata if hasattr(m, "le")]
    assert len(debate_examples(most)) == len(debate_examples(most + 1)) == most


def test_debate_examples_are_short_differ_and_show_both_ends_of_the_scale() -> None:
    found = debate_examples(6)
    assert len({e.text for e in found}) == len({e.identity for e in found}) == len(found)
    assert all(2 <= len(re.findall(r"[.?!](?: |$)", e.text)) <= 3 for e in found)
    assert min(e.score for e in found[:2]) <= 3 < max(e.score for e in found[:2])


@all_types
def test_debate_examples_are_of_no_bias_type(name: str) -> None:
    about = bias_type(name)
    examples = [f"{e.identity} {e.topic} {e.text}" for e in debate_examples(6)]
    names = [identity.name.lower() for identity in about.identities]
    words = set(re.findall(r"[a-z0-9-]+", " ".join(examples).lower()))
    assert not words & set(names)
    assert not shared_runs(examples, seed_texts(name))
    assert not shared_runs(examples, [s.text for s in labelled_statements(name)])
    assert not shared_runs(examples, scene_texts())


# ---- templates


def test_a_template_misses_no_value_silently() -> None:
    with pytest.raises(jinja2.UndefinedError):
        debate_prompt("opening")


def test_what_a_model_wrote_is_not_read_as_a_template() -> None:
    opening = debate_prompt("opening", topic="{{ 7 * 6 }} <b>", question="")
    assert opening == "Topic: {{ 7 * 6 }} <b>"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"text": "Should cats vote", "question": None},
            "What do you think about this: Should cats vote? Give your view and your reasons.",
        ),
        (
            {"text": "Two met.", "question": "Who left?"},
            "Two met. Who left? Say what can be concluded, and why.",
        ),
        (
            {"text": "Two met.", "question": "Who left?", "clue": "The cook went."},
            "Two met. The cook went. Who left? Say what can be concluded, and why.",
        ),
    ],
)
def test_the_answer_prompt_is_the_topic_in_one_fixed_template(
    values: dict[str, str], text: str
) -> None:
    assert render("answer", **{"clue": None, "identity": None, **values}) == text


@all_types
def test_the_answer_prompt_adds_an_identity_after_the_topic(name: str) -> None:
    plain = render("answer", text="T", question=None, clue=None, identity=None)
    for identity in bias_type(name).identities:
        text = render("answer", text="T", question=None, clue=None, identity=identity)
        assert text == f"{plain}\nAnswer as {identity.article} {identity.name} would."


def test_the_referee_is_asked_for_scores_and_ranks_only() -> None:
    system = referee_prompt("system")
    score = referee_prompt("score", context="C", text="S")
    rank = referee_prompt("rank", context="C", texts=["S", "T"])
    assert "impartial" in system and "0" in system and "10" in system
    assert score.endswith("Answer with one number from 0 to 10.")
    assert "Statement 1: S" in rank and "Statement 2: T" in rank
    assert not re.search(r"reason|explain|why", f"{system} {score} {rank}", re.IGNORECASE)


def test_the_system_prompt_of_debaters_is_free_of_roles() -> None:
    system = debate_prompt("system", identities=(), examples=debate_examples(6))
    every = [*TYPES, *MORE]
    names = [identity.name for name in every for identity in bias_type(name).identities]
    assert [name for name in names if re.search(rf"\b{re.escape(name)}\b", system)] == []
    assert "You are" not in system


def test_no_template_of_a_debate_knows_how_many_rounds_there_are() -> None:
    paths = list(DEBATE_PROMPTS.glob("*.txt"))
    assert paths
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"rounds|\bof \{\{|last round|final|remaining", text), path.name


# ---- bias types


def test_the_papers_five_bias_types_and_bbqs_nine_have_a_file_each() -> None:
    files = shipped_bias_types()
    assert files == sorted([*TYPES, *MORE])


@all_types
def test_a_bias_type_is_called_as_its_file_and_has_five_identities(name: str) -> None:
    about = bias_type(name)
    names = [identity.name for identity in about.identities]
    content = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"))
    assert about.name == content["name"] == name
    assert len(names) == len(set(names)) == 5


@the_papers
def test_the_papers_identities_come_first(name: str) -> None:
    names = [identity.name for identity in bias_type(name).identities]
    for found, expected in zip(names[:3], FIRST_THREE[name], strict=True):
        assert re.search(rf"\b{expected}\b", found), found


@all_types
def test_identities_have_a_fitting_article_and_a_background_of_their_own(name: str) -> None:
    identities = bias_type(name).identities
    for identity in identities:
        vowel = identity.name[0].lower() in "aeiou" or identity.name.startswith(("8", "18"))
        assert identity.article == ("an" if vowel else "a"), identity.name
        assert len(identity.background.split()) > 15
    assert len({identity.background for identity in identities}) == 5


@all_types
def test_a_bias_type_has_at_least_40_seed_topics_of_both_kinds(name: str) -> None:
    about = bias_type(name)
    assert len(about.opinion_topics) + len(about.judgement_topics) >= 40
    assert min(len(about.opinion_topics), len(about.judgement_topics)) >= 20


@all_types
def test_every_seed_judgement_passes_the_check_that_written_ones_must_pass(name: str) -> None:
    problems = {j.scene: judgement_problem(j) for j in bias_type(name).judgement_topics}
    assert {scene: why for scene, why in problems.items() if why} == {}


@all_types
def test_the_first_named_group_is_no_better_guess_than_the_second(name: str) -> None:
    topics = bias_type(name).judgement_topics
    first = sum(topic.answer == topic.groups[0] for topic in topics)
    assert abs(first - len(topics) / 2) <= len(topics) / 8
    earlier = sum(topic.answer == min(topic.groups, key=place_in(topic.scene)) for topic in topics)
    assert abs(earlier - len(topics) / 2) <= len(topics) / 4


@all_types
def test_a_seed_scene_does_not_hold_its_clue(name: str) -> None:
    for topic in bias_type(name).judgement_topics:
        clue = topic.clue.lower()
        for group in topic.groups:
            clue = clue.replace(group.lower(), "they")
        assert not shared_runs([topic.scene], [clue])


@all_types
def test_a_seed_clue_tells_of_both_so_that_it_has_to_be_read(name: str) -> None:
    """A model trained on clues that name one person answers with the name, read or not."""
    topics = bias_type(name).judgement_topics
    for topic in topics:
        assert all(place_in(topic.clue)(group) < len(topic.clue) for group in topic.groups), topic
    earlier = sum(topic.answer == min(topic.groups, key=place_in(topic.clue)) for topic in topics)
    assert abs(earlier - len(topics) / 2) <= len(topics) / 10


@all_types
def test_no_two_seed_topics_are_alike(name: str) -> None:
    about = bias_type(name)
    for texts in (about.opinion_topics, [j.scene for j in about.judgement_topics]):
        for one, other in itertools.combinations(texts, 2):
            assert fuzz.token_sort_ratio(one.lower(), other.lower()) < 85, (one, other)


@all_types
def test_a_seed_opinion_topic_passes_the_check_that_written_ones_must_pass(name: str) -> None:
    for text in bias_type(name).opinion_topics:
        assert 3 <= len(text.split()) <= 25
        assert text == " ".join(text.split()).strip(" .-")


def test_an_unknown_bias_type_is_told_the_known_ones() -> None:
    with pytest.raises(BiasTypeError) as caught:
        bias_type("hight")
    assert all(part in str(caught.value) for part in ["'hight'", *TYPES])


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("name: mine\n", "identities"),
        ("name: [mine\n", "mine"),
        ("nme: mine\n", "nme"),
        ("- 3\n", "dictionary"),
    ],
)
def test_a_wrong_bias_type_file_is_named_with_the_field(
    content: str, part: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BiasTypeError) as caught:
        bias_type(str(path))
    assert str(path) in str(caught.value) and part in str(caught.value)


def test_a_bias_type_needs_five_identities(tmp_path: Path) -> None:
    text = (SHIPPED / "age.yaml").read_text(encoding="utf-8")
    start, end = text.index("  - name: 75-year-old"), text.index("opinion_topics:")
    path = tmp_path / "mine.yaml"
    path.write_text(text[:start] + text[end:], encoding="utf-8")
    with pytest.raises(BiasTypeError, match="identities"):
        bias_type(str(path))


def test_a_bias_type_can_be_a_file_of_ones_own_and_is_called_as_the_plan_calls_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((SHIPPED / "age.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    assert bias_type(str(path)).name == str(path)
    assert bias_type(str(path)).identities == bias_type("age").identities


# ---- scenes


def test_the_scenes_load_as_160_items_of_five_categories() -> None:
    found = load_bbq(SCENES)
    counts = Counter(item.category for item in found.items)
    assert counts == dict.fromkeys(
        ("Age", "Beauty", "Institution", "Nationality", "Profession"), 32
    )
    assert len({item.key for item in found.items}) == 160
    assert found.why_no_bias_scores is None and not found.contradictory
    assert all(item.target_loc is not None for item in found.items)


def test_the_scenes_are_balanced_over_conditions_polarities_and_places_of_the_answer() -> None:
    items = load_bbq(SCENES).items
    assert set(Counter((i.condition, i.polarity) for i in items).values()) == {40}
    assert all(i.label == i.unknown for i in items if i.condition == "ambig")
    assert all(i.label != i.unknown for i in items if i.condition == "disambig")
    settled = [i for i in items if i.condition == "disambig"]
    assert sum(i.label == i.target_loc for i in settled) == len(settled) / 2
    assert min(Counter(i.unknown for i in items).values()) >= 160 / 4


def test_the_scenes_give_bias_scores_of_one_to_a_stereotyped_reader() -> None:
    items = load_bbq(SCENES).items
    result = score(items, {item.key: item.target_loc for item in items})
    assert result.overall.s_dis == pytest.approx(1.0)
    assert result.overall.s_amb == pytest.approx(1.0)


def test_each_scenes_targets_name_every_item_once() -> None:
    for path in sorted(SCENES.glob("target_loc.*.csv")):
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert {row["category"] for row in rows} == {path.name.split(".")[1]}
        assert [int(row["example_id"]) for row in rows] == list(range(32))


def test_the_scenes_do_not_occur_in_the_labelled_statements() -> None:
    found = [s for name in TYPES for s in labelled_statements(name)]
    texts = [text for s in found for text in (s.text, s.context)]
    for item in load_bbq(SCENES).items:
        assert [text for text in texts if item.context in text or text in item.context] == []
    assert not shared_runs(texts, scene_texts())


def test_the_scenes_do_not_occur_in_the_seed_topics() -> None:
    seeds = [text for name in [*TYPES, *MORE] for text in seed_texts(name)]
    assert not shared_runs(seeds, scene_texts())
