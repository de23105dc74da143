"""A call is back at its deadline, whatever a server or a resolver does; how late it was is printed."""

from __future__ import annotations

import inspect
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Callable

import pytest
from scripted import Scripted, answer, closed_port, drip, endless, hang, json_answer, listing, server_context, until
from timing import WIDE, timed

from abort_sync import AbortClient, ConfigurationError, Limits, Status, abort_sglang_request
from abort_sync.testing import Behaviour, LocalFleet

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"


def mute(connection: socket.socket) -> bool:
    """Read whatever comes and never answer, not even a handshake."""
    hang(connection)
    return True


def dripped_handshake(connection: socket.socket) -> bool:
    """Send the beginning of a TLS record, a byte at a time: the handshake is always about to go on."""
    drip(b"\x02", at_once=b"\x16\x03\x03\x40\x00")(connection)
    return True


SLOW = {
    "never answers": (lambda: Scripted(hang), Status.UNKNOWN, "waiting for the answer"),
    "drips its head": (lambda: Scripted(drip(b"HTTP/1.1 200 OK" + b" " * 1000)), Status.UNKNOWN, "waiting for the answer"),
    "drips headers": (lambda: Scripted(drip(b"a", at_once=b"HTTP/1.1 200 OK\r\na: ")), Status.UNKNOWN, "waiting for the answer"),
    "goes on saying 100": (lambda: Scripted(endless(b"HTTP/1.1 100 Continue\r\n\r\n")), Status.UNKNOWN, "waiting for the answer"),
    "drips its body": (lambda: Scripted(drip(b" ", at_once=OK)), Status.UNKNOWN, "reading the answer"),
    "drips chunks": (
        lambda: Scripted(drip(b"1\r\nx\r\n", at_once=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")),
        Status.UNKNOWN,
        "reading the answer",
    ),
    "drips without a length": (lambda: Scripted(drip(b" ", at_once=b"HTTP/1.1 200 OK\r\n\r\n")), Status.UNKNOWN, "reading the answer"),
    "drips a refusal": (
        lambda: Scripted(drip(b" ", at_once=OK.replace(b"200 OK", b"401 No"))),
        Status.UNKNOWN,
        "reading the answer",
    ),
    "stalls in TLS": (lambda: Scripted(on_accept=mute, tls=server_context()), Status.UNREACHABLE, "in the TLS handshake"),
    "drips its handshake": (lambda: Scripted(on_accept=dripped_handshake, tls=server_context()), Status.UNREACHABLE, "TLS handshake"),
    "never answers over TLS": (lambda: Scripted(hang, tls=server_context()), Status.UNKNOWN, "waiting for the answer"),
    "drips its body over TLS": (lambda: Scripted(drip(b" ", at_once=OK), tls=server_context()), Status.UNKNOWN, "reading the answer"),
}


@pytest.fixture
def slow(request: pytest.FixtureRequest) -> Iterator[dict[str, Scripted]]:
    """One server of each slow kind."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(make()) for name, (make, _, _) in SLOW.items()}


def test_slow_servers_are_cut_at_the_deadline(slow: dict[str, Scripted]) -> None:
    """Whatever servers do slowly, the call is back at its deadline and each outcome is what that server may have got."""
    client = AbortClient(worker_urls=[one.url for one in slow.values()], verify=False, limits=WIDE)
    report = timed(client.abort_request, "rid-1", timeout_s=2.0)

    for (name, server), outcome in zip(slow.items(), report.outcomes):
        _, status, phase = SLOW[name]
        assert (name, outcome.status, outcome.http_status, outcome.target) == (name, status, None, server.url)
        assert phase in str(outcome.error), name
        assert len(server.asked) == (status is Status.UNKNOWN), name
    assert len(report.outcomes) == len(SLOW)


def test_slow_servers_are_cut_at_the_limits_of_an_attempt(slow: dict[str, Scripted]) -> None:
    """``connect_s`` and ``read_s`` end one attempt each, long before the deadline; another attempt follows."""
    limits = Limits(connect_s=1.0, read_s=1.0, attempts=2)
    client = AbortClient(worker_urls=[one.url for one in slow.values()], verify=False, limits=limits)
    report = client.abort_request("rid-1", timeout_s=100.0)

    for (name, server), outcome in zip(slow.items(), report.outcomes):
        _, status, phase = SLOW[name]
        assert (name, outcome.status, len(outcome.attempts), server.accepted) == (name, status, 2, 2)
        assert phase in str(outcome.error), name
        assert all(0.9 < attempt.elapsed_s < 10.0 for attempt in outcome.attempts), name
    assert report.elapsed_s < 20.0


def test_forty_hung_workers_do_not_delay_a_healthy_one() -> None:
    """The healthy worker, the last one listed, has its abort while all others still hang."""
    served = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.sendall(answer())
        served.set()

    with ExitStack() as stack:
        hung = [stack.enter_context(Scripted(until(served, answer()))) for _ in range(40)]
        healthy = stack.enter_context(Scripted(serve))
        router = stack.enter_context(Scripted(routes=listing(*(one.url for one in hung), healthy.url)))
        report = AbortClient(router.url, limits=WIDE, timeout_s=50.0).abort_request("rid-1")

    assert report.ok, str(report)
    assert len(report.outcomes) == 41


def test_a_hung_router_does_not_delay_the_workers_of_another() -> None:
    """The workers of a router are aborted as soon as it has told them, and so are those that were given."""
    served = [threading.Event(), threading.Event()]

    def serving(event: threading.Event) -> Callable[[socket.socket], None]:
        return lambda connection: (connection.sendall(answer()), event.set())[1]

    def late(connection: socket.socket) -> None:
        assert all(event.wait(40.0) for event in served)
        connection.sendall(json_answer({"workers": []}))

    with Scripted(late) as slow, Scripted(serving(served[0])) as worker, Scripted(serving(served[1])) as given:
        with Scripted(routes=listing(worker.url)) as router:
            client = AbortClient([slow.url, router.url], worker_urls=given.url, limits=WIDE, timeout_s=100.0)
            report = client.abort_request("rid-1")

    assert report.ok, str(report)
    assert [one.target for one in report.outcomes] == [worker.url, given.url]


def test_fewer_threads_than_hung_workers_leave_each_worker_its_turn() -> None:
    """Hung workers that take every thread are cut early enough for those that wait, and the call is still back in time."""
    with Scripted(hang) as hung, Scripted(answer()) as worker:
        urls = [*(f"{hung.url}/{n}" for n in range(4)), f"{worker.url}/0", f"{worker.url}/1"]
        report = timed(AbortClient(worker_urls=urls, limits=Limits(100.0, 100.0, threads=2)).abort_request, "rid-1", timeout_s=3.0)

    assert [one.status for one in report.outcomes] == [Status.UNKNOWN] * 4 + [Status.ACCEPTED] * 2


def test_nothing_is_sent_after_the_deadline() -> None:
    """Of several rids for a slow worker, those that the deadline passes are NOT_SENT, and stay so after the call."""
    with Scripted(answer(), hang) as server:
        report = timed(AbortClient(worker_urls=server.url, limits=WIDE).abort_requests, ["a", "b", "c", "d"])
        asked = len(server.asked)

    assert [one.status for one in report.outcomes] == [Status.ACCEPTED, Status.UNKNOWN, Status.NOT_SENT, Status.NOT_SENT]
    assert asked == len(server.asked) == 2


def test_a_hung_router_leaves_an_error_and_no_outcome() -> None:
    """A router that never answers uses its share of the time, and the report says why nothing was tried."""
    with Scripted(hang) as router:
        report = AbortClient(router.url, limits=WIDE, timeout_s=1.0).abort_request("rid-1")

    assert (report.ok, report.outcomes) == (False, ())
    assert router.url in str(report.error)
    assert report.elapsed_s < 4.0


def test_every_call_keeps_its_deadline() -> None:
    """Flush, teardown and until-idle are back at the deadline while all servers hang."""
    calls = {
        "flush": (["i-1"],),
        "teardown": (["i-1"],),
        "abort_until_idle": (["rid-1"],),
        "abort_all_until_idle": (),
    }
    with LocalFleet(workers=2) as fleet, ThreadPoolExecutor() as executor:
        for server in (*fleet.workers, fleet.agent):
            server.behave(Behaviour.hang())
        client = fleet.client(limits=WIDE)
        running = {name: executor.submit(timed, getattr(client, name), *arguments) for name, arguments in calls.items()}
        reports = {name: one.result() for name, one in running.items()}

    assert {name: [one.status for one in report.outcomes] for name, report in reports.items()} == {
        "flush": [Status.UNKNOWN],
        "teardown": [Status.UNKNOWN],
        "abort_until_idle": [Status.UNKNOWN] * 2,
        "abort_all_until_idle": [Status.UNKNOWN] * 2,
    }
    assert str(reports["flush"].outcomes[0].error).startswith("delivered, still tearing down")


def test_a_deadline_needs_no_signal() -> None:
    """Off the main thread the deadline is kept as well."""
    reports = []
    with Scripted(hang) as server:
        client = AbortClient(worker_urls=server.url, limits=WIDE)
        thread = threading.Thread(target=lambda: reports.append(timed(client.abort_request, "rid-1")), daemon=True)
        thread.start()
        thread.join(30.0)

    assert [one.outcomes[0].status for one in reports] == [Status.UNKNOWN]


def test_every_call_is_finite_by_default() -> None:
    """Without a word about time there are finite limits: 10 s a call, 120 s a flush, 5 s for the drop-in."""
    names = inspect.signature(AbortClient).parameters
    assert (names["timeout_s"].default, names["flush_timeout_s"].default) == (10.0, 120.0)
    assert Limits() == Limits(connect_s=2.0, read_s=5.0, attempts=3, threads=256)
    with Scripted(hang) as server:
        began = time.monotonic()
        report = abort_sglang_request(server.url, "rid-1")
        elapsed = time.monotonic() - began
    assert not report.ok
    assert elapsed < 8.0


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 1e12, (1, 2, 3), True, "5"], ids=repr)
def test_a_time_that_is_none_is_refused_when_made(value: Any) -> None:
    """0, negative, NaN, endless, a triple: one kind of error, before any packet."""
    with Scripted(answer()) as server:
        client = AbortClient(worker_urls=server.url)
        for make in (
            lambda: AbortClient(server.url, timeout_s=value),
            lambda: AbortClient(server.url, flush_timeout_s=value),
            lambda: Limits(connect_s=value),
            lambda: Limits(read_s=value),
            lambda: client.abort_request("rid-1", timeout_s=value),
            lambda: client.abort_until_idle(["rid-1"], poll_s=value),
        ):
            with pytest.raises(ConfigurationError):
                make()
    assert server.accepted == 0


def test_an_abort_in_finally_never_hides_what_was_on_its_way() -> None:
    """With everything dead, the exception that is on its way goes on."""
    client = AbortClient(f"127.0.0.1:{closed_port()}", agent_server_url=f"127.0.0.1:{closed_port()}", timeout_s=2.0)
    with pytest.raises(ZeroDivisionError) as caught:
        try:
            1 / 0  # noqa: B018 -- the failure on its way
        finally:
            client.abort_request("rid-1")
            client.abort_until_idle(["rid-1"], timeout_s=0.5)
            client.teardown(["i-1"], rids=["rid-1"], timeout_s=0.5)
    assert caught.value.__context__ is None
