"""What a protocol's folder defines, and who takes part in it.

A folder of `protocols/` is a protocol if its package has these names (`StatementProtocol`). Nothing
else lists it: a plan's `debate.protocol` names the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from rldf_ray.models.base import ChatModel
from rldf_ray.plan import Part, Plan
from rldf_ray.records import Statement, Topic
from rldf_ray.referee.verdict import Referee


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Who takes part, the same for every item of a run.

    Attributes:
        models: for every role of the protocol's ROLES, the model that plays it.
        seats: the models of the debaters in their order, where the plan names one for each; empty
            where one plays all of them.
        referee: scores the statements; it may be a model or a whole protocol of its own.
        run_id: recorded with every statement.
        on_statements: called after each refereed round with the number of its statements.
    """

    plan: Plan
    run_id: str
    models: Mapping[str, ChatModel]
    referee: Referee
    seats: Sequence[ChatModel] = ()
    on_statements: Callable[[int], None] = lambda number: None


class Item(Interface):
    """What a protocol is held on."""

    @property
    def address(self) -> str:
        """Unique in the run; the addresses of all of the item's requests begin with it."""
        ...


class StatementProtocol(Interface):
    """A protocol whose participants make statements, which become training data.

    A package satisfies this with module-level names. One whose debaters may have a model each
    (`Cast.seats`) says so by `SEATED = True`; a plan's `debate.seats` is refused of the others.
    """

    @property
    def ROLES(self) -> Mapping[str, Part]:  # noqa: N802
        """Who takes part: each role, and the part of the plan that names its model."""
        ...

    def items(self, topics: Sequence[Topic], plan: Plan) -> list[Any]:
        """What a run holds, `Item`s in the order of their rows.

        Raises:
            ValueError: the topics do not suffice; says what to change in the plan.
        """
        ...

    def statements_per_item(self, plan: Plan) -> int:
        """How many statements an item has, for the progress bar."""
        ...

    async def hold(self, item: Any, cast: Cast) -> list[Statement]:
        """Hold one item to its end; returns its statements, in the order of their rows.

        Raises:
            ModelError: a model could not answer; nothing is made up in its place.
        """
        ...
