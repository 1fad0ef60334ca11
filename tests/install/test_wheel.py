"""The wheel alone, outside the checkout: a light core, a server, a sweep.

The one real run of the fast tests (tests/test_end_to_end.py) is the wheel's, too.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.sets.bbq.data import load_bbq
from tests.install.environments import Environment, light_environment, whole_environment
from tests.install.test_dependencies import closure, declared

pytestmark = pytest.mark.slow
SERVED = """
import asyncio, json
import httpx
import rldf_ray as rldf

async def main() -> None:
    body = {"model": "policy", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 8}
    with rldf.serve("embedded") as server:
        async with httpx.AsyncClient(timeout=600, trust_env=False) as client:
            reply = await client.post(f"{server.address}/v1/chat/completions", json=body)
            page = await client.get(server.address)
    server.stop()
    text = reply.json()["choices"][0]["message"]["content"]
    print(json.dumps([reply.status_code, text, page.text]))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return whole_environment(tmp_path_factory.mktemp("whole"))


def test_a_core_without_torch_scores_and_reads(run_of_the_script: Path, tmp_path: Path) -> None:
    core = light_environment(tmp_path, closure(declared()))
    for name in ("torch", "ray", "vllm", "deepspeed", "transformers"):
        found = subprocess.run([core.program("python"), "-c", f"import {name}"], check=False)
        assert found.returncode == 1, name
    item = load_bbq(SCENES).items[0]
    row = {"category": item.category, "example_id": item.example_id, "prediction": item.options[0]}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    scored = core.run(
        "eval", "bbq", "--predictions", "mine.jsonl", "--bbq", str(SCENES), "--json", cwd=tmp_path
    )
    assert scored.returncode == 0, scored.stderr
    assert list(json.loads(scored.stdout)["categories"]) == [item.category]
    shown = core.run("show", str(run_of_the_script), cwd=tmp_path)
    assert shown.returncode == 0 and "Round 1" in shown.stdout, shown.stderr


@pytest.fixture(scope="module")
def run_of_the_script(whole: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose debates a script has held: no model."""
    folder = tmp_path_factory.mktemp("script")
    held = whole.run(
        "debate", "run", "--plan", "smoke", "--set", "teacher=scripted:0",
        "--set", "referee={kind: prompted, label_source: said, threshold_kind: absolute}",
        cwd=folder,
    )  # fmt: skip
    assert held.returncode == 0, held.stdout + held.stderr
    return folder / "run"


def test_no_name_of_ours_but_one_is_installed(whole: Environment) -> None:
    assert {path.name for path in whole.packages.iterdir() if path.is_dir()} - {"__pycache__"} == {
        "rldf_ray",
        next(whole.packages.glob("rldf_ray-*.dist-info")).name,
    }
    assert (whole.packages / "rldf_ray/py.typed").exists()


def test_it_serves_from_a_running_loop(whole: Environment, tmp_path: Path) -> None:
    done = whole.python(SERVED, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    status, text, page = json.loads(done.stdout.splitlines()[-1])
    assert status == 200 and text and "<html" in page


def test_it_sweeps(whole: Environment, tmp_path: Path) -> None:
    swept = whole.run(
        "sweep", "smoke", "--over", "rounds=1,2", "--metric", "pairs", "--out", "sweep",
        "--set", "teacher=scripted:0", "--set", "debate.debates=4",
        "--set", "referee={kind: prompted, label_source: said, threshold_kind: absolute}",
        cwd=tmp_path,
    )  # fmt: skip
    assert swept.returncode == 0, swept.stdout[-2000:] + swept.stderr[-2000:]
    assert len(list((tmp_path / "sweep/trials").glob("*/result.json"))) == 2
    assert pq.read_table(next((tmp_path / "sweep/trials").glob("*/data/pairs.parquet"))).num_rows
