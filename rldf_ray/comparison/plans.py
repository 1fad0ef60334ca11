"""Plans of the methods that train, derived from the plan that is compared.

Topics are written by the same model in all of them, so they are the same topics.
"""

from __future__ import annotations

from typing import Literal

from rldf_ray.plan import After, Plan, Speaker
from rldf_ray.plan.evaluating import EvaluateSection
from rldf_ray.plan.refereeing import RefereeSection
from rldf_ray.storage.stages import POLICIES

Learning = Literal["sft", "reward", "ppo", "dpo", "kto"]
SEATS = "seats"
"""What files call the debates of a plan with a model for each seat."""
# What comes after a stage, which it does not depend on.
LATER: dict[Learning, tuple[str, ...]] = {
    "sft": ("reward", *POLICIES),
    "reward": POLICIES,
    "ppo": ("dpo", "kto"),
    "dpo": ("reward", "ppo", "kto"),
    "kto": ("reward", "ppo", "dpo"),
}
# What comes last in the plan that trains a stage, where it is not PPO.
LAST: dict[Learning, After] = {"dpo": "dpo", "kto": "kto"}


def own_teacher(plan: Plan) -> str | None:
    """Who debates in the plan; None if it is the model itself.

    Of a plan with a model for each seat, who would debate without them.
    """
    speaker = str(plan.speaker_of("debate"))
    return None if speaker == policy_as_speaker(plan) else speaker


def policy_as_speaker(plan: Plan) -> str:
    """The model to be debiased, as a speaker."""
    return str(Speaker("vllm", plan.model))


def as_planned(plan: Plan) -> Plan:
    """RLDF in the plan's own mode: with its teacher, by itself, or with a model for each seat."""
    source = debating(plan, own_teacher(plan))
    if plan.debate.seats is None:
        return source
    return source.model_copy(update={"name": f"{plan.name}-{SEATS}", "debate": plan.debate})


def debating(plan: Plan, teacher: str | None) -> Plan:
    """RLDF with `teacher` as every debater, and as referee unless the plan names one or
    fits its own.

    Args:
        teacher: None is the model itself (self-reflection).
    """
    name = "self" if teacher is None else f"teacher-{teacher}"
    referee = _own_referee(plan) if teacher == own_teacher(plan) else plan.referee
    return plan.model_copy(
        update={
            "name": f"{plan.name}-{name}",
            "teacher": teacher,
            "topics": _same_writer(plan),
            "debate": plan.debate.model_copy(update={"model": None, "seats": None}),
            "referee": referee,
        }
    )


def titled(title: str, plan: Plan, elsewhere: str | None = None) -> str:
    """A row's title, with the source of its data where that is another protocol's than RLDF's.

    Args:
        elsewhere: the title without RLDF's name, where `title` says that the data are RLDF's.
    """
    source = plan.debate.protocol
    return title if source == "multirole" else f"{elsewhere or title}, data from {source}"


def unspoken(plan: Plan) -> Plan:
    """A plan without its name, who debates and who referees; who writes the topics stays.

    Nor does it say whether debaters are shown marks: a referee is fitted and audited without them.
    """
    anyone = {"model": None, "seats": None, "protocol": "multirole", "settings": None}
    debate = anyone | {"show_marks": True}
    return plan.model_copy(
        update={
            "name": "",
            "teacher": None,
            "topics": _same_writer(plan),
            "debate": plan.debate.model_copy(update=debate),
            "referee": RefereeSection(),
        }
    )


def sampling(plan: Plan) -> Plan:
    """RLAIF: the model answers by itself, and the plan's own referee judges.

    Answers have no identity, so they are paired within a topic. They stand where the multi-role
    debates would, whatever protocol the plan has for its own data.
    """
    return plan.model_copy(
        update={
            "name": f"{plan.name}-rlaif",
            "teacher": own_teacher(plan),
            "topics": _same_writer(plan),
            "debate": plan.debate.model_copy(
                update={
                    "model": policy_as_speaker(plan),
                    "seats": None,
                    "protocol": "multirole",
                    "settings": None,
                }
            ),
            "referee": _own_referee(plan),
            "data": plan.data.model_copy(update={"pairing": "same_topic"}),
        }
    )


def renamed(source: Plan, name: str) -> Plan:
    """`source` under a name of its own, where its debates are held in another way."""
    return source.model_copy(update={"name": name})


def debated(source: Plan) -> Plan:
    """The plan of the debates of `source`: the same, whatever data they become.

    So what was debated serves another comparison of the same plan with other settings of what
    comes after.
    """
    return _without(_with_last(source, "ppo"), "data", "sft", "reward", *POLICIES)


def gathered(source: Plan) -> Plan:
    """The plan that makes the data of `source`: the same, however that data is trained on."""
    return _without(_with_last(source, "ppo"), "sft", "reward", *POLICIES)


def trained(source: Plan, stage: Learning, seed: int, pairs: int | None) -> Plan:
    """The plan that trains `stage` on the data of `source` with a seed of its own.

    Args:
        pairs: how many the reward model, DPO or KTO is given; SFT does not depend on it.
    """
    seeded = source.model_copy(update={"seed": seed})
    plan = _without(_with_last(seeded, LAST.get(stage, "ppo")), *LATER[stage])
    if stage == "sft":
        return plan
    data = source.data.model_copy(update={"max_pairs": pairs})
    return plan.model_copy(update={"data": data})


def _with_last(plan: Plan, last: After) -> Plan:
    """`plan` with this alone after SFT, whatever the plan compared has: a row says what it is."""
    train = plan.train.model_copy(update={"after": (last,)})
    return plan.model_copy(update={"train": train})


def _without(plan: Plan, *sections: str) -> Plan:
    """`plan` with these sections at their defaults, in batches that any number of workers share."""
    step = {"batch_size": plan.train.workers, "micro_batch": 1}
    batches = {
        "sft": step,
        "reward": step,
        "ppo": step | {"rollout_batch": plan.train.workers, "episodes": plan.train.workers},
    }
    defaults: dict[str, object] = {
        name: type(getattr(plan, name)).model_validate(batches.get(name, {})) for name in sections
    }
    # What methods say before they answer is no part of any run.
    thoughts = {"thought_tokens": EvaluateSection().thought_tokens}
    defaults["evaluate"] = plan.evaluate.model_copy(update=thoughts)
    # Defaults of a stage that is not done need not go with the rest.
    values = plan.model_copy(update=defaults).model_dump()
    return Plan.model_validate(values, context={"saved": True})


def _own_referee(plan: Plan) -> RefereeSection:
    """Who referees in the plan, by name: it stays so whoever debates."""
    if plan.referee.kind == "trained":
        return plan.referee
    return plan.referee.model_copy(update={"model": str(plan.speaker_of("referee"))})


def _same_writer(plan: Plan) -> object:
    return plan.topics.model_copy(update={"model": str(plan.speaker_of("topics"))})
