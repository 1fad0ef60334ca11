"""What a study would take, by model and in all: every answer as long as the plan allows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rldf_ray.prompts import own_prompts
from rldf_ray.protocols.known import study_named
from rldf_ray.studies.plans import LoadedStudy


@dataclass(frozen=True, kw_only=True)
class ModelEstimate:
    """Calls and tokens of one model; `usd` is None where an endpoint's price is not known."""

    model: str
    calls: float
    prompt: float
    generated: float
    usd: float | None

    @property
    def usd_text(self) -> str:
        return "unknown" if self.usd is None else f"{self.usd:,.2f}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimated(name: str, loaded: LoadedStudy) -> list[ModelEstimate]:
    """Nothing is asked, and nothing but the data is read."""
    study, plan = study_named(name), loaded.plan
    with own_prompts(plan.prompts):
        items = study.items(loaded.settings, plan.seed)
        asked = study.estimate(items, loaded.settings)
    rows = []
    for one in asked:
        paid = plan.speaker_of(one.speaker).paid
        usd = plan.endpoint.usd(one.prompt, one.generated) if paid else 0.0
        rows.append(
            ModelEstimate(
                model=f"{one.speaker} ({plan.models[one.speaker]})",
                calls=one.calls,
                prompt=one.prompt,
                generated=one.generated,
                usd=usd,
            )
        )
    known = [row.usd for row in rows if row.usd is not None]
    return [
        *rows,
        ModelEstimate(
            model="in all",
            calls=sum(row.calls for row in rows),
            prompt=sum(row.prompt for row in rows),
            generated=sum(row.generated for row in rows),
            usd=sum(known) if len(known) == len(rows) else None,
        ),
    ]
