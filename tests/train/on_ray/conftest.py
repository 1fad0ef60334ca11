"""One Ray for all files of this folder, which `make test-all` runs in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rldf_ray.cluster.ray_cluster import ray_cluster


@pytest.fixture(scope="session")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with ray_cluster(tmp_path_factory.mktemp("logs")):
        yield
