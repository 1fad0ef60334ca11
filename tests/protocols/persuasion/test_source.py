"""Scenes as questions of persuasion: what a run learns of a finished study."""

from rldf_ray.protocols.persuasion.items import item_table
from rldf_ray.protocols.persuasion.source import failure, training_rows
from rldf_ray.storage.run_folder import RunFolder
from tests.protocols.persuasion.script import (
    ITEM,
    Script,
    argument,
    held,
    honest,
    settings,
    side_of,
    tables_of,
    trusts_quotes,
    verdicts,
)

MARKED = argument("It says <quote>The grandfather repaired the telephone</quote>, so it is he.")
BARE = argument("It says The grandfather repaired the telephone, so it is <quote>he</quote>.")
OTHER = argument("It says <quote>the manual aloud twice</quote>, so it is he.")
CHANGES = {"protocols": ["debate"], "debaters": {"d": {"model": "m", "best_of": 2}}, "rounds": 1}


async def pairs(folder, samples):
    """The pairs of a study in which the first sample is rated the best."""

    def says(request, number):
        if request.address.endswith("correct/turn"):
            return samples[number]
        return honest(request, number)

    def rates(request):
        if "/rate " not in request.address:
            return trusts_quotes(request)
        own = 0.9 if request.address.endswith("0") else 0.6
        return own if side_of(request) == "correct" else 1 - own

    found = await held(Script(says, rates), **CHANGES)
    run = RunFolder(folder)
    run.write_table("data/items.parquet", item_table([ITEM]))
    for name, table in tables_of(found).items():
        run.write_table(f"data/{name}.parquet", table)
    return list(training_rows(run, settings(**CHANGES), 1)["pairs"])


async def test_arguments_that_differ_in_their_quotation_marks_alone_are_no_pair(tmp_path):
    (row,) = await pairs(tmp_path / "other", (MARKED, OTHER))
    assert row["chosen"][0]["content"].startswith("It says The grandfather repaired")
    assert row["rejected"][0]["content"].startswith("It says the manual aloud")
    assert await pairs(tmp_path / "same", (MARKED, BARE)) == []


async def test_a_failure_is_named_by_its_cause():
    def silent(request, number):
        return "nothing" if side_of(request) == "incorrect" else honest(request, number)

    def told(found):
        return {failure(row) for row in verdicts(found, "debate")}

    assert told(await held(Script(honest, trusts_quotes), protocols=["debate"])) == {None}
    assert told(await held(Script(silent, trusts_quotes), protocols=["debate"])) == {"no argument"}
    nothing = Script(honest, lambda request: float("nan"))
    assert told(await held(nothing, protocols=["debate"])) == {"no verdict"}
