"""A loopback server misbehaves as it is told to, and records what it got."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from typing import NoReturn

import pytest
from plain_http import call, raw, read_all

from abort_sync.testing import Behaviour, LocalFleet, LoopbackWorker, Received
from abort_sync.testing._http import LoopbackServer

HEALTH = b"GET /health HTTP/1.1\r\n\r\n"


@pytest.fixture
def worker() -> Iterator[LoopbackWorker]:
    with LocalFleet(workers=1) as fleet:
        yield fleet.workers[0]


def test_a_hanging_server_reads_and_never_answers(worker: LoopbackWorker) -> None:
    """A request to a server that hangs has arrived and gets nothing, until the client gives up."""
    worker.behave(Behaviour.hang())
    with raw(worker.url, HEALTH) as connection:
        worker.wait_for(1)
        connection.settimeout(0.2)
        with pytest.raises(socket.timeout):
            connection.recv(1)


def test_a_reset_is_a_reset(worker: LoopbackWorker) -> None:
    """The client sees a reset, not an orderly end."""
    worker.behave(Behaviour.reset())
    with raw(worker.url, HEALTH) as connection, pytest.raises(ConnectionResetError):
        connection.recv(1)
    assert worker.requests[0].path == "/health"


def test_a_refusing_server_has_its_port_closed(worker: LoopbackWorker) -> None:
    """`refuse` closes the port until the server is told to behave otherwise."""
    worker.behave(Behaviour.refuse())
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            call(f"{worker.url}/health")
    worker.behave(Behaviour.answer(418))
    assert call(f"{worker.url}/health").status == 418
    worker.behave(Behaviour.refuse())
    worker.behave(None)
    assert call(f"{worker.url}/health").status == 200


@pytest.mark.parametrize("path", [None, "/health"])
def test_refusing_cannot_be_one_of_several(worker: LoopbackWorker, path: str | None) -> None:
    """A closed port cannot tell requests apart, so `refuse` in a list or for a path is an error."""
    with pytest.raises(ValueError, match="closes the port"):
        worker.behave([Behaviour.refuse()] if path is None else Behaviour.refuse(), path=path)
    assert worker.is_alive


def test_a_status_with_body_and_headers(worker: LoopbackWorker) -> None:
    """`answer` sends what it is given, statuses without a name included."""
    worker.behave([Behaviour.answer(503, "später", {"Retry-After": "2"}), Behaviour.answer(599)])
    answer = call(f"{worker.url}/abort_request", {})
    assert (answer.status, answer.body.decode(), answer.headers["retry-after"]) == (503, "später", "2")
    assert call(f"{worker.url}/abort_request", {}).status == 599


def test_a_redirect_points_elsewhere(worker: LoopbackWorker) -> None:
    """`redirect` answers its status with the location."""
    worker.behave(Behaviour.redirect("http://127.0.0.1:9/", 302))
    answer = call(f"{worker.url}/abort_request", {})
    assert (answer.status, answer.headers["location"]) == (302, "http://127.0.0.1:9/")


def test_wrong_json_and_html_look_like_success(worker: LoopbackWorker) -> None:
    """Both answer 200 with a body that is not what was asked for."""
    worker.behave([Behaviour.wrong_json(), Behaviour.html()])
    cut_off, page = call(f"{worker.url}/v1/loads"), call(f"{worker.url}/v1/loads")
    assert (cut_off.status, cut_off.headers["content-type"]) == (200, "application/json")
    with pytest.raises(ValueError):
        _ = cut_off.json
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.body.startswith(b"<!DOCTYPE html>")


def test_headers_come_byte_by_byte(worker: LoopbackWorker) -> None:
    """Dripped headers take their interval between bytes, and are whole in the end."""
    worker.behave(Behaviour.drip_headers(interval_s=0.003))
    started = time.monotonic()
    with raw(worker.url, HEALTH) as connection:
        head = read_all(connection)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert head.endswith(b"\r\n\r\n")
    assert time.monotonic() - started >= 0.003 * (len(head) - 1)


def test_a_body_comes_byte_by_byte(worker: LoopbackWorker) -> None:
    """A dripped body takes its interval between bytes, and is whole in the end."""
    worker.behave(Behaviour.drip_body(b"slow but whole", interval_s=0.01))
    started = time.monotonic()
    assert call(f"{worker.url}/health").body == b"slow but whole"
    assert time.monotonic() - started >= 0.13


def test_a_cut_body_is_shorter_than_promised(worker: LoopbackWorker) -> None:
    """The client can tell that the body is not whole."""
    worker.behave(Behaviour.cut_body(b"half"))
    with pytest.raises(http.client.IncompleteRead) as caught:
        call(f"{worker.url}/health")
    assert caught.value.partial == b"half"


def test_an_endless_body_does_not_end(worker: LoopbackWorker) -> None:
    """However much is read, there is more; the server's thread ends with its client."""
    worker.behave(Behaviour.endless_body())
    with raw(worker.url, HEALTH) as connection:
        left = 5_000_000
        while left > 0:
            part = connection.recv(65536)
            assert part
            left -= len(part)


def test_several_behaviours_are_used_up(worker: LoopbackWorker) -> None:
    """A list is used one a request, then the server is normal."""
    worker.behave([Behaviour.answer(503)] * 2)
    assert [call(f"{worker.url}/health").status for _ in range(4)] == [503, 503, 200, 200]


def test_one_behaviour_holds(worker: LoopbackWorker) -> None:
    """A single behaviour holds until the next word."""
    worker.behave(Behaviour.answer(503))
    assert [call(f"{worker.url}/health").status for _ in range(3)] == [503] * 3
    worker.behave(None)
    assert call(f"{worker.url}/health").status == 200


def test_a_path_goes_before_all_paths(worker: LoopbackWorker) -> None:
    """What is said for one path goes first; None for it leaves what is said for all, None for all takes back both."""

    def statuses() -> list[int]:
        return [call(f"{worker.url}{path}").status for path in ("/health", "/v1/loads?include=core")]

    worker.behave(Behaviour.answer(500))
    worker.behave(Behaviour.answer(418), path="/v1/loads")
    assert statuses() == [500, 418]
    worker.behave(None, path="/v1/loads")
    assert statuses() == [500, 500]
    worker.behave([Behaviour.answer(418)], path="/v1/loads")
    worker.behave(None)
    assert statuses() == [200, 200]


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour.hang(obey=True),
        Behaviour.reset(obey=True),
        Behaviour.cut_body(obey=True),
        Behaviour.drip_body(interval_s=1000.0, obey=True),
        Behaviour.drip_headers(interval_s=1000.0, obey=True),
        Behaviour.endless_body(obey=True),
    ],
)
def test_an_obedient_server_does_what_was_asked_and_loses_the_answer(worker: LoopbackWorker, behaviour: Behaviour) -> None:
    """With `obey=True` the abort takes effect although no good answer comes; without it nothing happens."""
    rid = worker.start_generation()
    body = b'{"rid": "%b", "abort_all": false}' % rid.encode()
    request = b"POST /abort_request HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    worker.behave(Behaviour.answer(503))
    assert call(f"{worker.url}/abort_request", body).status == 503
    assert worker.running == {rid}
    worker.behave(behaviour)
    with raw(worker.url, request):
        worker.wait_until(lambda server: not server.running)


def test_behaviours_are_values() -> None:
    """Behaviours compare equal by what they do, and cannot be changed."""
    assert Behaviour.answer(503) == Behaviour.answer(503, b"")
    assert Behaviour.hang() != Behaviour.hang(obey=True)
    assert len({Behaviour.hang(), Behaviour.hang(), Behaviour.reset()}) == 2
    with pytest.raises(AttributeError):
        Behaviour.hang().obey = True


def test_everything_received_is_recorded(worker: LoopbackWorker) -> None:
    """A request is recorded with method, path, query, headers in lower case, body and time."""
    before = time.monotonic()
    call(f"{worker.url}/abort_request", {"rid": "x", "abort_all": False}, headers={"X-Thing": "1"})
    call(f"{worker.url}/v1/loads?include=core")
    first, second = worker.requests
    assert (first.method, first.path, first.query, first.headers["x-thing"]) == ("POST", "/abort_request", "", "1")
    assert first.json == {"rid": "x", "abort_all": False}
    assert (second.method, second.path, second.query, second.body) == ("GET", "/v1/loads", "include=core", b"")
    assert before <= first.at <= second.at <= time.monotonic()
    with pytest.raises(TypeError):
        first.headers["x-thing"] = "2"


def test_waiting_for_requests(worker: LoopbackWorker) -> None:
    """`wait_for` returns the requests for a path, and names what came when too few did."""
    call(f"{worker.url}/health")
    call(f"{worker.url}/v1/loads")
    assert [one.path for one in worker.wait_for(1, path="/v1/loads")] == ["/v1/loads"]
    assert len(worker.wait_for(2)) == 2
    with pytest.raises(TimeoutError, match=r"within 0\.01 s; it received: GET /health, GET /v1/loads"):
        worker.wait_for(2, path="/health", timeout_s=0.01)


def test_a_chunked_body_is_read(worker: LoopbackWorker) -> None:
    """A body in chunks is recorded whole."""
    chunked = (
        b'POST /abort_request HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"rid\r\n6;x=y\r\n":"a"}\r\n0\r\nx-trailer: y\r\n\r\n'
    )
    with raw(worker.url, chunked) as connection:
        assert read_all(connection).startswith(b"HTTP/1.1 200 OK")
    assert worker.requests[0].json == {"rid": "a"}


@pytest.mark.parametrize("request_line", [b"PRI * HTTP/2.0", b"GET /health", b"hello"])
def test_what_is_not_http_1_gets_400(worker: LoopbackWorker, request_line: bytes) -> None:
    """Another protocol is answered 400 and not recorded."""
    with raw(worker.url, request_line + b"\r\n\r\n") as connection:
        assert read_all(connection).startswith(b"HTTP/1.1 400 Bad Request")
    assert worker.requests == ()


@pytest.mark.parametrize("part", [b"", b"GET /health HTTP/1.1\r\n", b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf"])
def test_a_request_that_never_got_whole_is_not_recorded(worker: LoopbackWorker, part: bytes) -> None:
    """A client that leaves in the middle counts as a connection, not as a request."""
    raw(worker.url, part).close()
    call(f"{worker.url}/health")
    worker.wait_until(lambda server: server.accepted == 2)
    assert [one.path for one in worker.requests] == ["/health"]


class Broken(LoopbackServer):
    """A server whose own code has a defect."""

    def respond(self, request: Received, connection: object) -> NoReturn:
        raise RuntimeError("defect")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_defect_in_a_server_closes_the_connection_and_it_serves_on() -> None:
    """An error in a server's own code is no hang for its client, nor the end of the server."""
    server = Broken("broken")
    for _ in range(3):
        with raw(server.url, HEALTH) as connection:
            assert read_all(connection) == b""
    server.close()
    assert len(server.requests) == 3
