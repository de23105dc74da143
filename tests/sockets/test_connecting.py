"""Names and connections that never come: what cannot be resolved or connected to in time."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Callable

import pytest
from scripted import Scripted, answer, closed_port, hang
from timing import WIDE, timed

from abort_sync import AbortClient, Limits, Status


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose backlog is full: a connection to it is neither accepted nor refused."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        yield server.getsockname()[1]


def test_a_connection_that_is_never_made_is_unreachable(full_port: int) -> None:
    """No byte was sent to a server that accepts nothing: UNREACHABLE, at the deadline."""
    (outcome,) = timed(AbortClient(worker_urls=f"127.0.0.1:{full_port}", limits=WIDE).abort_request, "rid-1").outcomes

    assert outcome.status is Status.UNREACHABLE
    assert "connecting" in str(outcome.error)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """Make host names mean what a test says; returns the names that were looked up, in order."""
    original, looked_up, release = socket.getaddrinfo, [], threading.Event()
    meaning: dict[str, list[Any]] = {}

    def look(host: Any, port: Any, *args: Any, flags: int = 0, **kwargs: Any) -> Any:
        if host not in meaning or flags & socket.AI_NUMERICHOST:
            return original(host, port, *args, flags=flags, **kwargs)
        looked_up.append(host)
        found = meaning[host].pop(0) if len(meaning[host]) > 1 else meaning[host][0]
        if found is None:
            release.wait(60.0)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if isinstance(found, Exception):
            raise found
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", one)) for one in found]

    def define(host: str, *answers: Any) -> list[str]:
        meaning[host] = list(answers)
        return looked_up

    monkeypatch.setattr(socket, "getaddrinfo", look)
    yield define
    release.set()


def test_a_resolver_that_hangs_delays_only_its_own_name(names: Callable[..., list[str]]) -> None:
    """A name whose look-up hangs is UNREACHABLE at the deadline, is looked up once a call, and the others are served."""
    looked_up = names("hangs.example", None)
    with Scripted(answer()) as server:
        client = AbortClient(worker_urls=["hangs.example:1/a", "hangs.example:1/b", server.url], limits=WIDE)
        report = timed(client.abort_request, "rid-1")

    assert [one.status for one in report.outcomes] == [Status.UNREACHABLE, Status.UNREACHABLE, Status.ACCEPTED]
    assert "resolving the name" in str(report.outcomes[0].error)
    assert looked_up == ["hangs.example"]


def test_a_look_up_that_failed_is_made_again(names: Callable[..., list[str]]) -> None:
    """A name that could not be resolved for a moment is looked up again by the next attempt."""
    with Scripted(answer()) as server:
        looked_up = names("flaps.example", socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), [server.port])
        (outcome,) = AbortClient(worker_urls=f"flaps.example:{server.port}", timeout_s=30.0).abort_request("rid-1").outcomes

    assert (outcome.status, len(outcome.attempts), looked_up) == (Status.ACCEPTED, 2, ["flaps.example"] * 2)
    assert "could not be resolved" in str(outcome.attempts[0].error)


def test_every_address_of_a_name_gets_its_share(names: Callable[..., list[str]], full_port: int) -> None:
    """A first address that is dead, and a second that hangs, leave time for the third within one attempt."""
    with Scripted(answer()) as server:
        names("many.example", [closed_port(), full_port, server.port])
        limits = Limits(connect_s=3.0, attempts=1)
        (outcome,) = AbortClient(worker_urls="many.example:1", limits=limits, timeout_s=60.0).abort_request("rid-1").outcomes

    assert (outcome.status, len(outcome.attempts)) == (Status.ACCEPTED, 1)


def test_a_failed_attempt_holds_nothing_until_the_garbage_collector_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, cut off, timed out, no tunnel: the descriptors are closed when the call is back, without a collection."""
    closed = closed_port()
    gc.collect()
    gc.disable()
    try:
        with Scripted(b"HTTP/1.1 2") as cut, Scripted(hang) as hung, Scripted(answer(407)) as no_tunnel:
            before = open_descriptors()
            urls = [cut.url, hung.url, hung.url.replace("http", "https"), f"127.0.0.1:{closed}"]
            client = AbortClient(worker_urls=urls, limits=Limits(0.5, 0.5, attempts=1))
            assert not any(one.ok for one in client.abort_request("rid-1").outcomes)
            for url in (no_tunnel.url, hung.url):
                monkeypatch.setenv("https_proxy", url)
                client = AbortClient(worker_urls="https://worker.example", trust_env=True, limits=Limits(0.5, 0.5, attempts=1))
                assert not client.abort_request("rid-1").ok
            for server in (cut, hung, no_tunnel):
                server.settle()
            assert open_descriptors() == before
    finally:
        gc.enable()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
