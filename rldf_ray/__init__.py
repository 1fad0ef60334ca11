"""Multi-role debates that expose and reduce bias of language models, on Ray.

    import rldf_ray as rldf

    run = rldf.debate("quickstart", overrides={"teacher": "openai:my-model"})
    run.statements.to_pandas()

docs/python.md has the functions; each does what the command of its name does.
"""

from rldf_ray.api.functions import (
    abbq,
    acompare,
    adebate,
    aexport,
    ajudge,
    arun,
    aserve,
    astudy,
    bbq,
    compare,
    debate,
    export,
    judge,
    run,
    serve,
    study,
)
from rldf_ray.api.results import BBQResult, Comparison, JudgeResult, Run, Server, StudyResult
from rldf_ray.errors import UserError

__all__ = [
    "BBQResult",
    "Comparison",
    "JudgeResult",
    "Run",
    "Server",
    "StudyResult",
    "UserError",
    "abbq",
    "acompare",
    "adebate",
    "aexport",
    "ajudge",
    "arun",
    "aserve",
    "astudy",
    "bbq",
    "compare",
    "debate",
    "export",
    "judge",
    "run",
    "serve",
    "study",
]
