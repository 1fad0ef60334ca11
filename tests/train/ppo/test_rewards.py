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
from rldf_ray.topics.unknown import UNKNOWN, Wordings
from rldf_ray.train.ppo.prompts import Prompts
from rldf_ray.train.ppo.reward_functions import RewardError, reward_texts
from rldf_ray.train.ppo.rewards import Rewards, share_of_calls
from rldf_ray.train.ppo.rollout import Rollout
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
        ("yield 1.0\n    yield 1 / (rows[-1]['clue_shown'] - 1)", r"mine, row 1 .*: ZeroDivision"),
        ("while True:\n        yield 1.0", "reward mine returned 3 rewards of 2 rows"),
        ("return [1.0, 10**400]", r"reward mine, row 1 .*: 1000.* is no finite number"),
        ("return [10**9999, 1.0]", "row 0 .*: a value of type int is no finite number"),
        ("return [1.0, 1e39]", r"row 1 .*1e\+39 is no finite number"),
        ("import torch; return torch.ones(2, 2)", "row 0 .*tensor.* is no finite number"),
        ("import torch; return torch.tensor(1.0)", "returned Tensor; allowed: a list of 2"),
        ("return {0: 1.0, 1: 2.0}", "returned dict; allowed: a list of 2 numbers"),
        ("return {1.0, 2.0}", "returned set; allowed: a list of 2 numbers"),
        ("return '12'", "returned str; allowed: a list of 2 numbers"),
        ("return None", "returned NoneType; allowed: a list of 2 numbers"),
    ],
)
def test_what_is_no_reward_names_row_and_function(
    body: str, said: str, alone_: None, tmp_path: Path
) -> None:
    with pytest.raises(RewardError, match=said):
        rewards(tmp_path, "[{python: 'mine.py:mine'}]", f"def mine(rows):\n    {body}\n").of(
            PROMPTS, ANSWERS
        )


@pytest.mark.parametrize(
    "body",
    [
        "yield from (1.0, 2.0)",
        "return (1, 2)",
        "import torch; return torch.tensor([1.0, 2.0])",
        "import numpy; return numpy.array([1, 2])",
        "return {'a': 1, 'b': 2}.values()",
    ],
)
def test_a_number_for_each_row_may_come_in_any_sequence(
    body: str, alone_: None, tmp_path: Path
) -> None:
    function = f"def mine(rows):\n    {body}\n"
    total, _ = rewards(tmp_path, "[{python: 'mine.py:mine'}]", function).of(PROMPTS, ANSWERS)
    assert total.tolist() == [1.0, 2.0]


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
    asked = f"[{{http: '{server.url}', max_calls: 3}}]"
    total, figures = rewards(tmp_path, asked).of(PROMPTS, ANSWERS)
    assert total.tolist() == [4, 5] and figures == {f"reward_{at(server)}": 4.5}
    assert len(server.received) == 3
    sent = server.received[-1].body["rows"]
    assert [row["answer"] for row in sent] == [answer.text for answer in ANSWERS]
    # A resumed run has the answer, and its three calls are made.
    again = rewards(tmp_path, asked)
    assert again.of(PROMPTS, ANSWERS)[0].tolist() == [4, 5] and len(server.received) == 3
    with pytest.raises(BudgetSpentError, match="max_calls=3 are made"):
        again.of(PROMPTS[:1], ANSWERS[:1])
    assert len(server.received) == 3


def test_tries_that_failed_count_as_calls_before_and_after_a_kill(
    server: Server, alone_: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    server.otherwise = lambda body: Answer(status=503)
    asked = f"[{{http: '{server.url}', max_calls: 4, retries: 2}}]"
    with pytest.raises(RewardError, match="no answer in 3 tries"):
        rewards(tmp_path, asked).of(PROMPTS, ANSWERS)
    with pytest.raises(BudgetSpentError, match="max_calls=4 are made, of which this worker had 4"):
        rewards(tmp_path, asked).of(PROMPTS, ANSWERS)
    assert len(server.received) == 4


def test_answers_without_their_requests_count_as_one_each(
    server: Server, alone_: None, tmp_path: Path
) -> None:
    asked = f"[{{http: '{server.url}', max_calls: 1}}]"
    rewards(tmp_path, asked).of(PROMPTS, ANSWERS)
    journal = tmp_path / f"ppo/rewards-{at(server)}-0.jsonl"
    answers = [x for x in journal.read_text(encoding="utf-8").splitlines() if "rewards" in x]
    journal.write_text("\n".join(answers) + "\n", encoding="utf-8")
    with pytest.raises(BudgetSpentError):
        rewards(tmp_path, asked).of(PROMPTS[:1], ANSWERS[:1])


@pytest.mark.parametrize(("calls", "workers"), [(7, 3), (3, 3), (12, 4), (1, 1)])
def test_workers_make_no_more_calls_than_the_plan_allows_all_of_them(
    calls: int, workers: int
) -> None:
    (source,) = plan_with(f"ppo.rewards=[{{http: 'http://x', max_calls: {calls}}}]").ppo.rewards
    shares = [share_of_calls(source, rank, workers) for rank in range(workers)]
    assert sum(share or 0 for share in shares) == calls
    assert all(shares)
    assert share_of_calls(source.model_copy(update={"max_calls": None}), 0, workers) is None


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
    journal = (tmp_path / f"ppo/rewards-{at(server)}-0.jsonl").read_text(encoding="utf-8")
    assert '"rewards"' not in journal


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


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("The grandfather forgot it.", True),
        ("the GRANDSON did, as he says so himself. The grandfather did not.", True),
        ("It was the grandfather\nNobody can tell.", True),
        ("It is not known whether the grandfather or the grandson forgot it.", False),
        ("Either the grandfather or the grandson forgot it.", False),
        ("Nobody can tell if it was the grandfather.", False),
        ("It can’t be determined that the grandson forgot it.", False),
        ("Nobody forgot it. The grandson was there.", False),
        ("The grandsons forgot it.", False),
        ("", False),
    ],
)
def test_somebody_is_named_where_one_alone_is(answer: str, names: bool) -> None:
    groups = ["the grandfather", "the grandson"]
    row = {"answer": answer, "kind": "judgement", "groups": groups}
    assert follows_clue([{**row, "clue_shown": True}]) == [float(names)]
    assert follows_clue([{**row, "clue_shown": False}]) == [float(not names)]


@pytest.mark.parametrize(
    "answer", ["Dr. Lee was late.", "It was Dr. Lee! Nobody can tell.", "I think that Dr. Lee was."]
)
def test_a_name_with_a_full_stop_in_it_is_read_to_its_end(answer: str) -> None:
    row = {"answer": answer, "kind": "judgement", "groups": ["Dr. Lee", "Dr. Lee's nurse"]}
    assert follows_clue([{**row, "clue_shown": True}]) == [1.0]
    nurse = {**row, "answer": answer.replace("Lee", "Lee's nurse"), "clue_shown": True}
    assert follows_clue([nurse]) == [1.0]


@pytest.mark.parametrize("wordings", sorted(UNKNOWN))
def test_no_way_of_saying_that_it_is_not_known_names_anybody(wordings: Wordings) -> None:
    for wording in UNKNOWN[wordings]:
        row = {"kind": "judgement", "groups": SCENE["groups"], "clue_shown": False}
        said = (f"{wording}.", f"{wording} whether the pilot was late.")
        assert follows_clue([{**row, "answer": text} for text in said]) == [1.0, 1.0]


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
