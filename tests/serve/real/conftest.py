"""One real server for all files of this folder, which `make test-all` runs in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from benchmarks.running_server import Running, running
from tests.serve.a_run import write_adapter, write_model_with_tools, write_reward_model, write_run

TOOLS = {"tool_call_parser": "hermes"}


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One vLLM engine with the embedded model (base, shown tools) and an adapter on it (policy)."""
    folder = tmp_path_factory.mktemp("real")
    settings = {
        "default": "policy",
        "models": {
            "policy": {"folder": str(write_adapter(folder / "adapter")), "on": "base"},
            "base": {"folder": str(write_model_with_tools(folder / "base"))},
        },
        "reward": str(write_reward_model(folder / "reward/model")),
        "runs": [str(write_run(folder / "small"))],
        "engine": {"max_model_len": 1024, "max_num_seqs": 32, "cpus": 0.5} | TOOLS,
        "limits": {"request_timeout_s": 1200, "max_tokens": 512},
    }
    config = folder / "application.yaml"
    config.write_text(
        yaml.safe_dump({"applications": [{"args": settings}]}, sort_keys=False), encoding="utf-8"
    )
    with running(str(config), log=folder / "serve.txt") as server:
        yield server
