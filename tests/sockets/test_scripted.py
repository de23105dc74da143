"""The scripted server does what it is told, and ends."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest
from plain_http import call, raw, read_all
from scripted import CERTIFICATE, Scripted, answer, closed_port, drip, endless, hang, json_answer, listing, reset, server_context, until


def test_acts_are_played_in_turn_and_the_last_one_again() -> None:
    """One act a request; the last one stays; what was asked is kept."""
    with Scripted(answer(503), answer(200, "yes")) as server:
        answers = [call(f"{server.url}/x", {"n": n}) for n in range(3)]

    assert [(one.status, one.body) for one in answers] == [(503, b""), (200, b"yes"), (200, b"yes")]
    assert server.targets == ["POST /x"] * 3
    assert [one.body for one in server.asked] == [b'{"n": 0}', b'{"n": 1}', b'{"n": 2}']
    assert server.asked[0].values("CONTENT-LENGTH") == ["8"]
    assert server.accepted == 3


def test_routes_go_before_acts() -> None:
    """A path's own acts are played for it, whatever its query; the others get the rest."""
    with Scripted(answer(404), routes={**listing("http://w"), "/two": [answer(500), answer(200)]}) as server:
        assert call(f"{server.url}/workers?x=1").json == {"workers": [{"url": "http://w"}]}
        assert [call(f"{server.url}/two").status for _ in range(3)] == [500, 200, 200]
        assert call(f"{server.url}/else").status == 404


def test_bytes_are_sent_as_they_stand() -> None:
    """Nothing is added to what the script says, and the connection is closed after it."""
    with Scripted(b"nonsense") as server, raw(server.url, b"GET / HTTP/1.1\r\n\r\n") as connection:
        assert read_all(connection) == b"nonsense"


def test_drip_and_endless_go_on_until_the_client_leaves() -> None:
    """Both send without end, and the server ends all the same."""
    for act in (drip(b"ab", 0.001, b">"), endless(b"ab", b">")):
        with Scripted(act) as server, raw(server.url, b"GET / HTTP/1.1\r\n\r\n") as connection:
            got = b""
            while len(got) < 50:
                got += connection.recv(10)
            assert got.startswith(b">abababab")


def test_reset_resets() -> None:
    """The client sees a reset, not an end."""
    with Scripted(reset) as server, raw(server.url, b"GET / HTTP/1.1\r\n\r\n") as connection:
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_a_hanging_connection_ends_with_the_server() -> None:
    """Leaving the block ends the connections that hang, before and after the request."""
    with Scripted(hang) as server:
        connection = raw(server.url, b"GET / HTTP/1.1\r\n\r\n")
        server.wait_for(1)
    with connection:
        assert connection.recv(1) == b""


def test_until_waits_for_its_event() -> None:
    """The answer comes after the event."""
    event = threading.Event()
    with Scripted(until(event, answer())) as server, raw(server.url, b"GET / HTTP/1.1\r\n\r\n") as connection:
        server.wait_for(1)
        connection.settimeout(0.05)
        with pytest.raises(socket.timeout):
            connection.recv(1)
        event.set()
        connection.settimeout(30.0)
        assert read_all(connection) == answer()


def test_on_accept_comes_before_the_request() -> None:
    """What is done on accept sees a connection without a request, and may be all that happens."""
    seen = []

    def part(connection: socket.socket) -> bool:
        seen.append(connection.recv(3))
        return True

    with Scripted(on_accept=part) as server, raw(server.url, b"GET / HTTP/1.1\r\n\r\n") as connection:
        with pytest.raises(ConnectionResetError):  # unread bytes make the close a reset
            read_all(connection)
    assert (seen, server.asked, server.accepted) == ([b"GET"], [], 1)


def test_it_speaks_tls() -> None:
    """With a context it speaks HTTPS, with a certificate that only its own file vouches for."""
    client = ssl.create_default_context(cafile=str(CERTIFICATE))
    with Scripted(json_answer([1]), tls=server_context()) as server:
        assert call(server.url, tls=client).json == [1]
        with pytest.raises(ssl.SSLCertVerificationError):
            call(server.url, tls=ssl.create_default_context())
    assert server.url.startswith("https://127.0.0.1:")


def test_nobody_listens_at_a_closed_port() -> None:
    """A closed port refuses."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", closed_port()))
