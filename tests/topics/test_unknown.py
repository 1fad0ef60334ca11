"""The ways to say that something is not known: ours, and those that a test's answers use."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rldf_ray.topics.unknown import UNKNOWN, two_wordings

BBQ = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "bbq"
BBQS_TEN = {
    "can't answer",
    "can't be determined",
    "cannot answer",
    "cannot be determined",
    "not answerable",
    "not enough info",
    "not enough information",
    "not known",
    "undetermined",
    "unknown",
}


def test_none_of_ours_is_an_answer_of_bbqs_or_holds_one() -> None:
    for wording in UNKNOWN["own"]:
        assert not [bbqs for bbqs in BBQS_TEN if bbqs in wording.lower()], wording


def test_ours_are_at_least_twelve_and_all_different() -> None:
    assert len({wording.lower() for wording in UNKNOWN["own"]}) == len(UNKNOWN["own"]) >= 12


def test_the_others_hold_bbqs_ten() -> None:
    assert {wording.lower() for wording in UNKNOWN["bbq"]} >= BBQS_TEN


@pytest.mark.skipif(not BBQ.is_dir(), reason=f"no BBQ in {BBQ}")
def test_bbqs_ten_are_bbqs() -> None:
    """As published: every item's answer that is tagged unknown."""
    named = set()
    for path in sorted(BBQ.glob("[!.]*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines():
            item = json.loads(line)
            for place in range(3):
                if item["answer_info"][f"ans{place}"][1] == "unknown":
                    named.add(item[f"ans{place}"].lower().rstrip("."))
    assert named == BBQS_TEN


def test_two_wordings_follow_each_other_round_and_round() -> None:
    listed = UNKNOWN["own"]
    assert two_wordings("own", 0) == listed[:2]
    assert two_wordings("own", len(listed) - 1) == (listed[-1], listed[0])
    assert two_wordings("own", len(listed)) == listed[:2]
