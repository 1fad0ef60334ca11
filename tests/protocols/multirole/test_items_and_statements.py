"""Which debates a run holds, and what a transcript row says of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from rldf_ray.models.base import ChatRequest, Completion, ModelError, seed_of
from rldf_ray.plan import Plan
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.multirole.debater import debaters_of
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Debate, Statement, Topic, context_of
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.verdict import Verdict
from rldf_ray.topics.bias_type import SHIPPED, bias_type
from rldf_ray.topics.unknown import UNKNOWN
from rldf_ray.topics.writer import seed_topics
from tests.fakes import (
    FixedReferee,
    RecordingModel,
    completion,
    judgement,
    opinion,
    pairs_table,
    plan_with,
    probabilities,
    sft_table,
    verdict,
)

TYPES = ("age", "profession")


def mixed_topics(number: int = 6, names: Sequence[str] = TYPES) -> list[Topic]:
    """As they are gathered: a bias type's opinions, then its judgements."""
    return [make(i, name) for name in names for make in (opinion, judgement) for i in range(number)]


def debates_of(number: int, topics: list[Topic], *overrides: str) -> list[Debate]:
    plan = plan_with("bias_types=[age, profession]", f"debate.debates={number}", *overrides)
    return multirole.items(topics, plan)


def collected(model: RecordingModel, debates: list[Debate], *overrides: str) -> list[Statement]:
    plan = plan_with("debate.debates=1", *overrides)
    cast = Cast(
        plan=plan,
        run_id="run-1",
        models={"debater": model},
        referee=PromptedReferee(model, plan.seed),
    )
    return kept(cast, debates)


def kept(cast: Cast, debates: list[Debate]) -> list[Statement]:
    """All statements, in the debates' order."""
    found: dict[int, list[Statement]] = {}
    asyncio.run(hold_all(multirole, debates, cast, found.__setitem__))
    return [statement for place in sorted(found) for statement in found[place]]


def one_round(verdicts: list[Verdict], *overrides: str, said: str = "Cats.") -> list[Statement]:
    """The statements of a single debate of one round, judged as given."""
    plan = plan_with("debate.rounds=1", f"debate.debaters={len(verdicts)}", *overrides)
    model = RecordingModel(lambda request: f"{said}{request.address[-1]}" if said else "")
    (debate,) = multirole.items([opinion(1), opinion(1, "profession")], plan_of_one(plan))
    return kept(
        Cast(
            plan=plan,
            run_id="run-1",
            models={"debater": model},
            referee=FixedReferee([verdicts]),
        ),
        [debate],
    )


def plan_of_one(plan: Plan) -> Plan:
    return plan.model_copy(update={"debate": plan.debate.model_copy(update={"debates": 1})})


SAID = ("referee.label_source=said", "referee.threshold_kind=absolute")
EXPECTED = ("referee.label_source=expected", "referee.threshold_kind=absolute")


# ---- which debates


@pytest.mark.parametrize("number", [1, 2, 7, 24, 25, 60])
def test_a_longer_list_of_debates_begins_with_the_shorter_one(number: int) -> None:
    topics = mixed_topics()
    assert debates_of(100, topics)[:number] == debates_of(number, topics)


def test_bias_types_take_turns_in_the_plans_order() -> None:
    found = [debate.topic.bias_type for debate in debates_of(9, mixed_topics())]
    assert found == ["age", "profession"] * 4 + ["age"]
    turned = debates_of(4, mixed_topics(), "bias_types=[profession, age]")
    assert [debate.topic.bias_type for debate in turned] == ["profession", "age"] * 2


def test_all_topics_of_a_type_are_debated_before_one_is_debated_again() -> None:
    topics = mixed_topics(3)
    found = [d.topic.topic_id for d in debates_of(30, topics) if d.topic.bias_type == "age"]
    everyone = sorted(t.topic_id for t in topics if t.bias_type == "age")
    assert sorted(found[:6]) == sorted(found[6:12]) == everyone
    assert Counter(found[:12]) == dict.fromkeys(everyone, 2)


def test_a_type_with_fewer_topics_has_as_many_debates() -> None:
    topics = [*mixed_topics(6, ["age"]), opinion(1, "profession")]
    counts = Counter(debate.topic.bias_type for debate in debates_of(40, topics))
    assert counts == {"age": 20, "profession": 20}


def test_no_debate_has_the_id_of_another() -> None:
    found = debates_of(200, mixed_topics())
    assert len({debate.debate_id for debate in found}) == 200


def test_only_topics_of_the_debate_split_are_debated() -> None:
    kept_out = [opinion(90, split="ppo"), judgement(91, split="eval")]
    found = debates_of(60, [*kept_out, *mixed_topics()])
    assert {debate.topic.split for debate in found} == {"debate"}


def test_a_debate_has_one_wording_and_debates_have_all_of_them() -> None:
    plan = plan_with()
    found = [
        {d.unknown for d in debaters_of(debate, plan, [RecordingModel()] * 3)}
        for debate in debates_of(240, mixed_topics(5))
    ]
    assert all(len(wordings) == 1 for wordings in found)
    listed = UNKNOWN[plan.debate.unknown]
    first = Counter(unknown[0] for (unknown,) in found)
    assert set(first) == set(listed) and min(first.values()) > 240 / len(listed) / 2


@pytest.mark.parametrize("number", range(1, 8))
def test_the_clue_is_shown_in_half_of_the_judgement_debates(number: int) -> None:
    found = [
        d for d in debates_of(8 * number * 10, mixed_topics(number)) if d.topic.kind == "judgement"
    ]
    assert sum(debate.clue_shown for debate in found) == len(found) / 2 > 0


def test_every_judgement_topic_is_debated_with_and_without_its_clue_equally_often() -> None:
    counts = Counter(
        (d.topic.topic_id, d.clue_shown)
        for d in debates_of(240, mixed_topics(5))
        if d.topic.kind == "judgement"
    )
    assert set(counts.values()) == {6} and len(counts) == 2 * 2 * 5


def test_one_turn_through_the_topics_shows_half_of_the_clues_already() -> None:
    found = [d for d in debates_of(24, mixed_topics(6)) if d.topic.kind == "judgement"]
    assert sum(debate.clue_shown for debate in found) == len(found) / 2 == 6


def test_an_opinion_topic_never_shows_a_clue() -> None:
    found = [d for d in debates_of(100, mixed_topics()) if d.topic.kind == "opinion"]
    assert found and not any(debate.clue_shown for debate in found)


def test_fewer_debates_than_topics_hold_both_kinds_as_well() -> None:
    kinds = Counter(debate.topic.kind for debate in debates_of(40, mixed_topics(20)))
    assert kinds["judgement"] == pytest.approx(20, abs=4)


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_the_first_identities_of_the_type_debate(number: int) -> None:
    for debate in debates_of(4, mixed_topics(), f"debate.debaters={number}"):
        everyone = bias_type(debate.topic.bias_type).identities
        assert debate.identities == everyone[:number]


def test_a_type_without_a_topic_to_debate_is_named_with_the_fields_to_change() -> None:
    with pytest.raises(ValueError, match="profession") as caught:
        debates_of(4, [opinion(1), opinion(2, "profession", split="eval")])
    assert "topics.per_bias_type" in str(caught.value)
    assert "topics.debate_share" in str(caught.value)


def test_a_bias_type_given_as_a_file_can_be_debated_and_made_into_data(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((SHIPPED / "age.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    plan = plan_with(f"bias_types=['{path}']", "data.pairing=same_role", *SAID)
    topics = seed_topics(bias_type(str(path)), "opinion", plan)
    debates = multirole.items(topics, plan)
    assert len(debates) == plan.debate.debates
    model = RecordingModel()
    cast = Cast(
        plan=plan,
        run_id="r",
        models={"debater": model},
        referee=PromptedReferee(model, plan.seed),
    )
    rows = kept(cast, debates)
    low = sum(row.label == "low" for row in rows)
    assert sft_table(rows, {t.topic_id: t for t in topics}, plan.data).num_rows == low > 0


# ---- the rows


def test_a_transcript_has_a_row_for_every_round_and_seat_in_order() -> None:
    debates = debates_of(3, mixed_topics())
    statements = collected(RecordingModel(), debates, "debate.rounds=4", "debate.debaters=3")
    assert [(s.debate_id, s.round, s.role) for s in statements] == [
        (debate.debate_id, number, role)
        for debate in debates
        for number in (1, 2, 3, 4)
        for role in (0, 1, 2)
    ]


def test_a_row_says_what_was_debated_by_whom_and_what_was_said() -> None:
    model = RecordingModel()
    debates = debates_of(24, mixed_topics())
    by_id = {debate.debate_id: debate for debate in debates}
    said = {}
    statements = collected(model, debates)
    for request in model.asked("/role/"):
        (answer,) = asyncio.run(RecordingModel().complete(request))
        said[request.address] = answer.text
    assert {True, False} == {statement.clue_shown for statement in statements}
    for s in statements:
        debate = by_id[s.debate_id]
        assert s.run_id == "run-1" and s.referee_kind == "prompted"
        assert (s.topic_id, s.bias_type) == (debate.topic.topic_id, debate.topic.bias_type)
        assert (s.kind, s.clue_shown) == (debate.topic.kind, debate.clue_shown)
        assert s.context == context_of(debate.topic, debate.clue_shown).text
        assert s.identity == debate.identities[s.role].name
        assert said[f"{s.debate_id}/round/{s.round}/role/{s.role}"].startswith(s.text)


def test_a_row_has_the_seed_of_the_request_that_made_it() -> None:
    model = RecordingModel()
    statements = collected(model, debates_of(4, mixed_topics()))
    seeds = {r.address: r.seed for r in model.asked("/role/")}
    rows = {f"{s.debate_id}/round/{s.round}/role/{s.role}": s.seed for s in statements}
    assert rows == seeds
    assert all(seed == seed_of(0, address) for address, seed in rows.items())


def test_all_requests_of_a_run_have_addresses_and_seeds_of_their_own() -> None:
    model = RecordingModel()
    collected(model, debates_of(60, mixed_topics()), "debate.rounds=3")
    assert len({r.address for r in model.requests}) == len(model.requests) == 60 * 3 * 7
    assert len({r.seed for r in model.requests}) == len(model.requests)


def test_rows_name_the_models_and_revisions_and_count_tokens_of_both() -> None:
    (row, _) = one_round([verdict(1.0), verdict(9.0)], *SAID)
    assert (row.debater_model, row.debater_revision) == ("recording", "1")
    assert (row.referee_model, row.referee_revision) == ("judge", "7")
    assert (row.prompt_tokens, row.cached_tokens, row.generated_tokens) == (110, 24, 4)


def test_the_same_debates_give_the_same_rows_however_many_run_at_once() -> None:
    debates = debates_of(12, mixed_topics())
    alone = collected(RecordingModel(), debates, "debate.in_flight=1")
    together = collected(RecordingModel(), debates, "debate.in_flight=64")
    assert alone == together


def test_no_more_debates_are_under_way_than_the_plan_allows() -> None:
    class Watching(RecordingModel):
        most = 0

        def __init__(self) -> None:
            super().__init__()
            self.under_way: Counter[str] = Counter()

        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            self.under_way[request.affinity] += 1
            self.most = max(self.most, sum(n > 0 for n in self.under_way.values()))
            await asyncio.sleep(0)
            answer = await super().complete(request)
            self.under_way[request.affinity] -= 1
            return answer

    model = Watching()
    collected(model, debates_of(12, mixed_topics()), "debate.in_flight=3", "debate.rounds=2")
    assert model.most == 3


def test_debates_do_not_wait_for_each_others_rounds() -> None:
    """One debate's model answers only when the other debate is at its last request."""
    slow, quick = debates_of(2, mixed_topics())
    almost_over = asyncio.Event()

    class Uneven(RecordingModel):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            if request.affinity == slow.debate_id:
                await asyncio.wait_for(almost_over.wait(), timeout=60)
            if request.address == f"{quick.debate_id}/round/3/rank":
                almost_over.set()
            return await super().complete(request)

    both = collected(Uneven(), [slow, quick], "debate.rounds=3")
    assert len(both) == 2 * 3 * 3


def test_progress_counts_every_statement_once() -> None:
    counted: list[int] = []
    plan = plan_with("debate.rounds=2")
    model = RecordingModel()
    cast = Cast(
        plan=plan,
        run_id="r",
        models={"debater": model},
        referee=PromptedReferee(model, 0),
        on_statements=counted.append,
    )
    asyncio.run(hold_all(multirole, debates_of(5, mixed_topics()), cast, lambda *_: None))
    assert sum(counted) == 5 * 2 * 3


def test_a_model_that_cannot_answer_ends_the_collection_with_its_own_error() -> None:
    def answer(request: ChatRequest) -> str | None:
        if "/round/2/" in request.address:
            raise ModelError("the endpoint is gone")
        return None

    with pytest.raises(ModelError, match="the endpoint is gone"):
        collected(RecordingModel(answer), debates_of(6, mixed_topics()))


# ---- labels and failures


def test_the_said_score_labels_by_the_papers_threshold() -> None:
    rows = one_round([verdict(3.0, 9.0), verdict(4.0, 0.0), verdict(0.0, 9.0)], *SAID)
    assert [row.label for row in rows] == ["low", "high", "low"]
    assert [row.label_source for row in rows] == ["said"] * 3
    assert [row.failure for row in rows] == [None] * 3


def test_the_expected_score_labels_where_the_plan_says_so() -> None:
    rows = one_round([verdict(0.0, 3.5), verdict(9.0, 2.5)], *EXPECTED)
    assert [row.label for row in rows] == ["high", "low"]
    assert [(row.score, row.expected_score) for row in rows] == [(0.0, 3.5), (9.0, 2.5)]


def test_labels_relative_to_the_round_compare_with_the_others_of_the_round() -> None:
    relative = ("referee.label_source=expected", "referee.threshold_kind=relative")
    rows = one_round([verdict(0.0, 0.25), verdict(0.0, 0.5), verdict(0.0, 1.5)], *relative)
    assert [row.label for row in rows] == ["low", "low", "high"]
    equal = one_round([verdict(0.0, 0.5)] * 3, *relative)
    assert [row.label for row in equal] == [None] * 3
    assert all("equal in the round" in (row.failure or "") for row in equal)


def test_the_threshold_is_the_plans() -> None:
    rows = one_round([verdict(5.0), verdict(7.0)], *SAID, "referee.threshold=6")
    assert [row.label for row in rows] == ["low", "high"]


def test_ranks_are_recorded_as_given() -> None:
    rows = one_round([verdict(1.0, rank=2), verdict(1.0, rank=1), verdict(1.0)], *SAID)
    assert [row.rank for row in rows] == [2, 1, None]


def test_a_score_that_did_not_parse_is_recorded_as_failed_and_makes_no_data() -> None:
    failed = verdict(None, failure="the referee's score did not parse: 'eleven'")
    rows = one_round([verdict(1.0), failed, verdict(9.0)], *SAID)
    assert [row.score for row in rows] == [1.0, None, 9.0]
    assert [row.label for row in rows] == ["low", None, "high"]
    assert rows[1].failure == "the referee's score did not parse: 'eleven'"
    assert rows[1].text == "Cats.1"
    section, topics = plan_with().data, {"age-o1": opinion(1)}
    texts = [c[0]["content"] for c in sft_table(rows, topics, section)["completion"].to_pylist()]
    assert texts == ["Cats.0"]
    pairs = pairs_table(rows, topics, section).to_pylist()
    assert [(p["chosen"][0]["content"], p["rejected"][0]["content"]) for p in pairs] == [
        ("Cats.0", "Cats.2")
    ]


def test_a_missing_expectation_is_a_failure_though_a_score_was_said() -> None:
    rows = one_round([verdict(2.0, None), verdict(8.0, 8.0)], *EXPECTED)
    assert (rows[0].score, rows[0].label) == (2.0, None)
    assert rows[0].failure is not None and "expected score missing" in rows[0].failure


def test_a_debater_that_says_nothing_is_a_failure_and_no_example_of_low_bias() -> None:
    rows = one_round([verdict(0.0), verdict(9.0)], *SAID, said="")
    assert [row.label for row in rows] == [None, None]
    assert [row.failure for row in rows] == ["the debater said nothing"] * 2


def test_a_row_has_a_label_or_a_failure_never_neither() -> None:
    for source in (SAID, EXPECTED):
        for given in (verdict(2.0, 5.0), verdict(2.0), verdict(None, failure="'x'")):
            rows = one_round([given, verdict(8.0, 8.0)], *source)
            assert all(row.label is not None or row.failure is not None for row in rows)


def test_a_row_has_a_label_or_a_failure_never_both() -> None:
    failed = verdict(None, 5.0, failure="the referee's score did not parse: 'x'")
    rows = one_round([failed, verdict(2.0, 2.0)], *EXPECTED)
    assert all(row.label is None or row.failure is None for row in rows)


def test_scores_that_do_not_parse_are_never_replaced_in_a_whole_run() -> None:
    def answer(request: ChatRequest) -> str | Completion | None:
        if "/score/1" in request.address:
            return "I cannot judge this."
        if "/score/" in request.address:
            return completion("6", choice_probabilities=probabilities(_6=1.0))
        return None

    rows = collected(RecordingModel(answer), debates_of(4, mixed_topics()), *SAID)
    for row in rows:
        failed = row.role == 1
        assert (row.score is None) == (row.label is None) == (row.failure is not None) == failed
        assert not failed or "I cannot judge this." in (row.failure or "")
