"""The wheel alone, outside the checkout: a light core, a server, a sweep.

The one real run of the fast tests (tests/test_end_to_end.py) is the wheel's, too.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.sets.bbq.data import load_bbq
from tests.install.environments import Environment, light_environment, whole_environment
from tests.install.test_dependencies import closure, declared

pytestmark = pytest.mark.slow
START_S = 1800.0


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


def test_it_serves(whole: Environment, tmp_path: Path) -> None:
    log = tmp_path / "serve.txt"
    command = [whole.program("rldf"), "serve", "embedded", "--port", "0"]
    variables = {**whole.variables(), "PYTHONUNBUFFERED": "1", "NO_PROXY": "127.0.0.1"}
    with log.open("w", encoding="utf-8") as out:
        server = subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=out, stderr=out)
    try:
        address = _address(server, log)
        body = {"model": "policy", "messages": [{"role": "user", "content": "Hello."}]}
        reply = httpx.post(
            f"{address}/v1/chat/completions", json={**body, "max_tokens": 8}, timeout=600
        )
        assert reply.status_code == 200, reply.text
        assert reply.json()["choices"][0]["message"]["content"]
        assert "<html" in httpx.get(f"{address}/", timeout=60).text
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(600) == 0


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith("page"):
                return line.split()[1].rstrip("/")
        time.sleep(0.2)
    raise AssertionError(f"it did not come up:\n{log.read_text(encoding='utf-8')[-4000:]}")


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
