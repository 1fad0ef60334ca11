"""Where requests go: versions by their share, and only to engines that are up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rldf_ray.apps.serve.engines import (
    DIED,
    GONE,
    EngineDiedError,
    EngineFailedError,
    EngineGoneError,
    EngineRefusedError,
    EngineRequest,
    UnknownModelError,
    error_piece,
    piece_of,
    raise_if_error,
)
from rldf_ray.apps.serve.routes import Routes
from rldf_ray.apps.serve.settings import read_settings
from rldf_ray.apps.serve.store import ModelStore, StoreError
from tests.serve.a_store import published


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return published(tmp_path, 3)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def routes_of(store: ModelStore, up: set[str], draw: float = 0.0) -> tuple[Routes, Clock]:
    models = {
        "policy": {"store": True},
        "base": {"folder": "b"},
        "lora": {"folder": "l", "on": "base"},
    }
    settings = read_settings({"models": models, "store": str(store.root)})
    clock = Clock()
    return Routes(settings, lambda engine: engine in up, clock, lambda: draw), clock


def test_folders_and_adapters_have_fixed_places(store: ModelStore) -> None:
    routes, _ = routes_of(store, set())
    assert (routes.target("base").engine, routes.target("base").adapter) == ("base", None)
    lora = routes.target("lora")
    assert lora.engine == "base" and lora.adapter is not None
    assert (lora.adapter.name, lora.adapter.folder) == ("lora", "l")
    assert routes.target(None).model == "policy"
    with pytest.raises(UnknownModelError, match="policy, base, lora"):
        routes.target("other")


def test_a_share_goes_to_the_next_version_once_it_is_up(store: ModelStore) -> None:
    store.rollout("v0002", 30)
    up = {"policy.v0001"}
    assert routes_of(store, up, draw=10)[0].target("policy").version == "v0001"
    up.add("policy.v0002")
    assert routes_of(store, up, draw=10)[0].target("policy").version == "v0002"
    assert routes_of(store, up, draw=30)[0].target("policy").version == "v0001"


def test_the_old_version_answers_until_the_new_one_is_up(store: ModelStore) -> None:
    there = up = {"policy.v0001"}
    routes, clock = routes_of(store, up)
    assert set(routes.wanted(there)) == {"policy.v0001", "base"}
    store.rollout("v0002", 100)
    assert routes.target("policy").version == "v0001"
    clock.now += 2
    assert routes.target("policy").version == "v0001"
    assert set(routes.wanted(there)) == {"policy.v0001", "policy.v0002", "base"}
    up.add("policy.v0002")
    assert routes.target("policy").version == "v0002"
    assert set(routes.wanted(there)) == {"policy.v0002", "base"}


def test_who_answers_goes_on_while_versions_that_are_not_up_follow_each_other(
    store: ModelStore,
) -> None:
    there = up = {"policy.v0001"}
    routes, clock = routes_of(store, up, draw=50)
    for version, percent in (("v0002", 100), ("v0002", 100), ("v0003", 10), ("v0003", 100)):
        store.rollout(version, percent)
        clock.now += 2
        assert "policy.v0001" in routes.wanted(there)
        assert routes.target("policy").version == "v0001"
    # What never came up makes room.
    assert set(routes.wanted(there)) == {"policy.v0001", "policy.v0003", "base"}
    up |= {"policy.v0002"}
    assert routes.target("policy").version == "v0002"
    assert set(routes.wanted(there)) == {"policy.v0002", "policy.v0003", "base"}
    there = {"policy.v0001", "policy.v0002"}
    up.clear()
    assert set(routes.wanted(there)) >= there
    up |= {"policy.v0003"}
    assert set(routes.wanted(there)) == {"policy.v0003", "base"}


def test_what_was_before_is_not_started_again(store: ModelStore) -> None:
    for version in ("v0002", "v0003"):
        store.rollout(version, 100)
    for up in (set[str](), {"policy.v0003"}):
        assert set(routes_of(store, up)[0].wanted()) == {"policy.v0003", "base"}


def test_more_requests_go_where_one_went_until_its_version_is_replaced(store: ModelStore) -> None:
    store.rollout("v0002", 30)
    up = {"policy.v0001", "policy.v0002"}
    routes, clock = routes_of(store, up, draw=10)
    new = routes.target("policy")
    routes.draw = lambda: 99.0
    old = routes.target("policy")
    assert (new.version, old.version) == ("v0002", "v0001")
    assert routes.stays(new) and routes.stays(old) and routes.stays(routes.target("base"))
    up -= {"policy.v0002"}
    assert routes.stays(old) and not routes.stays(new)
    up.clear()
    assert routes.stays(old) and routes.stays(new)
    store.rollout("v0002", 100)
    clock.now += 2
    assert routes.stays(old) and routes.stays(new)
    up |= {"policy.v0001", "policy.v0002"}
    assert routes.stays(new) and not routes.stays(old)


def test_an_adapter_stays_with_its_base_s_engine(store: ModelStore) -> None:
    models = {"policy": {"store": True}, "lora": {"folder": "l", "on": "policy"}}
    clock = Clock()
    settings = read_settings({"models": models, "store": str(store.root)})
    routes = Routes(settings, lambda engine: True, clock)
    target = routes.target("lora")
    assert routes.stays(target)
    store.rollout("v0002", 100)
    clock.now += 2
    assert not routes.stays(target) and routes.stays(routes.target("lora"))


def test_an_adapter_of_the_store_is_left_once_it_is_replaced(store: ModelStore) -> None:
    models = {"base": {"folder": "b"}, "policy": {"store": True, "on": "base"}}
    clock = Clock()
    settings = read_settings({"models": models, "store": str(store.root)})
    routes = Routes(settings, lambda engine: True, clock)
    target = routes.target("policy")
    assert routes.stays(target)
    store.rollout("v0002", 100)
    clock.now += 2
    assert not routes.stays(target) and routes.stays(routes.target("policy"))


def test_a_version_whose_folder_was_deleted_is_no_longer_one_that_was_before(
    store: ModelStore,
) -> None:
    store.rollout("v0002", 100)
    shutil.rmtree(store.folder("v0001"))
    routes, _ = routes_of(store, set())
    assert set(routes.engines("policy")) == {"policy.v0002"}
    assert set(routes.wanted()) == {"policy.v0002", "base"}


@pytest.mark.parametrize("stored", [False, True])
def test_an_adapter_is_asked_for_where_its_published_base_is(
    store: ModelStore, stored: bool
) -> None:
    adapter = ModelStore(store.root, "lora")
    adapter.publish(store.folder("v0001"))
    adapter.publish(store.folder("v0001"))
    adapter.rollout("v0002", 100)
    source = {"store": True} if stored else {"folder": "l"}
    models = {"policy": {"store": True}, "lora": {**source, "on": "policy"}}
    settings = read_settings({"models": models, "store": str(store.root)})
    up = {"policy.v0001"}
    routes = Routes(settings, lambda engine: engine in up, Clock())
    store.rollout("v0002", 100)
    target = routes.target("lora")
    assert target.engine == "policy.v0001" and target.adapter is not None
    assert target.adapter.name == ("lora.v0002" if stored else "lora")
    up.add("policy.v0002")
    assert routes.target("lora").engine == "policy.v0002"
    assert routes.engines("lora") == routes.engines("policy")
    assert set(routes.wanted()) == {"policy.v0002"}
    routes.up = lambda engine: True
    assert set(routes.wanted()) == {"policy.v0002"}


def test_with_no_engine_up_requests_wait_for_the_one_they_are_meant_for(store: ModelStore) -> None:
    store.rollout("v0003", 50)
    assert routes_of(store, set(), draw=10)[0].target("policy").engine == "policy.v0003"


def test_a_pointer_that_is_garbled_changes_nothing(store: ModelStore) -> None:
    routes, clock = routes_of(store, {"policy.v0001"})
    assert routes.target("policy").version == "v0001"
    (store.root / "policy/traffic.json").write_text("{", encoding="utf-8")
    clock.now += 2
    assert routes.target("policy").version == "v0001"
    with pytest.raises(StoreError, match="traffic"):
        routes_of(store, set())[0].target("policy")


def test_nothing_published_is_said(store: ModelStore, tmp_path: Path) -> None:
    routes, _ = routes_of(ModelStore(tmp_path / "empty", "policy"), set())
    assert set(routes.wanted()) == {"base"}
    with pytest.raises(EngineGoneError, match="published"):
        routes.target("policy")


def test_the_prefix_router_finds_the_prompt() -> None:
    chat = EngineRequest("chat", {"messages": [{"role": "user", "content": "x"}]})
    assert chat.messages == [{"role": "user", "content": "x"}]
    assert EngineRequest("completion", {"prompt": "y"}).messages == [{"content": "y"}]


class ErrorObject:
    """As vLLM's server in Ray puts it into the lists of a stream."""

    def model_dump(self, mode: str) -> dict[str, object]:
        return {"error": {"message": "too long", "code": 400}}


def test_an_error_object_in_a_stream_is_an_error() -> None:
    assert piece_of(["data: a", "data: b"]) == ["data: a", "data: b"]
    for found in (ErrorObject(), [ErrorObject()], ["data: a", ErrorObject()]):
        with pytest.raises(EngineRefusedError, match="too long"):
            raise_if_error(piece_of(found))


def test_only_a_death_says_that_the_engine_is_gone() -> None:
    raise_if_error({"choices": [], "error": None})
    with pytest.raises(EngineGoneError):
        raise_if_error(error_piece("dead", GONE))
    with pytest.raises(EngineDiedError, match="died"):
        raise_if_error(error_piece("died", DIED))
    with pytest.raises(EngineFailedError):
        raise_if_error(error_piece("a bug", 500))
