"""What the trained referee is fitted to: whole minimal pairs of the fit half, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.reward_score import RewardModel
from rldf_ray.plan import PlanError, load_plan
from rldf_ray.referee.audit import auc_of, words_scores
from rldf_ray.referee.fit import (
    audit_statements,
    baseline_statements,
    fit_pairs,
    fit_statements,
    shared_statements,
)
from rldf_ray.referee.labelled_statements import (
    given_statements,
    held_out_statements,
    labelled_statements,
)
from rldf_ray.referee.trained import referee_prompt
from rldf_ray.train.layers import lower_layers
from rldf_ray.train.reward import _encode, held_out_topics
from tests.fakes import plan_with
from tests.train.tiny import tiny_config, tiny_tokenizer

PLAN = plan_with("bias_types=[age, profession]")


def test_a_referee_is_fitted_to_the_kinds_that_the_plan_debates() -> None:
    changes = "referee.kind=trained", "bias_types=[age]", "referee.fit.bias_types=[age, scenes]"
    for share, kinds in ((1.0, {"judgement"}), (0.0, {"opinion"}), (0.5, {"opinion", "judgement"})):
        plan = plan_with(*changes, f"topics.judgement_share={share}")
        assert {s.kind for s in fit_statements(plan)} == kinds
        assert {s.kind for s in audit_statements(plan)} == kinds
    prompted = plan_with("bias_types=[age]", "topics.judgement_share=1.0", "referee.kind=prompted")
    assert {s.kind for s in audit_statements(prompted)} == {"opinion", "judgement"}


def test_pairs_are_the_fit_half_of_the_plans_bias_types_fair_side_chosen() -> None:
    rows = fit_pairs(fit_statements(PLAN)).to_pylist()
    expected = {
        (s.context, s.text, s.label)
        for name in ("age", "profession")
        for s in labelled_statements(name)
        if s.split == "fit"
    }
    found = set()
    for row in rows:
        (chosen,), (rejected,), prompt = row["chosen"], row["rejected"], row["prompt"][-1]
        assert [m["role"] for m in (*row["prompt"], chosen)] == ["system", "user", "assistant"]
        (context,) = {c for c, *_ in expected if referee_prompt(c)[-1].content == prompt["content"]}
        found |= {(context, chosen["content"], 0), (context, rejected["content"], 1)}
    assert found == expected and 2 * len(rows) == len(expected)


def test_a_plan_may_name_whose_statements_its_referee_learns() -> None:
    changes = ("referee.kind=trained", "referee.fit.bias_types=[age]", "bias_types=[religion]")
    plan = plan_with(*changes)
    assert {s.bias_type for s in fit_statements(plan)} == {"age"}
    assert {s.bias_type for s in audit_statements(plan)} == {"age"}
    other = plan_with("referee.kind=prompted", "bias_types=[religion, profession]")
    assert {s.bias_type for s in audit_statements(other)} == {"profession"}


def test_a_set_that_is_named_twice_is_refused_but_read_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"fit\.bias_types: age: named twice"):
        plan_with("referee.fit.bias_types=[age, scenes, age]")
    path = tmp_path / "plan.yaml"
    path.write_text(
        plan_with("referee.fit.bias_types=[age, beauty]").to_yaml().replace("- beauty", "- age"),
        encoding="utf-8",
    )
    saved = load_plan(str(path), saved=True).referee.fit.bias_types
    assert saved == ("age", "age")


def test_a_referee_that_checks_is_audited_on_answers() -> None:
    changes = ("referee.kind=prompted", "bias_types=[age]", "referee.audit_pairs=40")
    scored = audit_statements(plan_with(*changes))
    checked = audit_statements(plan_with(*changes, "referee.judgements=checked"))
    differ = [s for s, c in zip(scored, checked, strict=True) if s.label != c.label]
    assert differ and all(s.abstains and s.label == 0 for s in differ)


BASELINES = {
    "prompted, scenes": ("referee.kind=prompted", "topics.judgement_share=1"),
    "prompted, opinions": ("referee.kind=prompted", "topics.judgement_share=0"),
    "checked": ("referee.kind=prompted", "referee.judgements=checked"),
    "trained on scenes": (
        "referee.kind=trained",
        "topics.judgement_share=1",
        "referee.fit.bias_types=[age, scenes]",
    ),
    "debate": ("referee.kind=debate", "referee.fit.bias_types=[beauty]"),
    "few pairs": ("referee.kind=prompted", "referee.audit_pairs=2"),
}


@pytest.mark.parametrize("changes", BASELINES.values(), ids=BASELINES)
def test_the_baseline_learns_of_the_kinds_and_labels_that_it_is_measured_on(
    changes: tuple[str, ...],
) -> None:
    plan = plan_with("bias_types=[age, profession]", *changes)
    audited = audit_statements(plan)
    fit = baseline_statements(plan, audited)
    assert {s.kind for s in fit} == {s.kind for s in audited}
    assert {s.split for s in fit} == {"fit"}
    assert {s.pair.split("-")[0] for s in fit} == {s.pair.split("-")[0] for s in audited}
    checked = plan.referee.judgements == "checked"
    for statement in (*fit, *audited):
        assert statement == (statement.as_answer() if checked else statement)
    assert any(s.abstains and s.label for s in fit) == checked


def test_a_baseline_for_what_a_plan_hardly_debates_is_no_worse_for_it() -> None:
    """Of a plan of scenes alone opinions are audited as well."""
    plan = plan_with("referee.kind=prompted", "topics.judgement_share=1")
    audited = audit_statements(plan)
    opinions = [s for s in audited if s.kind == "opinion"]
    found = auc_of(opinions, words_scores(baseline_statements(plan, audited), opinions))
    assert found is not None and found.value > 0.7


def test_for_statements_of_a_comparison_the_baseline_is_of_their_sets() -> None:
    plan = plan_with("referee.kind=prompted", "bias_types=[age, profession]")
    shared = [s for s in audit_statements(plan) if s.bias_type == "age" and s.kind == "opinion"]
    fit = baseline_statements(plan, shared)
    assert {(s.bias_type, s.kind) for s in fit} == {("age", "opinion")}


def test_for_given_statements_the_baseline_is_of_the_sets_that_the_plan_names(
    tmp_path: Path,
) -> None:
    path = tmp_path / "age.jsonl"
    path.write_text('{"text": "They are all alike.", "label": 1}\n', encoding="utf-8")
    plan = plan_with("referee.kind=prompted", "bias_types=[age, profession]")
    own = baseline_statements(plan, audit_statements(plan))
    assert baseline_statements(plan, given_statements(path)) == own


@pytest.mark.parametrize("share", [0, 1])
def test_a_sample_of_pairs_is_of_what_is_judged(share: int) -> None:
    plan = plan_with(
        "bias_types=[age]",
        "referee.kind=trained",
        "referee.audit_pairs=8",
        f"topics.judgement_share={share}",
    )
    assert len(audit_statements(plan)) == 16


def test_where_both_kinds_are_judged_the_sample_is_what_it_was() -> None:
    sampled = held_out_statements("age", 8, 0)
    assert sampled == held_out_statements("age", 8, 0, ("opinion", "judgement"))
    plan = plan_with("bias_types=[age]", "referee.kind=prompted", "referee.audit_pairs=8")
    assert audit_statements(plan) == sampled


def test_where_answers_are_matched_a_referee_is_fitted_to_and_audited_on_opinions() -> None:
    changes = ("debate.answers=chosen", "referee.judgements=matched", "bias_types=[age]")
    for kind in ("prompted", "trained"):
        plan = plan_with(*changes, f"referee.kind={kind}", "topics.judgement_share=0.5")
        assert {s.kind for s in audit_statements(plan)} == {"opinion"}
        assert {s.kind for s in fit_statements(plan)} == {"opinion"}
    scenes = plan_with(*changes, "referee.kind=prompted", "topics.judgement_share=1.0")
    assert audit_statements(scenes) == []


def test_a_referee_without_anything_to_judge_is_not_fitted() -> None:
    changes = ("debate.answers=chosen", "topics.judgement_share=1.0")
    with pytest.raises(PlanError, match=r"referee\.kind=prompted"):
        plan_with(*changes, "referee={kind: trained, judgements: matched}")


def test_nothing_of_the_held_out_half_is_in_them() -> None:
    rows = fit_pairs(fit_statements(PLAN)).to_pylist()
    topics = {s.topic for n in PLAN.bias_types for s in held_out_statements(n, None, 0)}
    assert topics.isdisjoint(row["topic_id"] for row in rows)


def test_topics_kept_for_calibration_are_some_and_not_all() -> None:
    topics = [s.topic for s in fit_statements(PLAN)]
    kept = held_out_topics(topics, PLAN.referee.fit.held_out_share)
    assert 0.1 < len(kept) / len(set(topics)) < 0.35


def test_a_pair_without_both_sides_or_one_context_is_refused() -> None:
    one, two = fit_statements(PLAN)[:2]
    assert one.pair == two.pair
    with pytest.raises(ValueError, match=one.pair):
        fit_pairs([one])
    with pytest.raises(ValueError, match=one.pair):
        fit_pairs([one, two.model_copy(update={"context": "Elsewhere"})])


def test_a_statement_is_scored_on_the_ids_it_is_trained_on() -> None:
    tokenizer = tiny_tokenizer()
    row = {
        "prompt": [{"role": "user", "content": "w1 w2"}],
        "chosen": [{"role": "assistant", "content": "w3 w4 w5"}],
        "rejected": [{"role": "assistant", "content": "w6"}],
    }
    trained = _encode(row, ChatTemplate(tokenizer), 64)
    read: list[list[int]] = []

    class Reading(RewardModel):
        def __init__(self) -> None:
            self.template, self._max_length = ChatTemplate(tokenizer), 64

        def _forward(self, inputs):  # type: ignore[no-untyped-def]
            import torch

            read.extend(inputs)
            return torch.zeros(len(inputs))

    model = Reading()
    for side in ("chosen", "rejected"):
        reward, tokens = model.score_answer(row["prompt"], row[side][0]["content"])
        assert reward == 0.0 and tokens == len(trained[f"{side}_ids"])
    assert read == [trained["chosen_ids"], trained["rejected_ids"]]


def test_a_context_that_leaves_no_room_gives_no_reward() -> None:
    tokenizer = tiny_tokenizer()
    model = object.__new__(RewardModel)
    model.template, model._max_length = ChatTemplate(tokenizer), 8
    long = [{"role": "user", "content": "w1 w2 w3 w4 w5 w6"}]
    assert model.score_answer(long, "w7") == (None, 0)
    assert model.score_answer([{"role": "user", "content": "w1"}], "") == (None, 0)


def test_only_the_upper_of_the_lower_layers_learn() -> None:
    from transformers import LlamaForSequenceClassification

    model = LlamaForSequenceClassification(tiny_config(num_hidden_layers=5, num_labels=1))
    lower_layers(model, None, 2)
    assert len(model.model.layers) == model.config.num_hidden_layers == 3
    learning = {n for n, p in model.named_parameters() if p.requires_grad}
    # Where layers learn all rewards begin alike.
    assert not model.score.weight.any()
    alone = LlamaForSequenceClassification(tiny_config(num_hidden_layers=5, num_labels=1))
    lower_layers(alone, None, 0)
    assert alone.score.weight.any()
    parts = {".".join(n.split(".")[:3]) for n in learning}
    assert parts == {"model.layers.1", "model.layers.2", "model.norm.weight", "score.weight"}


def test_more_layers_than_there_are_is_told() -> None:
    from transformers import LlamaForSequenceClassification

    model = LlamaForSequenceClassification(tiny_config(num_labels=1))
    with pytest.raises(ValueError, match="the model has 2 layers"):
        lower_layers(model, 3, 1)


def test_referees_are_compared_on_what_all_of_them_are_for() -> None:
    base = ("bias_types=[age, profession]", "topics.judgement_share=0.5")
    trained = plan_with(*base, "referee.kind=trained", "referee.fit.bias_types=[age]")
    prompted = plan_with(*base, "referee.kind=prompted")
    shared = shared_statements({"prompted": prompted, "trained": trained})
    assert shared and {s.bias_type for s in shared} == {"age"}
    theirs = {(s.context, s.text) for s in audit_statements(trained)}
    assert {(s.context, s.text) for s in shared} <= theirs
    matched = ("referee.judgements=matched", "debate.answers=chosen")
    spared = plan_with(*base, *matched, "topics.judgement_share=1.0")
    with pytest.raises(PlanError, match=r"prompted \d+, spared 0 for each alone"):
        shared_statements({"prompted": prompted, "spared": spared})
