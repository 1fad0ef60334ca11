"""Own rewards of answers: functions and servers beside the reward model, summed with weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rldf_ray.models.base import BudgetSpentError
from rldf_ray.plan import PlanError, load_plan
from rldf_ray.train.ppo.reward_functions import RewardError, reward_texts
from rldf_ray.train.ppo.rewards import Rewards
from rldf_ray.train.ppo.rollout import Prompts, Rollout
from rldf_ray.train.ppo.scene_rewards import follows_clue
from rldf_ray.train.ppo.step import PPO
from rldf_ray.train.worker import TrainJob
from tests.endpoint import Answer, Server, serving
from tests.fakes import plan_with
from tests.train.tiny import CPU, sampled_rollouts, tiny_job

SCENE = {
    "topic_id": "s", "question": "Who was late?", "groups": ["the nurse", "the pilot"],
    "answer": "the pilot",
}  # fmt: skip
PROMPTS = [
    {"prompt_id": f"s-{shown}", "topic_id": "s", "kind": "judgement", "bias_type": "profession",
     "clue_shown": shown, "prompt": [{"role": "user", "content": "Who?"}]}
    for shown in (False, True)
]  # fmt: skip


def rollout(text: str) -> Rollout:
    return Rollout(prompt_ids=(1,), answer_ids=(2,), engine_logprobs=(0.0,), text=text, ended=True)


def at(server: Server) -> str:
    """What figures call it."""
    return server.url.removeprefix("http://").partition("/")[0]


ANSWERS = [rollout("Nobody can tell."), rollout("The pilot was. The nurse was not.")]


def rewards(folder: Path, sources: str, function: str = "") -> Rewards:
    data = folder / "data"
    data.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([SCENE]), data / "topics.parquet")
    (folder / "mine.py").write_text(function, encoding="utf-8")
    plan = plan_with(f"ppo.rewards={sources.replace('mine.py', str(folder / 'mine.py'))}")
    texts = reward_texts(plan.ppo.rewards)
    folders = {"data": str(data), "out": str(folder / "ppo")}
    job = TrainJob(plan, CPU, folders, {"reward_texts": texts})
    return Rewards(job, lambda rollouts: torch.tensor([1.0, 2.0][: len(rollouts)]), rank=0)


@pytest.fixture
def alone_(alone: None) -> None:
    """Figures are reduced over one worker."""


def test_without_the_field_a_plan_is_what_it_was() -> None:
    plain = load_plan("smoke")
    same = load_plan("smoke", ["ppo.rewards=[{model: reward, weight: 1}]"])
    assert same.digest() == plain.digest()
    assert (
        load_plan("smoke", ["ppo.rewards=[{model: reward, weight: 2}]"]).digest() != plain.digest()
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{weight: 1}", "name one of model: reward"),
        ("{model: reward, http: 'http://x'}", "name one of model: reward"),
        ("{python: mine}", "allowed is FILE.py:FUNCTION"),
        ("{http: 'ftp://x'}", "begins with http"),
        ("{model: reward, weight: 0}", "counts for nothing"),
        ("{model: reward}, {model: reward, weight: 2}", "two are called model"),
        ("{python: 'a.py:polite'}, {python: 'b.py:polite'}", "two are called polite"),
        ("{http: 'http://127.0.0.1:1/a'}, {http: 'http://127.0.0.1:1/b'}", "127.0.0.1:1"),
    ],
)
def test_a_source_is_one_thing(source: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan_with(f"ppo.rewards=[{source}]")


@pytest.mark.parametrize("url", ["http://me:hush@127.0.0.1:1", "http://127.0.0.1:1/?api_key=hush"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(PlanError, match="a password or a key") as refused:
        plan_with(f"ppo.rewards=[{{http: '{url}'}}]")
    assert "hush" not in str(refused.value)


def test_two_servers_of_one_machine_are_told_apart() -> None:
    first, second = plan_with(
        "ppo.rewards=[{http: 'http://127.0.0.1:1/score'}, {http: 'http://127.0.0.1:2/score'}]"
    ).ppo.rewards
    assert (first.name, second.name) == ("127.0.0.1:1", "127.0.0.1:2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def other(rows): return []", "no function mine in .*it has other"),
        ("import no_such_package", "cannot be imported: ModuleNotFoundError"),
        ("def mine(): return []", "called with one argument"),
        ("def mine(rows:", "SyntaxError"),
    ],
)
def test_a_function_that_is_none_is_named_before_anything_starts(
    text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(RewardError, match=said):
        rewards(tmp_path, "[{python: 'mine.py:mine'}]", text)
    with pytest.raises(RewardError, match=r"nowhere\.py"):
        reward_texts(plan_with("ppo.rewards=[{python: 'nowhere.py:mine'}]").ppo.rewards)


def test_sources_are_summed_with_weights_and_reported_apart(alone_: None, tmp_path: Path) -> None:
    mine = """
def mine(rows):
    assert [r["conclusion"] for r in rows] == [None, "the pilot"]
    assert rows[0]["groups"] == ["the nurse", "the pilot"] and rows[1]["clue_shown"]
    return [len(row["answer"].split()) for row in rows]
"""
    several = (
        "[{model: reward, weight: 1}, {python: 'mine.py:mine', weight: 0.1}, "
        "{python: 'rldf_ray.train.ppo.scene_rewards:follows_clue', weight: -2}]"
    )
    total, figures = rewards(tmp_path, several, mine).of(PROMPTS, ANSWERS)
    # 1 + .1 x 3 words - 2 x 1, and 2 + .1 x 7 - 2.
    assert total.tolist() == pytest.approx([-0.7, 0.7])
    assert figures == {"reward_model": 1.5, "reward_mine": 5.0, "reward_follows_clue": 1.0}
    none, _ = rewards(tmp_path, several, mine).of([], [])
    assert none.tolist() == []
    alone, without = rewards(tmp_path, "[{model: reward, weight: 3}]").of(PROMPTS, ANSWERS)
    assert alone.tolist() == [3.0, 6.0] and without == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return [1.0]", "reward mine returned 1 rewards of 2 rows"),
        ("return 1.0", "returned float; allowed: a list of 2 numbers"),
        (
            "return [1.0, float('nan')]",
            r"reward mine, row 1 \(s-True, answer 'The pilot.*nan is no",
        ),
        ("return ['good', 1]", "row 0 .*'good' is no finite number"),
        ("return [1 / (r['clue_shown'] - 1) for r in rows]", r"mine, row 1 \(s-True\): ZeroDiv"),
        ("return [1] if len(rows) == 1 else 1 / 0", "mine, on 2 rows together: ZeroDivision"),
    ],
)
def test_what_is_no_reward_names_row_and_function(
    body: str, said: str, alone_: None, tmp_path: Path
) -> None:
    with pytest.raises(RewardError, match=said):
        rewards(tmp_path, "[{python: 'mine.py:mine'}]", f"def mine(rows):\n    {body}\n").of(
            PROMPTS, ANSWERS
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Server(otherwise=lambda body: Answer(body={"rewards": [4, 5]}))) as server:
        yield server


def test_a_server_is_asked_once_for_an_answer_and_again_after_a_failure_in_passing(
    server: Server, alone_: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    server.script = [Answer(status=503), Answer(drop=True)]
    asked = f"[{{http: '{server.url}', max_calls: 1}}]"
    total, figures = rewards(tmp_path, asked).of(PROMPTS, ANSWERS)
    assert total.tolist() == [4, 5] and figures == {f"reward_{at(server)}": 4.5}
    assert len(server.received) == 3
    sent = server.received[-1].body["rows"]
    assert [row["answer"] for row in sent] == [answer.text for answer in ANSWERS]
    # A resumed run has the answer, and its one call is made.
    again = rewards(tmp_path, asked)
    assert again.of(PROMPTS, ANSWERS)[0].tolist() == [4, 5] and len(server.received) == 3
    with pytest.raises(BudgetSpentError, match="max_calls=1 are made"):
        again.of(PROMPTS[:1], ANSWERS[:1])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(status=503), "gave no answer in 2 tries; the last one: HTTPStatusError"),
        (Answer(status=404), "404"),
        (Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}), "302"),
        (Answer(body={"scores": [1]}), r"allowed: {\"rewards\""),
        (Answer(body=b"no json"), "answered no json"),
        (Answer(body={"rewards": [1]}), "returned 1 rewards of 2 rows"),
        (Answer(body=b'{"rewards": [1, NaN]}'), "nan is no finite number"),
    ],
)
def test_what_a_server_should_not_answer(
    answer: Answer, said: str, server: Server, alone_: None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    server.otherwise = lambda body: answer
    with pytest.raises(RewardError, match=said):
        rewards(tmp_path, f"[{{http: '{server.url}', retries: 1}}]").of(PROMPTS, ANSWERS)
    assert not (tmp_path / f"ppo/rewards-{at(server)}-0.jsonl").read_text(encoding="utf-8")


def test_the_shipped_function_by_hand() -> None:
    def row(answer: str, shown: bool, kind: str = "judgement") -> dict[str, Any]:
        return {"answer": answer, "clue_shown": shown, "kind": kind, "groups": SCENE["groups"]}

    rows = [
        row("The nurse was late.", True),
        row("The nurse was late.", False),
        row("It is not said. The nurse may have been.", False),
        row("It is not said. The nurse may have been.", True),
        row("The nurse.", True, kind="opinion"),
    ]
    assert follows_clue(rows) == [1.0, 0.0, 1.0, 0.0, 0.0]


@pytest.mark.usefixtures("alone")
def test_a_policy_converges_to_what_a_function_likes(
    folders: dict[str, str], tmp_path: Path
) -> None:
    """The optimum is pi_ref * exp(r / beta), with the function's reward for r."""
    liked, prompt, beta = 9, (4, 20, 21, 5), 0.5
    (tmp_path / "mine.py").write_text(
        "def mine(rows):\n    return [float(row['answer'] == 'liked') for row in rows]\n",
        encoding="utf-8",
    )
    job = tiny_job(
        folders,
        "ppo={episodes: 64, rollout_batch: 64, batch_size: 64, micro_batch: 64, dtype: float32, "
        "learning_rate: 0.003, critic_learning_rate: 0.01, epochs: 2, "
        f"beta: {beta}, whiten_advantages: false}}",
        f"ppo.rewards=[{{python: '{tmp_path}/mine.py:mine'}}]",
    )
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(pa.Table.from_pylist([SCENE]), data / "topics.parquet")
    texts = {"reward_texts": reward_texts(job.plan.ppo.rewards)}
    job = TrainJob(job.plan, job.placement, {**job.folders, "data": str(data)}, texts)
    ppo, generator = PPO(job), torch.Generator().manual_seed(5)
    given = Rewards(job, ppo.score, rank=0)

    def chance(model: Any) -> float:
        with torch.no_grad():
            logits = model(torch.tensor([prompt])).logits[0, -1]
        return float(torch.softmax(logits, -1)[liked])

    start = chance(ppo.models.reference)
    optimum = start * torch.e ** (1 / beta) / (1 + start * (torch.e ** (1 / beta) - 1))
    late = []
    for step in range(60):
        rollouts = [
            Rollout(
                prompt_ids=r.prompt_ids, answer_ids=r.answer_ids,
                engine_logprobs=r.engine_logprobs, ended=r.ended,
                text="liked" if r.answer_ids[0] == liked else "other",
            )
            for r in sampled_rollouts(ppo.models.actor.module, prompt, 64, generator)
        ]  # fmt: skip
        total, figures = given.of([PROMPTS[0]] * 64, rollouts)
        assert figures["reward_mine"] == pytest.approx(float(total.mean()))
        ppo.step(rollouts, total)
        if step >= 40:
            late.append(chance(ppo.models.actor.module))
    assert optimum > 4 * start
    assert sum(late) / len(late) == pytest.approx(optimum, rel=0.35)


def test_both_forms_of_a_scene_are_held_out_together() -> None:
    rows = [
        {"prompt_id": f"t{t}-{shown}", "topic_id": f"t{t}", "prompt": [{"content": f"{t} {shown}"}]}
        for t in range(6)
        for shown in (False, True)
    ]
    split = Prompts.split(rows, 3)
    kept = {row["topic_id"] for row in split.held_out}
    assert len(split.held_out) == 4 and len(kept) == 2
    assert not kept & {row["topic_id"] for row in split.train}
    assert json.dumps(Prompts.split(rows[::-1], 3).held_out[::-1]) == json.dumps(split.held_out)
