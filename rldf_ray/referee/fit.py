"""What a referee is fitted to and audited on: labelled statements, as minimal pairs or one by one.

The pairs go to the project's reward trainer (`train/reward.py`), chosen the fair side, rejected the
biased one. It holds some topics out; on their statements rewards become scores
(`referee/platt.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from rldf_ray.plan import Plan, PlanError
from rldf_ray.records import TopicKind
from rldf_ray.referee.labelled_statements import (
    LabelledStatement,
    held_out_statements,
    labelled_statements,
)
from rldf_ray.referee.trained import referee_prompt


def fit_statements(plan: Plan) -> list[LabelledStatement]:
    """The half of the labelled statements that a plan's referee may be fitted to.

    Opinions, answers to scenes, or both: what it judges. A referee of scenes that is fitted to
    opinions as well reads scenes the worse.
    """
    labelled = (s for name in fit_bias_types(plan) for s in labelled_statements(name))
    kinds = judged_kinds(plan)
    return [s for s in labelled if s.split == "fit" and s.kind in kinds]


def judged_kinds(plan: Plan) -> set[TopicKind]:
    """The kinds of topic that a plan debates and leaves to its referee."""
    share, matched = plan.topics.judgement_share, plan.referee.judgements == "matched"
    kinds: dict[TopicKind, bool] = {"opinion": share < 1, "judgement": share > 0 and not matched}
    return {kind for kind, judged in kinds.items() if judged}


def fit_bias_types(plan: Plan) -> Sequence[str]:
    """Whose labelled statements a plan's referee is fitted to and audited on."""
    return plan.referee.fit.bias_types or plan.bias_types


def audit_statements(plan: Plan) -> list[LabelledStatement]:
    """The held-out statements that a plan's referee is audited on, labelled by its standard.

    A trained one on the kinds it is fitted to, and one that is spared scenes on what it judges.
    """
    names, kinds = _audited(plan)
    pairs, seed = plan.referee.audit_pairs, plan.seed
    held_out = (s for name in names for s in held_out_statements(name, pairs, seed, kinds))
    return _by_its_standard(plan, held_out)


def baseline_statements(
    plan: Plan, audited: Sequence[LabelledStatement]
) -> list[LabelledStatement]:
    """What the audit's baseline is fitted to: the `fit` half of the sets and kinds that were
    audited, labelled by the same standard.

    Statements that were given are of no set of ours: it is fitted to those that the plan names.
    """
    names, kinds = _audited(plan)
    own = {s.pair for s in audited if s.form != "given"}
    if own:
        every = dict.fromkeys((*names, *fit_bias_types(plan), *plan.bias_types))
        names = [n for n in every if own & {s.pair for s in labelled_statements(n)}]
        kinds = {s.kind for s in audited}
    labelled = (s for name in names for s in labelled_statements(name))
    fit = (s for s in labelled if s.split == "fit" and s.kind in kinds)
    return _by_its_standard(plan, fit)


def _audited(plan: Plan) -> tuple[Sequence[str], Collection[TopicKind]]:
    """Sets of labelled statements and kinds that a plan's referee is audited on."""
    trained, spared = plan.referee.fitted, plan.referee.judgements == "matched"
    names = fit_bias_types(plan) if trained else plan.bias_types
    return names, judged_kinds(plan) if trained or spared else ("opinion", "judgement")


def _by_its_standard(
    plan: Plan, statements: Iterable[LabelledStatement]
) -> list[LabelledStatement]:
    checks = plan.referee.judgements == "checked"
    return [s.as_answer() if checks else s for s in statements]


def shared_statements(plans: Mapping[str, Plan]) -> list[LabelledStatement]:
    """The statements that the referees of all plans would be audited on, with the same label.

    Raises:
        PlanError: there are none.
    """
    sets = {name: audit_statements(plan) for name, plan in plans.items()}
    keys = [{_key(statement) for statement in found} for found in sets.values()]
    common = set.intersection(*keys)
    if not common:
        numbers = ", ".join(f"{name} {len(found)}" for name, found in sets.items())
        raise PlanError(
            f"no labelled statement is for all of these referees ({numbers} for each alone): they "
            "differ in bias types, in the kinds of topic they judge, or in what counts as biased; "
            "compare referees of one referee.judgements and referee.fit.bias_types, on topics that "
            "they judge (topics.judgement_share)"
        )
    return [statement for statement in next(iter(sets.values())) if _key(statement) in common]


def _key(statement: LabelledStatement) -> tuple[str, str, int]:
    return statement.context, statement.text, statement.label


def fit_pairs(statements: Sequence[LabelledStatement]) -> pa.Table:
    """Preference pairs, one for each minimal pair: topic_id, prompt, chosen, rejected.

    Raises:
        ValueError: the sides of a pair differ in their context, or one is missing.
    """
    sides: dict[str, dict[int, LabelledStatement]] = {}
    for statement in statements:
        sides.setdefault(statement.pair, {})[statement.label] = statement
    return pa.Table.from_pylist([_pair(name, statements) for name, statements in sides.items()])


def _pair(name: str, sides: dict[int, LabelledStatement]) -> dict[str, object]:
    if sides.keys() != {0, 1} or sides[0].context != sides[1].context:
        raise ValueError(f"labelled pair {name}: one biased and one fair side in one context")
    return {
        "topic_id": sides[0].topic,
        "prompt": fit_prompt(sides[0].context),
        "chosen": [{"role": "assistant", "content": sides[0].text}],
        "rejected": [{"role": "assistant", "content": sides[1].text}],
    }


def fit_prompt(context: str) -> list[dict[str, str]]:
    """What a statement answers, as the referee reads it."""
    return [{"role": m.role, "content": m.content} for m in referee_prompt(context)]


def rewards_of(
    folder: str,
    answers: Sequence[tuple[list[dict[str, str]], str]],
    *,
    device: str,
    threads: int,
    max_length: int,
) -> list[float | None]:
    """The reward of each statement as the referee will give it; runs on a worker.

    Args:
        answers: what each answers, by `fit_prompt` where the plan is known, and its text.
    """
    from rldf_ray.models.reward_score import reward_model

    model = reward_model(folder, device, threads, max_length)
    return [model.score_answer(prompt, text)[0] for prompt, text in answers]
