"""`rldf plan schema`: what an editor checks a plan with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import rldf_ray
from tests.commands.conftest import Rldf

PRESETS = sorted(Path(rldf_ray.__file__).with_name("presets").glob("*.yaml"))


@pytest.fixture
def schema(rldf: Rldf) -> dict[str, Any]:
    status, out, err = rldf("plan", "schema")
    assert (status, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def test_every_preset_is_valid(schema: dict[str, Any]) -> None:
    for path in PRESETS:
        jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), schema)


@pytest.mark.parametrize("prompts", ["mine", {"referee/prompts/system.txt": "Be fair."}, None])
def test_prompts_are_a_folder_or_the_texts(schema: dict[str, Any], prompts: object) -> None:
    jsonschema.validate({"prompts": prompts}, schema)


@pytest.mark.parametrize(
    "wrong", [{"debate": {"rouns": 2}}, {"debate": {"rounds": 0}}, {"debate": {"rounds": "many"}}]
)
def test_a_mistake_is_not(schema: dict[str, Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)
