"""What earlier comparisons in the same folder have done, and whether all rows have the same topics.

A comparison may be given one method after another. Topics are those of the first as long as plans
differ in debates alone, and a referee is fitted and audited once as long as it is who debates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rldf_ray.comparison.plans import debated, unspoken
from rldf_ray.errors import UserError
from rldf_ray.plan import Plan
from rldf_ray.plan.debating import DebateSection
from rldf_ray.plan.saved import saved_plan
from rldf_ray.records import TOPIC_SCHEMA, Topic, topics_of
from rldf_ray.storage.digest import digest
from rldf_ray.storage.folders import visible
from rldf_ray.storage.run_folder import RunFolder

DEBATES = "debates"
TOPICS = "data/topics.parquet"

Shared = Callable[[Plan], str]
"""Of a plan of debates, a hash of what a stage depends on: plans with equal ones can share it."""


def topics_shared(plan: Plan) -> str:
    """Of what topics depend on: of a debate, nothing."""
    written = unspoken(debated(plan))
    return written.model_copy(update={"debate": DebateSection()}).digest()


def referee_shared(plan: Plan) -> str:
    """Of what the fit and the audit of a referee depend on."""
    section = plan.referee.model_copy(update={"model": None})
    referee = section.model_dump(mode="json")
    return digest(unspoken(debated(plan)).digest(), referee, str(plan.speaker_of("referee")))


def earlier_run(stage: str, shared: Shared, plan: Plan, out: Path) -> str | None:
    """The name of a run of debates that has finished `stage` on settings equal to the plan's.

    None where there is none. A run whose plan cannot be read is passed over.
    """
    wanted = shared(plan)
    for path in visible(out / "runs" / DEBATES):
        run = RunFolder(path)
        if run.manifest(stage) is None:
            continue
        try:
            equal = shared(saved_plan(run)) == wanted
        except UserError:
            continue
        if equal:
            return f"{DEBATES}/{path.name}"
    return None


def read_topics(run: RunFolder) -> list[Topic]:
    """The topics of a run of debates."""
    return topics_of(run.read_table(TOPICS, TOPIC_SCHEMA))


def every_topic(topics: Mapping[str, Sequence[Topic]]) -> list[Topic]:
    """The topics of all runs of debates, each once; of one run alone where they are the same."""
    lists = list(topics.values())
    if all(one == lists[0] for one in lists):
        return list(lists[0]) if lists else []
    return list(dict.fromkeys(topic for one in lists for topic in one))


def topics_note(titles: Mapping[str, str], topics: Mapping[str, Sequence[Topic]]) -> list[str]:
    """A sentence where rows are trained on different topics; else nothing.

    Args:
        titles: of the rows that are trained, and the run of debates that each is trained on.
        topics: of each run of debates.
    """
    rows: dict[str, list[str]] = {}
    for title, run in titles.items():
        rows.setdefault(topics_digest(topics[run]), []).append(title)
    if len(rows) < 2:
        return []
    groups = "; ".join(", ".join(names) for names in rows.values())
    note = (
        f"Rows are trained on different topics, as runs in this folder wrote their own: {groups}. "
        "What they differ in may be the topics; compare them in a new folder."
    )
    return [note]


def topics_digest(topics: Sequence[Topic]) -> str:
    """A hash of all that is debated."""
    return digest([asdict(topic) for topic in topics])
