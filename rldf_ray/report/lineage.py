"""What a policy was trained on and by whom its data were made, in the words of its card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rldf_ray.dataset.origin import Origin, is_self_reflection, listed, models_of, origin_of
from rldf_ray.plan import Plan
from rldf_ray.plan.training import RewardSource
from rldf_ray.referee.fit import judged_kinds
from rldf_ray.storage.results import DataResult, PPOResult, if_recorded, stage_result
from rldf_ray.storage.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """Parts of a model card's sentences.

    Attributes:
        began_as: the model that was trained.
        data: what it was trained on, in a title.
        training: the stages, and what each learned from.
        models: who took part in the data, by part; empty where they were given.
        sizes: of the data and of PPO; empty where nothing is recorded.
        learned: whose preferences it has learned, as the beginning of a sentence.
        is_debiasing: whether the preferences are known to be about bias.
    """

    began_as: str
    data: str
    training: str
    models: str
    sizes: str
    learned: str
    is_debiasing: bool


def lineage_of(folder: RunFolder, plan: Plan, began_as: str) -> Lineage:
    """By the plan, and by what the stages of the run recorded.

    Raises:
        ResultError: a manifest has a field of another type.
    """
    origin = origin_of(folder)
    return Lineage(
        began_as=began_as,
        data=_titled(origin),
        training=f"{_first(origin)} and {_then(plan, origin)}{_how(plan, origin)}",
        models=_models(plan, origin),
        sizes="; ".join(_sizes(folder, plan, origin)),
        learned=_learned(plan, origin),
        is_debiasing=origin.kind != "pairs",
    )


def _titled(origin: Origin) -> str:
    return {
        "debates": "multi-role debates",
        "source": f"preferences of the protocol {origin.source}",
        "transcripts": "given statements",
        "pairs": "given preference pairs",
    }[origin.kind]


def _first(origin: Origin) -> str:
    examples = {
        "debates": "low-bias debate statements",
        "source": f"the protocol {origin.source}'s examples",
        "transcripts": "low-bias statements that were given",
        "pairs": "the chosen sides of given pairs",
    }[origin.kind]
    return f"supervised fine-tuning on {examples}"


def _preferences(origin: Origin) -> str:
    return {
        "debates": "debates",
        "source": f"pairs of the protocol {origin.source}",
        "transcripts": "given statements",
        "pairs": "given pairs",
    }[origin.kind]


def _then(plan: Plan, origin: Origin) -> str:
    steps = [
        f"PPO against {_listed([_reward(source, origin) for source in plan.ppo.rewards])}"
        if name == "ppo"
        else f"{name.upper()} on preferences from {_preferences(origin)}"
        for name in plan.train.after
    ]
    return ", then ".join(steps)


def _reward(source: RewardSource, origin: Origin) -> str:
    if source.model is not None:
        return f"a reward model fitted to {_preferences(origin)}"
    return (
        "the rewards of a server" if source.http else f"the rewards of the function {source.name}"
    )


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _how(plan: Plan, origin: Origin) -> str:
    """Pairs that were given say of no bias type whether they are about it."""
    about = "" if origin.kind == "pairs" else f" about {', '.join(plan.bias_types)}"
    if origin.kind != "debates":
        return about
    return f"{about} (RLDF, {_named(plan, origin)})"


def _named(plan: Plan, origin: Origin) -> str:
    if is_self_reflection(plan, origin):
        return "self-reflection"
    names = {name for part in models_of(plan, origin).values() for name in part}
    return f"teacher-student, teacher {names.pop()}" if len(names) == 1 else "teacher-student"


def _models(plan: Plan, origin: Origin) -> str:
    """Nothing where one model did all, as debates are named by it."""
    models = models_of(plan, origin)
    names = {name for part in models.values() for name in part}
    if origin.kind == "debates" and (len(names) == 1 or is_self_reflection(plan, origin)):
        return ""
    return listed(models)


def _sizes(folder: RunFolder, plan: Plan, origin: Origin) -> Iterator[str]:
    data, ppo = stage_result(folder, DataResult), stage_result(folder, PPOResult)
    if origin.kind == "debates" and origin.items is not None:
        section = plan.debate
        yield f"{origin.items} debates of {section.debaters} debaters and {section.rounds} rounds"
    if origin.kind == "source" and origin.items is not None:
        yield f"{origin.items} items of the protocol {origin.source}"
    if origin.kind == "transcripts" and origin.items is not None:
        yield f"{origin.items} debates that were given"
    pairs = data and if_recorded(data.pairs)
    if pairs is not None:
        yield f"{pairs} pairs"
    episodes = ppo and if_recorded(ppo.episodes)
    if "ppo" in plan.train.after and episodes is not None:
        yield f"{episodes} PPO episodes"


def _learned(plan: Plan, origin: Origin) -> str:
    """Where all labels are matched with the scenes' records there is no referee to speak of."""
    matched = "It learned which answers the records of its scenes allow"
    return {
        "debates": "It learned one referee's idea of stereotyping"
        if judged_kinds(plan)
        else matched,
        "source": f"It learned what the protocol {origin.source} prefers",
        "transcripts": "It learned the scores that it was given",
        "pairs": "It learned the preferences that it was given, whatever they are about",
    }[origin.kind]
