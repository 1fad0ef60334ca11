"""What is compared, and on which items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rldf_ray.evaluate.bbq.prompt import Mode
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.evaluate.judge.run import AUDIT_PAIRS
from rldf_ray.evaluate.multirole.data import PER_BIAS_TYPE
from rldf_ray.plan import Plan, PlanError
from rldf_ray.sets.bbq.data import categories_in

LEAST_ITEMS = 240
HOW: Mapping[Mode, str] = {
    "rank": "options ranked by their tokens' mean log-likelihood",
    "rank_sum": "options ranked by the whole answer's log-likelihood",
    "letter": "by letter",
    "generate": "in words",
}
"""Ways of asking, as titles and notes have them."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is compared, besides the plan.

    Attributes:
        methods: files of comparison/methods; None is all that the plan has something for and
            that are neither controls nor on request.
        controls: the methods that are controls are rows, too.
        teachers: of teacher-student, a row each; none are the plan's own.
        repeats: repeat r trains and thinks with the plan's seed plus r.
        dev_items: comparisons, or their eval/items.parquet, on whose items settings were chosen;
            none of these items is asked.
        modes: how the items are answered: options ranked, by letter, or one after the other.
        figures: files of other evaluations of the same methods, in the columns of results.parquet.
        judge: who scores the free answers, vllm:MODEL or openai:MODEL; None is nobody.
        audit_pairs: labelled pairs of each bias type that the judge is audited on; 0 is no audit.
        queries: of the multi-role debate set, for each bias type, if the plan has the set.
    """

    methods: tuple[str, ...] | None = None
    controls: bool = False
    teachers: tuple[str, ...] = ()
    repeats: int = 3
    dev_items: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = ("rank", "letter")
    figures: tuple[str, ...] = ()
    queries: int = PER_BIAS_TYPE
    judge: str | None = None
    audit_pairs: int = AUDIT_PAIRS

    @property
    def mode(self) -> Mode:
        """The way of asking that Table 1 and the figures are of."""
        return self.modes[0]


def plan_with_items(
    plan: Plan, bbq: str | None, items: int | None, multirole: str | None = None
) -> Plan:
    """The plan with the comparison's items as its evaluation set.

    Topics are then kept apart from these sets.

    Args:
        bbq: BBQ's files; None is the plan's own set, or the scenes shipped here.
        items: in all, spread over the categories; None is the plan's own number, on BBQ at least
            `LEAST_ITEMS`.
        multirole: the multi-role debate set's folder; None is the plan's own, or none.
    """
    given = {"bbq": bbq, "multirole": multirole}
    section = plan.evaluate.model_copy(
        update={name: folder for name, folder in given.items() if folder is not None}
    )
    if section.bbq is None and items is None:
        return plan.model_copy(update={"evaluate": section})
    categories = len(categories_in(section.bbq or SCENES))
    each = section.items_per_category
    if items is not None:
        each = whole_blocks(items, categories)
    elif each is not None:
        each = max(each, whole_blocks(LEAST_ITEMS, categories))
    section = section.model_copy(update={"items_per_category": each})
    return plan.model_copy(update={"evaluate": section})


def whole_blocks(items: int, categories: int) -> int:
    """Items of each category, in blocks of two conditions and two polarities, `items` or more."""
    blocks = 4 * categories
    return 4 * -(-items // blocks)


def ways_of_asking(modes: Sequence[Mode]) -> tuple[Mode, ...]:
    """One way of asking or two, the first that of Table 1.

    Raises:
        PlanError: there are more.
    """
    different = tuple(dict.fromkeys(modes))
    if len(different) > 2:
        raise PlanError(f"--mode {', '.join(different)}: allowed are one way of asking, or two")
    return different
