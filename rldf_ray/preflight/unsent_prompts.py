"""Prompts of a plan's own that its run sends to nobody."""

from __future__ import annotations

from collections.abc import Mapping

from rldf_ray.plan import Plan

REFEREE, JUDGES = "referee/prompts/", "protocols/judges/prompts/"


def unsent_prompts(plan: Plan) -> str:
    """What to say of the referee's prompts that are not sent; empty where all are."""
    texts = plan.prompts or {}
    sent = _sent(plan)
    idle = [name for name in texts if name.startswith((REFEREE, JUDGES)) and not sent.get(name)]
    if not idle:
        return ""
    section = plan.referee
    return (
        f"prompts: {', '.join(sorted(idle))}: sent to nobody in this run "
        f"(referee.kind={section.kind}, referee.judgements={section.judgements})"
    )


def _sent(plan: Plan) -> Mapping[str, bool]:
    """The referee's prompts, and whether a run of the plan sends them."""
    section = plan.referee
    prompted, judging = section.kind == "prompted", section.kind in ("debate", "meta")
    names = {
        f"{REFEREE}system.txt": prompted or judging,
        f"{REFEREE}score.txt": prompted,
        f"{REFEREE}rank.txt": prompted,
        f"{REFEREE}check.txt": prompted and section.judgements == "checked",
        f"{REFEREE}trained.txt": section.fitted,
        f"{REFEREE}trained_system.txt": section.fitted,
        f"{JUDGES}statement_critic.txt": section.kind == "debate",
        f"{JUDGES}statement_select.txt": section.kind == "meta" and section.mode == "select",
    }
    shared = ("statement", "statement_judge", "statement_score", "history")
    return names | {f"{JUDGES}{name}.txt": judging for name in shared}
