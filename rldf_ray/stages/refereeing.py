"""Who referees a run: a model that is asked, one that was fitted, or judges in debate or a pool."""

from __future__ import annotations

from rldf_ray.models.base import ChatModel
from rldf_ray.models.one_prompt_refused import OnePromptRefused
from rldf_ray.plan.plan import CRITIC, POOL
from rldf_ray.plan.refereeing import EVALUATION_TOKENS, ROUNDS
from rldf_ray.plan.speaker import TRAINED
from rldf_ray.protocols.judges.refereeing import DebateReferee, MetaReferee, StatementJudge
from rldf_ray.referee.matched import MatchedReferee
from rldf_ray.referee.platt import Calibration
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.trained import TrainedReferee
from rldf_ray.referee.verdict import Referee
from rldf_ray.stages.run import Run


def referee_of(run: Run) -> Referee:
    """The plan's referee; a trained one has been fitted before."""
    model = _model_referee(run)
    return MatchedReferee(model) if run.plan.referee.judgements == "matched" else model


def _model_referee(run: Run) -> Referee:
    section, seed = run.plan.referee, run.plan.seed
    if section.kind == "trained":
        return _trained(run, "referee")
    if section.kind == "debate":
        return DebateReferee(
            judge_=_judge(run, "referee"),
            critic=_judge(run, CRITIC),
            rounds=section.rounds or ROUNDS,
        )
    if section.kind == "meta":
        pool = {
            member: _trained(run, f"{POOL}{member}")
            if member == TRAINED
            else _judge(run, f"{POOL}{member}")
            for member in section.pool or ()
        }
        mode = section.mode or "conclude"
        return MetaReferee(judge_=_judge(run, "referee"), pool=pool, mode=mode)
    return PromptedReferee(_speaker(run, "referee"), seed, section.judgements == "checked")


def _speaker(run: Run, part: str) -> ChatModel:
    """Whoever plays `part`; a prompt that it cannot read is one statement's failure."""
    return OnePromptRefused(run.speakers.of(part))


def _judge(run: Run, part: str) -> StatementJudge:
    return StatementJudge(
        model=_speaker(run, part),
        seed=run.plan.seed,
        max_tokens=run.plan.referee.evaluation_tokens or EVALUATION_TOKENS,
    )


def _trained(run: Run, part: str) -> TrainedReferee:
    fitted = run.folder.read_object(
        "referee/calibration.json", ("slope", "intercept", "statements")
    )
    calibration = Calibration(fitted["slope"], fitted["intercept"], fitted["statements"])
    return TrainedReferee(_speaker(run, part), calibration)
