"""Reading a driver's arguments and the environment: every shape that is in use, and a clear error for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from abort_sync import AbortClient, ConfigurationError, Keys
from abort_sync._args import instance_ids_from_args, instance_ids_of, kwargs_from_args, kwargs_from_env


def named(instance_id: Any) -> SimpleNamespace:
    return SimpleNamespace(instance_id=instance_id)


class Hostile:
    """Raises when it is looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (None, []),
        ("", []),
        ("  ", []),
        ("a", ["a"]),
        (["b", "a", "b"], ["b", "a"]),
        (("a", None, "", " ", "b"), ["a", "b"]),
        ({"x": "a", "y": "b", "z": "a"}, ["a", "b"]),
        ({"x": None}, []),
        ({"x": named("a"), "y": named(None)}, ["a"]),
        ([named("a"), "b", named("a")], ["a", "b"]),
        (named("a"), ["a"]),
        (named(" "), []),
        ([], []),
        ({}, []),
        (dict.fromkeys(["b", "a"]).keys(), ["b", "a"]),
    ],
    ids=repr,
)
def test_instance_ids_of_every_shape(value: Any, ids: list[str]) -> None:
    """C1: map, list, tuple, one string, objects; None and "" are left out; each id once, order kept."""
    assert instance_ids_of(value) == ids


def test_sets_and_generators_are_read_too() -> None:
    """C1: any iterable will do, and is gone through once."""
    assert sorted(instance_ids_of({"a", "b"})) == ["a", "b"]
    assert instance_ids_of(one for one in ["b", "a"]) == ["b", "a"]
    assert instance_ids_of(iter([named("a")])) == ["a"]


@pytest.mark.parametrize("value", [7, True, 1.5, b"a", bytearray(b"a"), object(), ["a", 7], {"x": 7}, [["a"]], [b"a"], {"x": {"y": "a"}}])
def test_an_id_that_is_no_string_is_refused(value: Any) -> None:
    """An id of another type is a mistake that is named, not left out."""
    with pytest.raises(ConfigurationError, match=r"^instance ids must be strings \(or objects with instance_id\), not \w+"):
        instance_ids_of(value)


@pytest.mark.parametrize("as_mapping", [False, True])
def test_plural_and_singular_are_both_read(as_mapping: bool) -> None:
    """C1: the plural map, the singular attribute and the instances are all read, each id once."""
    values = {
        "session_server_instance_ids": {"s0": "id-0", "s1": "id-1"},
        "session_server_instance_id": "id-1",
        "session_server_instances": [named("id-2"), named("id-0")],
    }
    args = values if as_mapping else SimpleNamespace(**values)
    assert instance_ids_from_args(args) == ["id-0", "id-1", "id-2"]


@pytest.mark.parametrize("args", [SimpleNamespace(), {}, SimpleNamespace(session_server_instance_ids=None, session_server_instance_id="")])
def test_no_ids_are_no_error(args: Any) -> None:
    """C2: arguments without ids give an empty list; the caller says so."""
    assert instance_ids_from_args(args) == []


@pytest.mark.parametrize("args", [None, 7, True, 1.5, [], (), set(), frozenset()])
@pytest.mark.parametrize("read", [instance_ids_from_args, kwargs_from_args, AbortClient.from_args])
def test_what_cannot_be_arguments_is_refused(args: Any, read: Any) -> None:
    """A value that is no object with attributes and no mapping is refused by its type."""
    with pytest.raises(
        ConfigurationError, match=r"^args must be the driver's arguments \(an object with attributes, or a mapping\), not \w+$"
    ):
        read(args)


@pytest.mark.parametrize("args", ["rid-1", b"rid-1"])
def test_a_string_for_arguments_says_which_function_was_meant(args: Any) -> None:
    """A rid or an id given as `args` is answered with the functions that take one."""
    with pytest.raises(ConfigurationError) as caught:
        instance_ids_from_args(args)
    for name in ("abort_sglang_request(url, rid)", "abort_request(rid)", "flush(id)"):
        assert name in str(caught.value)


def test_arguments_that_cannot_be_read_are_named() -> None:
    """An attribute that raises when it is read is one clear error with its name and its cause."""
    with pytest.raises(ConfigurationError, match=r"^args\.session_server_instance_ids cannot be read: RuntimeError: not now$") as caught:
        instance_ids_from_args(Hostile())
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ({}, {}),
        ({"sglang_router_ip": None, "sglang_router_port": None}, {}),
        ({"sglang_router_ip": "10.0.0.1", "sglang_router_port": 3000}, {"router_url": ["http://10.0.0.1:3000"]}),
        ({"sglang_router_ip": "10.0.0.1", "sglang_router_port": "3000"}, {"router_url": ["http://10.0.0.1:3000"]}),
        ({"sglang_router_ip": "::1", "sglang_router_port": 3000}, {"router_url": ["http://[::1]:3000"]}),
        ({"sglang_router_ip": "[::1]", "sglang_router_port": 3000}, {"router_url": ["http://[::1]:3000"]}),
        ({"sglang_router_ip": "https://h/", "sglang_router_port": 3000}, {"router_url": ["https://h:3000"]}),
        (
            {"sglang_router_ip": "a", "sglang_router_port": 1, "sglang_model_routers": {"x": ("b", 2), "y": ["a", 1]}},
            {"router_url": ["http://a:1", "http://b:2"]},
        ),
        ({"sglang_model_routers": {}}, {}),
        ({"rollout_external_engine_addrs": ["a:1", "http://b:2"]}, {"worker_urls": ["a:1", "http://b:2"]}),
        ({"rollout_external_engine_addrs": "a:1, b:2 c:3"}, {"worker_urls": ["a:1", "b:2", "c:3"]}),
        ({"rollout_external_engine_addrs": []}, {}),
    ],
)
def test_routers_and_engines_of_a_driver(args: dict[str, Any], kwargs: dict[str, Any]) -> None:
    """A12: one router, several by model, and engines without a router are read from attributes and mappings alike."""
    assert kwargs_from_args(args) == kwargs
    assert kwargs_from_args(SimpleNamespace(**args)) == kwargs


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ({"sglang_router_ip": "h"}, "args.sglang_router_ip and sglang_router_port must be a host and a port, not 'h' and None"),
        ({"sglang_router_ip": "h", "sglang_router_port": True}, "must be a host and a port"),
        ({"sglang_router_ip": "h", "sglang_router_port": " "}, "must be a host and a port"),
        ({"sglang_router_ip": 7, "sglang_router_port": 1}, "must be a host and a port"),
        ({"sglang_model_routers": [("h", 1)]}, "args.sglang_model_routers must be a mapping {name: (ip, port)}, not list"),
        ({"sglang_model_routers": {"m": "h:1"}}, "args.sglang_model_routers['m'] must be a pair (ip, port), not str"),
        ({"sglang_model_routers": {"m": ("h", 1, 2)}}, "must be a pair (ip, port), not tuple"),
        ({"sglang_model_routers": {"m": None}}, "must be a pair (ip, port), not NoneType"),
        ({"rollout_external_engine_addrs": 7}, "args.rollout_external_engine_addrs must be a list of addresses, not int"),
    ],
)
def test_an_address_that_cannot_be_read_is_named(args: dict[str, Any], what: str) -> None:
    """A router or engine in a wrong form is one error that names the argument and the right form."""
    with pytest.raises(ConfigurationError) as caught:
        kwargs_from_args(args)
    assert what in str(caught.value)


def test_the_environment_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: every variable goes to its own setting, and is read at the call."""
    assert kwargs_from_env() == {"keys": Keys()}
    for name, value in {
        "ABORT_SYNC_ROUTER_URL": " http://a:1 ,, http://b:2",
        "ABORT_SYNC_ROUTER_KEY": "r\n",
        "ABORT_SYNC_WORKER_KEY": "w",
        "ABORT_SYNC_WORKER_ADMIN_KEY": " ",
        "HARBOR_ADMIN_SECRET": "g",
        "SWE_AGENT_URL": "http://old:1",
    }.items():
        monkeypatch.setenv(name, value)
    assert kwargs_from_env() == {
        "keys": Keys(router="r", worker="w", agent="g"),
        "router_url": ["http://a:1", "http://b:2"],
        "agent_server_url": "http://old:1",
    }
    monkeypatch.setenv("AGENT_SERVER_URL", " http://new:1 ")
    assert kwargs_from_env()["agent_server_url"] == "http://new:1"
    monkeypatch.setenv("AGENT_SERVER_URL", "  ")
    assert kwargs_from_env()["agent_server_url"] == "http://old:1"


def test_arguments_go_before_the_environment_and_overrides_before_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """`from_args` takes what `args` give, the rest from the environment, and overrides win."""
    monkeypatch.setenv("ABORT_SYNC_ROUTER_URL", "http://env:1")
    monkeypatch.setenv("ABORT_SYNC_WORKER_KEY", "from-env")
    args = {"sglang_router_ip": "args", "sglang_router_port": 1}

    def routers(client: AbortClient) -> list[str]:
        return [one.host for one in client._settings.routers]

    assert routers(AbortClient.from_env()) == ["env"]
    assert routers(AbortClient.from_args({})) == ["env"]
    assert routers(AbortClient.from_args(args)) == ["args"]
    assert routers(AbortClient.from_args(args, router_url="http://own:1", timeout_s=3)) == ["own"]
    assert AbortClient.from_args(args)._settings.keys == Keys(worker="from-env")


def test_a_key_in_the_environment_that_cannot_be_sent_is_refused_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """E6: a broken key from a variable is refused by its name, without its value."""
    monkeypatch.setenv("HARBOR_ADMIN_SECRET", "hunter2\x01")
    with pytest.raises(ConfigurationError, match=r"^keys\.agent holds a control") as caught:
        AbortClient.from_env(agent_server_url="http://a:1")
    assert "hunter2" not in str(caught.value)


def test_a_generator_of_addresses_is_read_once() -> None:
    """Engine addresses may come from any iterable."""

    def addresses() -> Iterator[str]:
        yield "a:1"

    assert kwargs_from_args({"rollout_external_engine_addrs": addresses()}) == {"worker_urls": ["a:1"]}
