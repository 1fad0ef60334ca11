"""What makes a protocol a source of a run's data: its items come from topics, its rows go to train.

A folder of `protocols/` with a `study.py`, and a `source.py` that has the names of `Source`, is a
source. Nothing else lists it: a plan's `debate.protocol` names the folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from typing import Protocol as Interface

from pydantic import ValidationError

from rldf_ray.errors import UserError
from rldf_ray.plan import Plan
from rldf_ray.plan.loading import explain, plan_fields
from rldf_ray.protocols.known import source_named, study_named
from rldf_ray.protocols.seam import Item
from rldf_ray.records import Debate
from rldf_ray.storage.run_folder import RunFolder

PARTS = ("debate", "referee", "topics")
"""What the settings of a source call the plan's models."""
SEARCHES = "debate.settings.searches"
"""The field of a plan that names what its source searches."""
TALKING = ("prompted", "debate", "meta")
"""Kinds of referees whose model answers in words; a fitted one gives scores alone."""


UNREAD = (
    *("debate.debaters", "debate.rounds", "debate.order", "debate.layout", "debate.examples"),
    *(
        "debate.show_marks",
        "debate.answers",
        "debate.max_tokens",
        "debate.temperature",
        "debate.top_p",
    ),
    "data.min_gap",
)
"""Fields of a plan that no source reads: its own settings have what there is of them."""


class SourceError(UserError, ValueError):
    """A plan's source cannot be held; the message names the field and what is allowed."""


class Source(Interface):
    """The module `source` of a protocol's folder satisfies this with its names.

    Its items have the ids of the debates that they are made of, and its training rows name them by
    `item_id`, or by `topic`.
    """

    @property
    def FROM_TOPICS(self) -> Collection[str]:  # noqa: N802
        """The fields of its study's settings that a plan does not set, as topics decide them."""
        ...

    def defaults(self, judge: str) -> Mapping[str, Any]:
        """Its study's settings where the plan sets none; `judge` is who judges by default."""
        ...

    def problem(self, plan: Plan) -> str | None:
        """Why topics of this plan are no items of its own; None where they are."""
        ...

    def item_of(self, instance: Debate, plan: Plan) -> Item | None:
        """The item of one topic, with its clue or without; None where there is none."""
        ...

    def failure(self, outcome: Mapping[str, Any]) -> str | None:
        """Why an outcome, a row of its study's, failed; None where it did not."""
        ...

    def training_rows(
        self, folder: RunFolder, settings: Any, seed: int
    ) -> Mapping[str, Iterable[Mapping[str, Any]]]:
        """What a run learns of the items held in `folder`: rows of `sft` and of `pairs`."""
        ...


def source_items(source: Source, instances: Iterable[Debate], plan: Plan) -> list[Item]:
    """The items of those instances that have one."""
    items = (source.item_of(instance, plan) for instance in instances)
    return [item for item in items if item is not None]


def source_settings(plan: Plan) -> Any:
    """The settings of the plan's source, whose models are parts of the plan.

    Raises:
        SourceError: a field is wrong, unknown, decided by the topics, or names no part.
    """
    name = plan.debate.protocol
    source, study = source_named(name), study_named(name)
    given = plan.debate.settings or {}
    fields = list(plan_fields(study.SETTINGS, "debate.settings."))
    decided = sorted(set(given) & set(source.FROM_TOPICS))
    if decided:
        raise SourceError(
            f"debate.settings.{decided[0]}: the topics decide it; leave it out "
            f"(debate.protocol={name})"
        )
    try:
        settings = study.SETTINGS.model_validate(merged(source.defaults(judge_of(plan)), given))
    except ValidationError as error:
        raise SourceError(explain(error, fields, "debate.settings").strip()) from error
    wrong = [model for model in study.models(settings) if model not in PARTS]
    if wrong:
        raise SourceError(
            f"debate.settings: names the models {', '.join(wrong)}; allowed are the plan's parts: "
            f"{', '.join(PARTS)}"
        )
    if "referee" in study.models(settings) and judge_of(plan) != "referee":
        raise SourceError(
            f"debate.settings: names the referee, and referee.kind={plan.referee.kind} has no "
            "model that answers in words; name debate or topics"
        )
    return settings


def judge_of(plan: Plan) -> str:
    """Who judges where a protocol has a judge: the referee's model, or else who debates."""
    return "referee" if plan.referee.kind in TALKING else "debate"


def check_source(plan: Plan) -> None:
    """Nothing where topics of the plan can be held by its source.

    Raises:
        SourceError: they cannot; names the field and what is allowed.
    """
    source_settings(plan)
    if plan.data.pairing != "same_topic":
        raise SourceError(
            f"data.pairing={plan.data.pairing} with debate.protocol={plan.debate.protocol}: its "
            "rows are of nobody's position; allowed: same_topic"
        )
    problem = source_named(plan.debate.protocol).problem(plan)
    if problem is not None:
        raise SourceError(problem)


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Given values over defaults, sections field by field."""
    both = {**defaults}
    for name, value in given.items():
        before = both.get(name)
        deeper = isinstance(before, Mapping) and isinstance(value, Mapping) and name != "searches"
        both[name] = merged(before, value) if deeper else value  # type: ignore[arg-type]
    return both
