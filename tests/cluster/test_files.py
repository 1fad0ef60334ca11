"""The cluster files are what Ray and Kubernetes accept, and hold no secret."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LAUNCHED = ("cluster.yaml", "docs/cluster/on-premise.yaml")
KUBERAY = "docs/cluster/kuberay.yaml"
RAYSERVICE = "docs/cluster/rayservice.yaml"


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def commands(config: dict[str, Any]) -> str:
    return "\n".join(str(config.get(key, "")) for key in config if key.endswith("_commands"))


@pytest.mark.parametrize("name", LAUNCHED)
def test_ray_accepts_the_file_with_its_defaults_filled_in(name: str) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(read(name))
    validate_config(config)
    assert config["head_node_type"] in config["available_node_types"]
    assert config["max_workers"] == 2


def test_rays_schema_would_notice_a_wrong_field() -> None:
    import jsonschema
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config({**read("cluster.yaml"), "max_worker": 2})
    with pytest.raises(jsonschema.ValidationError, match="max_worker"):
        validate_config(config)


@pytest.mark.parametrize("name", [*LAUNCHED, KUBERAY])
def test_no_secret_stands_in_a_file_or_in_a_command(name: str) -> None:
    """Keys come from files that are read by the shell, so `ps` shows none of them either."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"(AKIA|sk-|hf_)[A-Za-z0-9]{8}", text)
    assert not re.search(r"(KEY|TOKEN|SECRET|PASSWORD)\w*\s*[=:]\s*\S", text)


@pytest.mark.parametrize("name", LAUNCHED)
def test_every_ray_start_has_the_token_mode_and_the_metrics_port(name: str) -> None:
    config = read(name)
    for kind in ("head", "worker"):
        (start,) = [c for c in config[f"{kind}_start_ray_commands"] if "ray start" in c]
        assert "RAY_AUTH_MODE=token" in start and "--metrics-export-port=8080" in start
        # Ray's default is the system's interpreter, which has none of this.
        assert ".venv/bin/ray start" in start
    # The dashboard runs any code it is given.
    assert "--dashboard-host=127.0.0.1" in commands(config)


def test_the_head_keeps_its_cpus_and_spot_is_a_number_to_change() -> None:
    config = read("cluster.yaml")
    kinds = config["available_node_types"]
    assert kinds["head"]["resources"] == {"CPU": 0}
    assert kinds["gpu-spot"]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "InstanceMarketOptions" not in kinds["gpu"]["node_config"]
    assert kinds["gpu-spot"]["max_workers"] == 0 < kinds["gpu"]["max_workers"]


def test_the_kuberay_manifest_has_what_the_operator_needs() -> None:
    from importlib.metadata import version

    found = read(KUBERAY)
    assert (found["apiVersion"], found["kind"]) == ("ray.io/v1", "RayCluster")
    spec = found["spec"]
    assert spec["rayVersion"] == version("ray")
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    images = set()
    for group in groups:
        (container,) = group["template"]["spec"]["containers"]
        images.add(container["image"])
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert container["envFrom"] == [{"secretRef": {"name": "rldf"}}]
    assert len(images) == 1
    (workers,) = spec["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    mounts = workers["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in mounts


def test_the_rayservice_manifest_deploys_what_rldf_serve_does() -> None:
    from importlib.metadata import version

    from ray.serve.schema import ServeDeploySchema

    from rldf_ray.apps.serve.proxy import controller_options
    from rldf_ray.apps.serve.settings import Settings

    found = read(RAYSERVICE)
    assert (found["apiVersion"], found["kind"]) == ("ray.io/v1", "RayService")
    cluster = found["spec"]["rayClusterConfig"]
    assert cluster["rayVersion"] == version("ray")
    deployed = yaml.safe_load(found["spec"]["serveConfigV2"])
    assert deployed["controller_options"] == controller_options()
    (application,) = ServeDeploySchema.model_validate(deployed).applications
    module, _, name = application.import_path.partition(":")
    assert callable(getattr(importlib.import_module(module), name))
    settings = Settings.model_validate(application.args)
    # It listens for others, so it asks for keys; every engine has room on a worker.
    assert settings.host == deployed["http_options"]["host"] and settings.keys is not None
    (workers,) = cluster["workerGroupSpecs"]
    limits = workers["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert settings.engine.gpus <= float(limits["nvidia.com/gpu"])
    assert settings.engine.cpus <= float(limits["cpu"])
    assert settings.engine.max_replicas <= workers["maxReplicas"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    (image,) = {g["template"]["spec"]["containers"][0]["image"] for g in groups}
    assert (
        image
        == read(KUBERAY)["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
    )
