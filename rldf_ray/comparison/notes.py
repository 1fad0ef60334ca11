"""What is to be known when a comparison's tables are read, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rldf_ray.comparison.costs import Cost
from rldf_ray.comparison.results import ALL, BBQ, Rows
from rldf_ray.comparison.settings import HOW, Settings
from rldf_ray.comparison.tables import cell_of
from rldf_ray.evaluate.bbq.prompt import RANKED, Mode
from rldf_ray.evaluate.bbq.run_models import set_name, topic_overlap
from rldf_ray.evaluate.contamination import answer_overlap, answers_sentence, overlap_sentence
from rldf_ray.plan import Plan
from rldf_ray.records import Topic
from rldf_ray.sets.bbq.items import BBQItem, BBQSet
from rldf_ray.topics.overlap import overlap_counts, topic_texts

EQUAL = 0.05
GIVEN = {
    "statements": "statements",
    "SFT rows": "sft_rows",
    "SFT steps": "sft_steps",
    "pairs": "pairs",
    "episodes": "episodes",
    "generated tokens": "generated_tokens",
}
"""What rows should be given equally: its name -> the field of a cost."""


def notes_of(plan: Plan, settings: Settings, items: BBQSet, pairs: int | None) -> list[str]:
    """How the items were answered and what every row was given."""
    number = settings.repeats
    how = " and ".join(HOW[mode] for mode in settings.modes)
    notes = [
        f"{set_name(plan)}: {len(items.items)} items, the same for all methods and repeats; {how}.",
        _repeats(plan, number),
        *_intervals(items, number),
    ]
    has_default = settings.methods is None or "default" in settings.methods
    if has_default and settings.mode in RANKED and number > 1:
        notes.append("Default ranks without drawing anything, so its repeats are equal.")
    if plan.referee.judgements == "checked":
        notes.append("Of statements on scenes the referee was told what can be concluded.")
    if plan.referee.judgements == "matched":
        notes.append(
            "Labels on scenes are verifiable answers: chosen ones, matched with the record."
        )
    section = plan.debate
    heard = section.protocol == "multirole" and section.rounds > 1 and pairs is not None
    told = section.show_marks and plan.referee.judgements != "scored"
    if told and heard and plan.topics.judgement_share:
        notes.append(
            "From the second round on RLDF's debaters read marks that say which answers agree with "
            "the record, others' and their own; answers of RLAIF, and of debaters whom nobody "
            "heard or who are shown no marks, are given without any."
        )
    if pairs is not None:
        notes.append(
            f"Every reward model was given {pairs} pairs: the fewest that a source had, of those "
            "the plan takes."
        )
    if items.why_no_bias_scores:
        notes.append(f"No bias scores: {items.why_no_bias_scores}.")
    return notes


def always_unknown_note(results: Rows, titles: Mapping[str, str], always_unknown: float) -> str:
    """Which methods a model that reads nothing is ahead of, or level with, on all items."""
    means = {
        title: cell_of(results, name, BBQ, ALL, "accuracy").mean for name, title in titles.items()
    }
    behind = [title for title, mean in means.items() if mean is not None and mean <= always_unknown]
    ahead = f"at or ahead of {', '.join(behind)}" if behind else "behind every method"
    return (
        f"A model that always says that it cannot be known has {always_unknown:.3f} overall, "
        f"{ahead}. It is no method, as it has no disambiguated item right: read the overall "
        "accuracy together with the disambiguated one."
    )


def unequal_notes(costs: Mapping[str, Cost], titles: Mapping[str, str]) -> Iterator[str]:
    """What other rows were given that is more than `EQUAL` off what RLDF's was given.

    A row that has none of something is another method, and says so by its name: it is left out.
    """
    reference = next((n for n in costs if n.startswith(("rldf_self", "rldf_teacher"))), None)
    if reference is None:
        return
    ours = costs[reference]
    for name, cost in costs.items():
        given = {
            what: (getattr(cost, field), getattr(ours, field)) for what, field in GIVEN.items()
        }
        off = [
            f"{number} {what} ({100 * (number / of - 1):+.0f} %)"
            for what, (number, of) in given.items()
            if number and of and abs(number / of - 1) > EQUAL
        ]
        if off:
            yield f"{titles[name]} differs from {titles[reference]} in size, too: {', '.join(off)}."


def cut_off_notes(costs: Mapping[str, Cost], titles: Mapping[str, str]) -> Iterator[str]:
    """Whose thoughts were cut off: an answer after half a thought is another method's."""
    for name, cost in costs.items():
        shares = [
            f"{100 * answering.cut_off:.0f} % ({mode})"
            for mode, answering in cost.answering.items()
            if answering.cut_off
        ]
        if shares:
            yield (
                f"{titles[name]}: of what it said before it answered, a limit of tokens cut off "
                f"{' and '.join(shares)}."
            )


def rewriting_notes(
    counts: Mapping[tuple[str, Mode], Mapping[str, int]], titles: Mapping[str, str]
) -> Iterator[str]:
    """How often a loop changed what a method said first: where it never did, it did nothing.

    Args:
        counts: of a method in one way of asking, over its repeats; empty of one without a loop, and
            of answers of an earlier version.
    """
    for (name, mode), counted in counts.items():
        if counted.get("loops"):
            yield (
                f"{titles[name]} ({mode}): rewritten {counted['rewritten']} of {counted['loops']}; "
                f"verdicts that did not parse: {counted['no_verdict']}."
            )


def overlap_notes(
    topics: Sequence[Topic],
    completions: Mapping[str, Mapping[str, int]],
    sets: Mapping[str, Sequence[BBQItem]],
) -> Iterator[str]:
    """Whether what was trained on repeats the items; nothing where nothing was trained.

    Args:
        topics: trained on, or held out for free answers.
        completions: what each method is trained to say, or to say rather than something else, and
            how often.
        sets: the items answered, by the name of their set.
    """
    trained_on = [topic for topic in topics if topic.split != "eval"]
    for name, items in sets.items() if trained_on else ():
        yield overlap_sentence(topic_overlap(trained_on, items), name)
        for method, texts in completions.items():
            yield f"{method}: {answers_sentence(answer_overlap(texts, items), name)}"
    held_out = [topic for topic in topics if topic.split == "eval"]
    if held_out:
        counts = overlap_counts(trained_on, topic_texts(held_out))
        repeated = {"ngram": counts["ngram"], "same_words": counts["same_words"]}
        yield overlap_sentence({"topics": len(trained_on), **repeated}, "the held-out topics")


def _intervals(items: BBQSet, repeats: int) -> Iterator[str]:
    templates = len({(item.category, item.question_index) for item in items.items})
    yield (
        f"Intervals and p-values: paired bootstrap over the items' {templates} question templates "
        "of each item's share of right repeats (where scores are compared, over topics of each "
        "prompt's mean score); Holm's adjustment over all comparisons of one kind of items in one "
        "way of asking, or of one measure. They are of the models that were trained, whose seeds "
        "they hold fixed."
    )
    if repeats > 1:
        yield (
            f"Over seeds: Student's t-interval of the {repeats} repeats' differences, paired by "
            "repeat and not adjusted; a verdict says where it includes 0."
        )


def _repeats(plan: Plan, number: int) -> str:
    if number == 1:
        return (
            f"One repeat, seed {plan.seed}: one trained model of each row is compared, and how "
            "much another seed's would differ is not known."
        )
    return (
        f"{number} repeats, seeds {plan.seed} to {plan.seed + number - 1}; debates are held once "
        "and shared by all seeds, so the deviation is that of training and sampling."
    )
