"""From options to a client: URLs, limits, and keys that never stood on the command line."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Callable
from typing import Any

from abort_sync import AbortClient, ConfigurationError, Keys
from abort_sync.cli._parser import KEYS


def make_client(
    options: argparse.Namespace,
    on_event: Callable[[object], None] | None = None,
    *,
    workers: bool = True,
    agent_server: bool = False,
) -> AbortClient:
    """Make the client that the options and the environment describe.

    Args:
        options: What stood on the command line.
        on_event: Told what happens while a call works.
        workers: Whether the command needs workers, from a router or given.
        agent_server: Whether the command needs the agent server.

    Raises:
        ConfigurationError: Nothing says where to go, a bad URL or key, a key file that cannot be read.
    """
    if workers and not has_workers(options):
        raise ConfigurationError("which workers? Give --router-url URL or --worker-url URL, or set ABORT_SYNC_ROUTER_URL")
    if agent_server and not agent_server_url(options):
        raise ConfigurationError("which agent server? Give --agent-server-url URL, or set AGENT_SERVER_URL")
    if "keys" not in options:  # once: a command that first asks the person makes two clients
        options.keys = read_keys(options)
    given: dict[str, Any] = {
        "router_url": options.router_url,
        "worker_urls": options.worker_url,
        "agent_server_url": options.agent_server_url,
        "keys": options.keys,
        "timeout_s": options.timeout,
        "on_event": on_event,
    }
    return AbortClient.from_env(**{name: value for name, value in given.items() if value is not None})


def has_workers(options: argparse.Namespace) -> bool:
    """Whether anything says which workers there are."""
    return bool(options.router_url or options.worker_url or (_variable("ABORT_SYNC_ROUTER_URL") or "").strip(", "))


def agent_server_url(options: argparse.Namespace) -> str | None:
    """The agent server's URL as the client will see it, or None."""
    return options.agent_server_url or _variable("AGENT_SERVER_URL") or _variable("SWE_AGENT_URL")


def _variable(name: str) -> str | None:
    return os.environ.get(name, "").strip() or None


def read_keys(options: argparse.Namespace) -> Keys:
    """Read the keys: from the files that the options name, the others from the environment."""
    keys: dict[str, str | None] = {}
    for field, option, variable in KEYS:
        path = getattr(options, option[2:].replace("-", "_"))
        keys[field] = _read_key(path, option) if path else os.environ.get(variable)
    return Keys(**keys)


def _read_key(path: str, option: str) -> str:
    if path == "-":
        what = option[2 : -len("-file")].replace("-", " ")
        try:
            key = getpass.getpass(f"{what}: ") if sys.stdin.isatty() else sys.stdin.readline()
        except EOFError:
            key = ""
    else:
        try:
            with open(path, encoding="utf-8") as file:
                key = file.read()
        except OSError as error:  # the "path" may be the key itself
            why = f"{error.strerror} (what was given is not shown)"
            raise ConfigurationError(f"{option}: {why}; give the name of a file that holds the key alone") from None
        except UnicodeDecodeError:
            raise ConfigurationError(f"{option} {path}: it is no UTF-8 text; give a file that holds the key alone") from None
    if not key.strip():
        raise ConfigurationError(f"{option} {path}: no key was given; write it into a file, or leave the option out")
    return key


def limit(options: argparse.Namespace) -> dict[str, Any]:
    """The `timeout_s` of one call, where `--timeout` was given; else the call keeps its own default."""
    return {} if options.timeout is None else {"timeout_s": options.timeout}
