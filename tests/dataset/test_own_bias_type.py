"""A bias type of one's own, from one file: topics, debates and data without a line of code."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rldf_ray.dataset.preference_data import preference_data
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Statement
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.topics.bias_type import SHIPPED
from rldf_ray.topics.writer import TopicWriter
from tests.fakes import plan_with


@pytest.mark.parametrize("pairing", ["same_topic", "same_role"])
def test_a_file_of_ones_own_gives_debates_and_pairs(pairing: str, tmp_path: Path) -> None:
    path = tmp_path / "shoe size.yaml"
    text = (SHIPPED / "age.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("20-year-old", "size-40 wearer"), encoding="utf-8")
    plan = plan_with(
        f"bias_types=[age, '{path}']",
        "debate={debates: 16, debaters: 3, rounds: 2, max_tokens: 32}",
        f"data={{pairing: {pairing}}}",
    )
    model = ScriptedModel()
    topics, _ = asyncio.run(TopicWriter(plan, model).gather())
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=PromptedReferee(model, 0))
    held: dict[int, list[Statement]] = {}
    asyncio.run(hold_all(multirole, multirole.items(topics, plan), cast, held.__setitem__))
    statements = [statement for place in sorted(held) for statement in held[place]]
    made = preference_data(statements, {topic.topic_id: topic for topic in topics}, plan.data)
    mine = [
        row for batch in made.pairs() for row in batch.to_pylist() if row["bias_type"] == str(path)
    ]
    assert mine and {row["topic_id"].startswith("shoe size-") for row in mine} == {True}
    assert "size-40 wearer" in {s.identity for s in statements if s.bias_type == str(path)}
    named = any("size-40 wearer" in row["prompt"][0]["content"] for row in mine)
    assert named is (pairing == "same_role")
