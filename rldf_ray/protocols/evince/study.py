"""The study of EVINCE: every arm and every baseline, for each text (the paper, section 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.plan.study import StudyPlan
from rldf_ray.protocols.evince.arms import arm_settings, given_labels, stances
from rldf_ray.protocols.evince.baselines import Answer, answers, at_equal_tokens, mean
from rldf_ray.protocols.evince.decision import Decision, decide
from rldf_ray.protocols.evince.dialogue import Dialogue, Dispute
from rldf_ray.protocols.evince.errors import CaseError
from rldf_ray.protocols.evince.estimate import estimate as estimate
from rldf_ray.protocols.evince.folder import results_of
from rldf_ray.protocols.evince.folder import write_for_people as write_sheets
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.items import item_table as item_table
from rldf_ray.protocols.evince.prompt import Recorded, text_prompt
from rldf_ray.protocols.evince.reading import read_items
from rldf_ray.protocols.evince.records import (
    ARGUMENTS,
    OUTCOMES,
    ROUNDS,
    any_flagged,
    argument_rows,
    decision_fields,
    label_fields,
    round_rows,
    said_mixture,
)
from rldf_ray.protocols.evince.remediation import Ended, Remediation, remediation, stored
from rldf_ray.protocols.evince.scale import LabelScale, load_scale
from rldf_ray.protocols.evince.settings import Arm, EvinceSettings
from rldf_ray.protocols.evince.summary import summary as summary
from rldf_ray.protocols.evince.trace import OTHER
from rldf_ray.protocols.evince.training import training_rows as training_rows
from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.protocols.seats import Seats
from rldf_ray.protocols.study import Held, StudyCast
from rldf_ray.storage.run_folder import RunFolder

TITLE = "Which label a text deserves, disputed by two models"
SETTINGS = EvinceSettings
TABLES = {"outcomes": OUTCOMES, "rounds": ROUNDS, "arguments": ARGUMENTS}


def models(settings: EvinceSettings) -> Sequence[str]:
    return settings.models()


def items(settings: EvinceSettings, seed: int) -> ItemSet[EvinceItem]:
    return read_items(settings, seed)


def write_for_people(
    folder: RunFolder,
    items: Sequence[EvinceItem],
    tables: Mapping[str, pa.Table],
    settings: EvinceSettings,
    plan: StudyPlan,
) -> None:
    """The review sheet and the remediation report."""
    write_sheets(folder, results_of(items, tables, settings, plan.seed), plan.name)


async def hold(item: EvinceItem, cast: StudyCast) -> Held:
    """All arms and baselines of one text."""
    settings: EvinceSettings = cast.settings
    one = _Item(item, settings, load_scale(settings.scale).named(item.labels), cast)
    return await one.hold()


class _Item:
    """One text of a study at work."""

    def __init__(
        self, item: EvinceItem, settings: EvinceSettings, scale: LabelScale, cast: StudyCast
    ) -> None:
        self._item, self._settings, self._scale = item, settings, scale
        self._seats = Seats(item=item.item_id, models=cast.models, seed=cast.seed)
        self._text = text_prompt(item, scale, settings)
        self._own: list[Answer] = []
        self._rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in TABLES}

    async def hold(self) -> Held:
        labels = {
            arm: given_labels(self._item.given, arm_settings(self._settings, arm))
            for arm in self._settings.arms
        }
        if self._settings.rates == "item" and not all(labels.values()):
            own = await self._own_label()
            labels = {arm: given or own for arm, given in labels.items()}
        async with asyncio.TaskGroup() as group:
            arms = [group.create_task(self._arm(arm, labels[arm])) for arm in labels]
        # In the plan's order, whichever ended first.
        for task in arms:
            for name, rows in task.result().items():
                self._rows[name] += rows
        await self._baselines()
        return Held(turns=self._seats.turns, tables=self._rows)

    def _keep(self, row: Mapping[str, Any]) -> None:
        self._rows["outcomes"].append(row)

    async def _own_label(self) -> tuple[str, ...]:
        """What A's model itself says, where no side is told a label (a choice)."""
        (one,) = await self._answers(1, self._settings.temperature)
        self._own = [one]
        if one.distribution is None:
            return ()
        return (self._scale.label_of(one.distribution),)

    async def _arm(self, arm: Arm, labels: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
        """One dialogue; its rows by table."""
        if not labels and self._settings.rates == "item":
            why = f"A's model gave no label to defend: {self._own[0].failure}"
            return {"outcomes": [self._failed(arm, why)]}
        settings = arm_settings(self._settings, arm)
        dispute = await Dialogue(
            key=arm,
            text=self._text,
            source=self._item.source_text,
            stances=stances(labels or self._scale.names[:1], arm),
            scale=self._scale,
            settings=settings,
            seats=self._seats,
        ).hold()
        item_id = self._item.item_id
        return {
            "outcomes": [await self._outcome_of(arm, dispute, settings, self._spent(arm))],
            "rounds": round_rows(item_id, arm, dispute, settings, self._scale),
            "arguments": argument_rows(item_id, arm, dispute, settings),
        }

    async def _outcome_of(
        self, arm: Arm, dispute: Dispute, settings: EvinceSettings, spent: int
    ) -> dict[str, Any]:
        if dispute.status == "failed":
            failed = self._failed(arm, dispute.failure)
            of = {"rounds": len(dispute.rounds), "dual": dispute.dual, "generated_tokens": spent}
            return {**failed, **of}
        decision = decide(
            dispute.rounds,
            dispute.status,
            self._item.given,
            settings.crit,
            self._scale,
            any_flagged(dispute, settings.crit.weak),
        )
        case = failure = None
        if settings.remediation and arm == "main":
            case, failure = await self._case(arm, dispute, decision, settings)
        return {
            **_empty(self._item.item_id, arm),
            **decision_fields(decision),
            **label_fields(said_mixture(dispute, decision), self._scale, "said_"),
            "status": dispute.status,
            "failure": failure,
            "rounds": len(dispute.rounds),
            "dual": dispute.dual,
            "generated_tokens": spent,
            "remediation": stored(case),
        }

    async def _case(
        self, arm: Arm, dispute: Dispute, decision: Decision, settings: EvinceSettings
    ) -> tuple[Remediation | None, str | None]:
        """The case for the editor, or why there is none."""
        record = [
            Recorded(side=side, round=number, said=spoken.said)
            for (side, number), spoken in dispute.turns.items()
        ]
        ended = Ended(text=self._text, record=record, label=decision.label, given=self._item.given)
        try:
            case = await remediation(
                self._seats, ended, self._item.source_text, settings, f"{arm}/remediation"
            )
        except CaseError as error:
            return None, str(error)
        return case, None

    def _failed(self, arm: str, failure: str | None) -> dict[str, Any]:
        row = _empty(self._item.item_id, arm)
        return {**row, "status": "failed", "failure": failure, "review": ["failed"]}

    def _spent(self, arm: str) -> int:
        """Tokens that both sides' turns took; a judge's scores are a token each."""
        place = f"{self._item.item_id}/{arm}/"
        return sum(
            turn.generated_tokens
            for turn in self._seats.turns
            if turn.seat in OTHER and turn.address.startswith(place)
        )

    async def _answers(self, last: int, temperature: float, first: int = 1) -> list[Answer]:
        return await answers(
            self._seats,
            self._text,
            self._scale,
            self._settings,
            range(first, last + 1),
            temperature,
        )

    async def _baselines(self) -> None:
        """Labels of A's model without a dialogue."""
        wanted, warm = self._settings.baselines, self._settings.baseline_temperature
        if "one_shot" in wanted:
            own = self._own or await self._answers(1, self._settings.temperature)
            self._answered("one_shot", own)
        two = await self._answers(2, warm) if set(wanted) - {"one_shot"} else []
        if "mean_of_two" in wanted:
            self._answered("mean_of_two", two, needed=2)
        if "self_consistency" in wanted:
            each = sum(one.generated for one in two) // len(two)
            number = at_equal_tokens(self._spent("main"), each)
            more = await self._answers(number, warm, first=3)
            self._answered("self_consistency", [*two, *more][:number])

    def _answered(self, baseline: str, given: Sequence[Answer], needed: int = 1) -> None:
        """The row of a baseline, which fails where fewer of its answers can be used than needed."""
        distribution = mean(one.distribution for one in given)
        failures = [one.failure for one in given if one.failure]
        counted = len(given) - len(failures)
        row = _empty(self._item.item_id, baseline)
        spent = sum(one.generated for one in given)
        row |= {"answers": counted, "generated_tokens": spent}
        if failures:
            row["failure"] = f"{len(failures)} of {len(given)} answers: {failures[0]}"
        if distribution is None or counted < needed:
            row["status"] = "failed"
        else:
            row |= {
                "status": "answer",
                "distributions": [distribution],
                **label_fields(distribution, self._scale),
                **label_fields(mean(one.said for one in given), self._scale, "said_"),
            }
        self._keep(row)


def _empty(item_id: str, arm: str) -> dict[str, Any]:
    row = dict.fromkeys(OUTCOMES.names)
    return {**row, "item_id": item_id, "arm": arm, "review": []}
