"""Read a driver's ``args`` and the environment. This room sends nothing, and reads only when it is called."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ._config import Keys
from ._errors import ConfigurationError

AGENT_URL_NAMES = ("AGENT_SERVER_URL", "SWE_AGENT_URL")


def kwargs_from_env() -> dict[str, Any]:
    """Return the constructor's arguments that the environment gives.

    Raises:
        ConfigurationError: A key there cannot be sent in a header.
    """
    get = os.environ.get
    found: dict[str, Any] = {
        "keys": Keys(
            router=get("ABORT_SYNC_ROUTER_KEY"),
            worker=get("ABORT_SYNC_WORKER_KEY"),
            worker_admin=get("ABORT_SYNC_WORKER_ADMIN_KEY"),
            agent=get("HARBOR_ADMIN_SECRET"),
        )
    }
    routers = [one.strip() for one in get("ABORT_SYNC_ROUTER_URL", "").split(",") if one.strip()]
    if routers:
        found["router_url"] = routers
    agent = next((get(name, "").strip() for name in AGENT_URL_NAMES if get(name, "").strip()), None)
    if agent:
        found["agent_server_url"] = agent
    return found


def kwargs_from_args(args: object) -> dict[str, Any]:
    """Return the constructor's arguments that a driver's ``args`` give.

    Raises:
        ConfigurationError: ``args`` is no object with attributes and no mapping, or an address in it cannot be read.
    """
    check_args(args)
    routers = []
    ip = _read(args, "sglang_router_ip")
    if ip:
        routers.append(_address(ip, _read(args, "sglang_router_port"), "sglang_router_ip and sglang_router_port"))
    models = _read(args, "sglang_model_routers")
    if models:
        if not isinstance(models, Mapping):
            raise ConfigurationError(f"args.sglang_model_routers must be a mapping {{name: (ip, port)}}, not {type(models).__name__}")
        for name, pair in models.items():
            what = f"sglang_model_routers[{name!r}]"
            if isinstance(pair, str) or not isinstance(pair, Iterable) or len(both := list(pair)) != 2:
                raise ConfigurationError(f"args.{what} must be a pair (ip, port), not {type(pair).__name__}")
            routers.append(_address(both[0], both[1], what))
    found: dict[str, Any] = {}
    if routers:
        found["router_url"] = list(dict.fromkeys(routers))
    engines = _read(args, "rollout_external_engine_addrs")
    if engines:
        if isinstance(engines, str):
            engines = engines.replace(",", " ").split()
        if not isinstance(engines, Iterable):
            raise ConfigurationError(f"args.rollout_external_engine_addrs must be a list of addresses, not {type(engines).__name__}")
        found["worker_urls"] = list(engines)
    return found


def instance_ids_from_args(args: object) -> list[str]:
    """Return each instance id in ``args`` once, in order, from the plural map, the singular attribute and the instances.

    Raises:
        ConfigurationError: ``args`` or an id in it is of a wrong type.
    """
    check_args(args)
    names = ("session_server_instance_ids", "session_server_instance_id", "session_server_instances")
    return list(dict.fromkeys(one for name in names for one in instance_ids_of(_read(args, name))))


def instance_ids_of(value: object) -> list[str]:
    """Return instance ids: a mapping's values, an iterable's items, one string, objects with ``instance_id``.

    None and blank strings are left out; each id comes once, in order.

    Raises:
        ConfigurationError: An item is none of these.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, Mapping):
        return instance_ids_of(list(value.values()))
    named = getattr(value, "instance_id", None)
    if isinstance(named, str):
        return instance_ids_of(named)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        return list(dict.fromkeys(one for item in value for one in _one_id(item)))
    raise ConfigurationError(f"instance ids must be strings (or objects with instance_id), not {type(value).__name__}")


def check_args(args: object) -> None:
    """Raise unless ``args`` can be a driver's arguments.

    Raises:
        ConfigurationError: It is None, a string, a number or a list; the text says which function was meant.
    """
    if isinstance(args, (str, bytes)):
        raise ConfigurationError(
            "args must be the driver's arguments, not a string: to abort one request call abort_sglang_request(url, rid) "
            "or AbortClient(...).abort_request(rid); to flush one instance id call AbortClient(...).flush(id)"
        )
    if args is None or isinstance(args, (bool, int, float, list, tuple, set, frozenset)):
        raise ConfigurationError(
            f"args must be the driver's arguments (an object with attributes, or a mapping), not {type(args).__name__}"
        )


def _one_id(item: object) -> list[str]:
    if item is None or isinstance(item, str) or isinstance(getattr(item, "instance_id", None), str):
        return instance_ids_of(item)
    if hasattr(item, "instance_id"):
        return []  # an instance that has no id yet
    raise ConfigurationError(f"instance ids must be strings (or objects with instance_id), not {type(item).__name__}")


def _read(args: object, name: str) -> Any:
    try:
        return args.get(name) if isinstance(args, Mapping) else getattr(args, name, None)
    except Exception as why:
        raise ConfigurationError(f"args.{name} cannot be read: {type(why).__name__}: {why}") from why


def _address(host: object, port: object, what: str) -> str:
    if not isinstance(host, str) or isinstance(port, bool) or not isinstance(port, (int, str)) or not str(port).strip():
        raise ConfigurationError(f"args.{what} must be a host and a port, not {host!r} and {port!r}")
    if "://" in host:
        return f"{host.rstrip('/')}:{port}"
    return f"http://[{host}]:{port}" if ":" in host and not host.startswith("[") else f"http://{host}:{port}"
