"""A router or worker that means harm, or has lost its mind: a report, in bounded time and memory."""

from __future__ import annotations

import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from scripted import Scripted, answer, closed_port, endless, json_answer

from abort_sync import AbortClient, Limits, Report, RouterError, Status
from abort_sync import _listing as listing_room

MEGABYTE = 1024 * 1024
DEEP = "[" * 500_000 + "]" * 500_000
DIGITS = "9" * 1_000_000


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer; it prints what it took."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    print(f"{took:.2f} s of {seconds:.0f}")
    assert took < seconds


def listed(body: bytes | str, **settings: Any) -> Any:
    with Scripted(routes={"/workers": answer(200, body)}) as router:
        return AbortClient(router.url, limits=Limits(attempts=1), **{"timeout_s": 60.0, **settings}).discover()


def test_ten_thousand_workers_are_listed() -> None:
    """A listing of 10,000 workers is read in a moment, each worker once and in order."""
    urls = [f"http://10.{n >> 16}.{n >> 8 & 255}.{n & 255}:30000" for n in range(10_000)]
    details = {"worker_type": "regular", "is_healthy": True, "metadata": {"x": "y" * 200}}
    with bounded(30):
        found = listed(json.dumps({"workers": [{"id": str(n), "url": url, **details} for n, url in enumerate(urls)]}))

    assert [one.url for one in found.workers] == urls
    assert found.notes == ()


def test_many_workers_that_are_dead_cost_no_more_than_the_deadline() -> None:
    """The call is back in time with an outcome for each of 3,000, whatever of them could be tried."""
    port = closed_port()
    with Scripted(routes={"/workers": json_answer({"urls": [f"http://127.0.0.1:{port}/{n}" for n in range(3_000)]})}) as router:
        client = AbortClient(router.url)
        client.workers(timeout_s=60.0)
    began = time.monotonic()
    report = client.abort_request("rid-1", timeout_s=1.0)
    took = time.monotonic() - began

    print(f"{took - 1.0:+.2f} s after the deadline, {report.summary()}")
    assert len(report.outcomes) == 3_000
    assert {one.status for one in report.outcomes} <= {Status.UNREACHABLE, Status.NOT_SENT}
    assert took < 4.0  # 0.5 s after the deadline, 3 s on a stalled machine


def test_more_entries_than_anybody_needs_are_cut_off_and_said() -> None:
    """Of a listing with too many entries the first are used, and the report is not ok."""
    with bounded(30):
        found = listed(json.dumps([f"http://h:{1 + n % 5}" for n in range(10_001)]))

    assert len(found.workers) == 5
    assert "lists 10001 entries: only the first 10000 are used" in str(found.routers[0].error)
    with pytest.raises(RouterError):
        found.raise_if_unknown()


def test_a_listing_that_cannot_be_read_in_time_is_not_called_empty() -> None:
    """Where the deadline comes in the middle of a long listing the workers are unknown: that is not "no worker is listed"."""
    reached = threading.Event()

    def play(connection: socket.socket) -> None:
        connection.sendall(json_answer(["http://h:1"] * 3))
        reached.set()

    original = listing_room.clean_url

    def slowly(*args: Any) -> Any:
        time.sleep(0.7)
        return original(*args)

    with pytest.MonkeyPatch.context() as patch, Scripted(routes={"/workers": play}) as router:
        client = AbortClient(router.url)
        patch.setattr(listing_room, "clean_url", slowly)
        report = client.abort_request("rid-1", timeout_s=1.0)

    assert reached.is_set()
    assert (report.ok, report.outcomes) == (False, ())
    assert "the deadline came while the listing" in str(report.error)


def test_a_listing_full_of_rubbish_is_bounded() -> None:
    """Half a million useless entries: a few notes, and memory in proportion to the answer."""
    body = '["h:1"' + ",0" * 500_000 + "]"
    tracemalloc.start()
    try:
        with bounded(60):
            found = listed(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    print(f"{peak / MEGABYTE:.0f} MB for an answer of {len(body) / MEGABYTE:.1f} MB")
    assert [one.url for one in found.workers] == ["http://h:1"]
    assert len(found.notes) == 21
    assert peak < 40 * MEGABYTE


@pytest.mark.parametrize("value", ["[]", "{}", '{"a":1}', "0"])
def test_a_listing_of_millions_of_values_is_not_read(value: str) -> None:
    """Decoding them would hold the interpreter for seconds that no deadline can cut: it is no listing."""
    body = '{"workers":[' + ",".join([value] * (15 * MEGABYTE // (len(value) + 1))) + "]}"
    began = time.monotonic()
    found = listed(body, timeout_s=20.0)
    print(f"{time.monotonic() - began:.2f} s")

    assert found.workers == ()
    assert "more than 500000 values" in str(found.routers[0].error)


@pytest.mark.parametrize(
    "act",
    [
        endless(b" " * 65536, b"HTTP/1.1 200 OK\r\n\r\n"),
        endless(b"10000\r\n" + b" " * 65536 + b"\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        answer(200, b" " * 17 * MEGABYTE),
        answer(200, b"[]", length=10**30),
        answer(200, b"[]", length=-1),
    ],
    ids=["endless", "endless chunks", "too long", "states too much", "states less than nothing"],
)
def test_a_listing_without_an_end_is_cut_off_at_its_bound(act: Any) -> None:
    """A body over 16 MB is not read to its end, and is no listing; a length that is none ends no differently."""
    with bounded(60), Scripted(routes={"/workers": act}) as router:
        found = AbortClient(router.url, limits=Limits(attempts=1, read_s=50.0), timeout_s=110.0).discover()

    assert found.workers == ()
    assert (found.routers[0].error is None) == (b"-1" in act if isinstance(act, bytes) else False)


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        '{"workers":' + DEEP + "}",
        '{"workers": [' + '{"url":' * 100_000 + "1" + "}" * 100_000 + "]}",
        '{"workers": ' + DIGITS + "}",
        DIGITS,
        "-" + DIGITS,
    ],
    ids=["deep list", "deep value", "deep objects", "digits in an object", "digits", "negative digits"],
)
def test_json_that_costs_more_than_it_says_is_no_listing(body: str) -> None:
    """Nested without end, numbers of a million digits: one clear error, at once."""
    with bounded(20):
        found = listed(body)

    assert found.workers == ()
    assert "is no listing" in str(found.routers[0].error)


def test_numbers_that_are_none_do_no_harm_beside_good_entries() -> None:
    """Long fractions, NaN and the endless stand beside a worker and are not looked at; of a repeated key the last one counts."""
    body = (
        f'{{"workers": [{{"url": "h:9", "url": "h:1", "x": NaN, "y": -Infinity, "z": 1e999999, "load": 0.{DIGITS}, '
        '"is_healthy": "yes", "worker_type": 7, "labels": [1]}], "workers": [{"url": "h:2", "url": "h:3"}]}'
    )
    with bounded(20):
        found = listed(body)

    assert [(one.url, one.kind, one.is_healthy) for one in found.workers] == [("http://h:3", None, None)]


HOSTILE = [
    *("file:///etc/passwd", "javascript:alert(1)", "gopher://h:1/_x", "ws://h:1", "unix:///tmp/x", "http+unix://x", "http:h", "//h:1"),
    *("http://h:1\r\nX-Evil: 1", "http://h\x00:1", "http://h:1/\x1b[2J", "http://h\u202e:1", "http://h\u2028:1", "http://h\ud800:1"),
    *(
        "http://h:1/ HTTP/1.1\r\n\r\nPOST /x",
        "http://h:1#@127.0.0.1/",
        "http://h:1?@127.0.0.1",
        "http://h:1\\@127.0.0.1",
        "http://0.1.2.3:1",
    ),
    *(
        "http://" + "a" * 100_000,
        "http://h:1/" + "a" * 3000,
        "http://h:" + "1" * 5000,
        f"http://{'a' * 64}.example",
        "http://a..b",
        "http://[::1",
    ),
    *("grpc://h\x1b[2J:1", "grpc://" + "h" * 3000, "http://1.2.3.4.5:1", "http://256.1.1.1:1", "http://[fe80::zz]:1", "http://h:65536"),
]


def test_urls_that_mean_harm_are_each_named_and_never_called() -> None:
    """Other schemes, control characters, smuggled requests, absurd lengths: notes on one readable line each; no worker."""
    for n in range(0, len(HOSTILE), 10):
        some = HOSTILE[n : n + 10]
        found = listed(json.dumps({"workers": [{"url": one} for one in some] + [{"url": "http://good:1"}]}))
        assert [one.url for one in found.workers] == ["http://good:1"]
        assert len(found.notes) == len(some), some
        assert all(note.isprintable() and len(note) <= 400 for note in found.notes)


def test_internationalised_names_are_workers_as_they_are() -> None:
    """Umlauts, other scripts and their ASCII forms are names like others; a report with them is JSON and text."""
    names = [
        "http://b\u00fccher.example:1",
        "http://xn--bcher-kva.example:1",
        "http://\u4f8b\u3048.\u30c6\u30b9\u30c8:2",
        "http://\u0440\u0444:3",
    ]
    with Scripted(routes={"/workers": json_answer({"urls": names})}) as router:
        report = AbortClient(router.url, timeout_s=0.5, limits=Limits(attempts=1)).abort_request("rid-1")

    assert [one.target for one in report.outcomes] == names
    assert names[2] in str(report)
    assert json.loads(json.dumps(report.to_dict()))["outcomes"][3]["target"] == names[3]


def test_a_kind_that_means_harm_is_no_kind() -> None:
    """What a router says of a worker's kind is shown to people: only a short, printable word is taken."""
    kinds: list[Any] = ["regular", "\x1b[2J", "k" * 1000, "a\nb", 7, None]
    found = listed(json.dumps({"workers": [{"url": f"h:{n}", "worker_type": kind} for n, kind in enumerate(kinds, 1)]}))

    assert [one.kind for one in found.workers] == ["regular", None, None, None, None, None]


def swept(load: Any) -> Report:
    routes = {"/abort_request": answer(), "/v1/loads": load}
    with Scripted(routes=routes) as worker:
        return AbortClient(worker_urls=worker.url).abort_until_idle(["rid-1"], timeout_s=10.0, poll_s=0.05)


@pytest.mark.parametrize(
    "body",
    [
        *("", "null", "0", "[]", "{}", '{"loads": []}', '{"loads": null}', '{"loads": [0]}', '{"loads": [{}]}', "[{}, 1]", "<html></html>"),
        *('{"loads": [{"num_running_reqs": 0}]}', '{"loads": [{"num_running_reqs": "0", "num_waiting_reqs": "0"}]}'),
        '{"loads": [{"num_running_reqs": false, "num_waiting_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": 0.0, "num_waiting_reqs": 0}]}',
        *('{"loads": [{"num_running_reqs": -1, "num_waiting_reqs": 0}]}', '{"loads": [{"num_running_reqs": null, "num_waiting_reqs": 0}]}'),
        '{"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}, {"num_running_reqs": 0}]}',
        '{"loads": [{"num_running_reqs": ' + DIGITS[:900_000] + ', "num_waiting_reqs": 0}]}',
        '{"loads": ' + DEEP[:400_000] + "}",
    ],
    ids=lambda body: body[:60],
)
def test_a_load_that_cannot_be_read_is_never_taken_for_zero(body: str) -> None:
    """Whatever a worker says that is no count of requests: UNKNOWN, with a reason, and long before the deadline."""
    with bounded(9):
        (outcome,) = swept(answer(200, body)).outcomes

    assert (outcome.status, outcome.remaining) == (Status.UNKNOWN, None)
    assert "load" in str(outcome.error)


def test_a_load_that_is_too_long_is_not_read() -> None:
    """More than 1 MB about a load is no load: UNKNOWN, though a zero stands at its beginning."""
    with Scripted(answer(200, '{"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]}' + " " * MEGABYTE)) as worker:
        assert AbortClient(worker_urls=worker.url).loads() == {worker.url: None}


def test_a_flush_answered_with_absurd_json_is_unknown() -> None:
    """Deep JSON, a million digits, a body over its bound: not the answer to this flush, at once."""
    for body in (DEEP[:60_000], '{"session_server_instance_id": "a", "cancelled": ' + DIGITS[:60_000] + "}", " " * 70_000):
        with bounded(9), Scripted(answer(200, body)) as agent:
            (outcome,) = AbortClient(agent_server_url=agent.url).flush("a").outcomes
        assert (outcome.status, outcome.cancelled, len(agent.asked)) == (Status.UNKNOWN, None, 1)
