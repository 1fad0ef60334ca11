"""An endpoint's model whose answers are kept, so that none is paid for twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rldf_ray.console import Progress
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.plan import Endpoint, Speaker
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder

ENDPOINT = "openai"


def is_endpoint(model: str) -> bool:
    """Whether `model` is `openai:NAME`, where evaluations take a folder as well."""
    return Speaker.parse(model).backend == ENDPOINT


@contextmanager
def remembering(
    model: str, endpoint: Endpoint, out: RunFolder, progress: Progress
) -> Iterator[JournaledModel]:
    """`openai:NAME` with a journal in `out`; how much it remembered is printed at the end.

    It spends what is left of the endpoint's budget, over all starts with the same `out`.

    Who answers behind an address is not known here, so the reader has to be.
    """
    from rldf_ray.models.limits import Budget
    from rldf_ray.models.openai_http import OpenAIModel
    from rldf_ray.models.openai_left_out import LEFT_OUT

    name = Speaker.parse(model).model
    path = out.path("journal/calls.jsonl")
    journal = Journal(path)
    try:
        budget = Budget.of(endpoint, (name,), journal)
        remote = OpenAIModel(name, endpoint, budget, out.path(LEFT_OUT))
        remembered = JournaledModel(
            remote,
            journal,
            address=endpoint.base_url,
            request_fields=endpoint.request_fields(),
        )
        yield remembered
    finally:
        journal.close()
    if remembered.reused:
        progress.say(
            f"{remembered.reused} answers were given before and are in {path}; if another model "
            "has that name and address by now, give another --out"
        )
