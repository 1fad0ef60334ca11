"""What both sides share by round, by hand, and how the report says to read it."""

from dataclasses import asdict, replace

import pyarrow as pa
import pytest

from rldf_ray.protocols.evince.agreement import CORPUS
from rldf_ray.protocols.evince.information import information_table, shared_by_round
from rldf_ray.protocols.evince.metrics import metrics
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.study import TABLES
from rldf_ray.protocols.evince.summary import summary
from tests.protocols.evince.script import ITEM, settings

FIVE = load_scale("toward")


def study(number: int, overlap: float | None = 0.5) -> Results:
    """Dialogues of one round; of every five one stands at each label, and B is one label on."""
    items = {f"t{n}": replace(ITEM, item_id=f"t{n}", text_id=f"t{n}") for n in range(number)}
    empty = dict.fromkeys(TABLES["rounds"].names)
    rounds = [
        {
            **empty,
            "item_id": f"t{n}",
            "arm": "main",
            "round": 1,
            "a": [FIVE.certain(FIVE.names[n % 5])],
            "b": [FIVE.certain(FIVE.names[(n + 1) % 5])],
            "level": 0.9,
            **asdict(metrics(FIVE.certain("negative"), FIVE.certain("neutral"), FIVE)),
            "nmi": 0.25,
            "evidence_overlap": None if n == 0 else overlap,
        }
        for n in range(number)
    ]
    tables = {name: schema.empty_table() for name, schema in TABLES.items()}
    tables["rounds"] = pa.Table.from_pylist(rounds, TABLES["rounds"])
    return Results(items=items, tables=tables, settings=settings(), scale=FIVE, seed=7)


def test_labels_that_never_agree_can_say_everything_of_each_other():
    (one,) = shared_by_round(study(CORPUS))
    assert one.labels is not None and one.labels.value == pytest.approx(1)
    assert one.coupling is not None and one.coupling.value == pytest.approx(0.25)
    # The dialogue in which nobody quotes is not counted as one without overlap.
    assert one.evidence is not None
    assert (one.evidence.value, one.evidence.n) == (0.5, CORPUS - 1)
    table = information_table([one])
    assert table.rows == [["1", "50", "1.000 (1.000 to 1.000)", "0.250", "0.500"]]
    assert "not yet that they agree" in table.notes[0]


def test_of_few_dialogues_and_without_quotes_there_is_none():
    (one,) = shared_by_round(study(CORPUS - 1, overlap=None))
    assert one.labels is None and one.evidence is None
    table = information_table([one])
    assert table.rows == [["1", "49", "–", "0.250", "–"]]
    assert "from 50 dialogues on" in table.notes[0]


def test_the_report_has_the_table_and_the_facts():
    results = study(CORPUS)
    found = summary(list(results.items.values()), results.tables, settings(), 7)
    assert "information" in {table.name for table in found.tables}
    (fact,) = found.facts["information"]
    assert fact["labels"]["value"] == pytest.approx(1) and fact["evidence"]["n"] == CORPUS - 1
