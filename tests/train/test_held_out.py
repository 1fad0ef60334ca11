"""On how many pairs of each held-out topic a reward model is right: counted, kept, told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.reward_score import RewardModel
from rldf_ray.train.held_out import over, read_right, right_by_topic, write_right


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 2))))
def test_a_pair_is_right_where_its_chosen_side_is_ahead(pairs: list[tuple[str, int]]) -> None:
    counts = right_by_topic([topic for topic, _ in pairs], [margin for _, margin in pairs])
    assert sum(number for _, number in counts.values()) == len(pairs)
    assert sum(right for right, _ in counts.values()) == sum(margin > 0 for _, margin in pairs)
    assert counts.keys() == {topic for topic, _ in pairs}


def test_what_was_counted_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_right(tmp_path, {"age-o1": (3, 4), "age-o2": (0, 1)})
    assert read_right(tmp_path / "held_out.json") == {"age-o1": (3, 4), "age-o2": (0, 1)}
    assert read_right(tmp_path / "none.json") is None


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1))
def test_what_is_logged_of_pairs_counts_each_once(rewards: list[tuple[float, float]]) -> None:
    right = right_by_topic(["all"] * len(rewards), [a - b for a, b in rewards])["all"]
    found = over(rewards)
    assert found["accuracy"] == pytest.approx(right[0] / right[1])
    assert found["margin"] * len(rewards) == pytest.approx(sum(a - b for a, b in rewards))
    assert found["min_reward"] <= found["mean_reward"] <= found["max_reward"]


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_a_reward_models_right_pairs_are_those_it_scores_rightly(
    alone: None,
    folders: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    micro_batch: int,
) -> None:
    """Also with a last batch that is not full."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rldf_ray.train import reward, worker
    from tests.train.tiny import tiny_job

    monkeypatch.setattr(worker, "prepare_worker", lambda job: 0)
    for folder in ("data", "job"):
        (tmp_path / folder).mkdir()

    def says(role: str, text: str) -> list[dict[str, str]]:
        return [{"role": role, "content": text}]

    rows = [
        {
            "topic_id": f"t{i // 3}",
            "prompt": says("user", f"w{i % 7}"),
            "chosen": says("assistant", f"w{i % 5} w{i % 9}"),
            "rejected": says("assistant", f"w{i % 11} w{i % 4 + 10}"),
        }
        for i in range(45)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data/pairs.parquet")
    sizes = f"reward={{batch_size: 2, micro_batch: {micro_batch}, max_length: 32}}"
    named = {**folders, "data": str(tmp_path / "data"), "out": str(tmp_path / "job")}
    overrides = (sizes, "reward.held_out_share=0.35", "train.dtype=float32")
    torch.manual_seed(0)
    reward._loop({"job": tiny_job(named, *overrides)})

    model = RewardModel(tmp_path / "job/model", "cpu", 32)
    template = ChatTemplate(model.tokenizer, named["model"])
    held_out = reward.held_out_topics([row["topic_id"] for row in rows], 0.35)
    test = [row for row in rows if row["topic_id"] in held_out]
    chosen, rejected = (
        model.score_chats(
            [template.answered(row["prompt"], row[side][-1]["content"]) for row in test]
        )
        for side in ("chosen", "rejected")
    )
    margins = (chosen - rejected).tolist()
    assert min(map(abs, margins)) > 1e-6 and len(test) == 15
    topics = [row["topic_id"] for row in test]
    assert read_right(tmp_path / "job/held_out.json") == right_by_topic(topics, margins)
    # Some are right and some are not, so that their order shows.
    assert 0 < sum(margin > 0 for margin in margins) < len(margins)
    logged = [line for line in worker.read_progress(named["out"]) if "eval_accuracy" in line]
    every = torch.cat([chosen, rejected])
    expected = {
        "eval_accuracy": sum(margin > 0 for margin in margins) / 15,
        "eval_margin": sum(margins) / 15,
        "eval_mean_reward": float(every.mean()),
        "eval_min_reward": float(every.min()),
        "eval_max_reward": float(every.max()),
    }
    assert {name: logged[-1][name] for name in expected} == pytest.approx(expected, abs=1e-5)
