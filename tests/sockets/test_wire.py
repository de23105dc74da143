"""What goes over the wire and what is believed of what comes back."""

from __future__ import annotations

import gzip
import json
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scripted import CERTIFICATE, Act, Scripted, answer, closed_port, endless, json_answer, listing, server_context

from abort_sync import AbortClient, Keys, Limits, Outcome, Report, Status
from abort_sync import _connection as connection_room

ONE = Limits(attempts=1)


def abort_at(*urls: str, **settings: Any) -> Report:
    return AbortClient(worker_urls=urls, **{"limits": ONE, "timeout_s": 30.0, **settings}).abort_request("rid-1")


def outcomes_of(acts: dict[str, Act]) -> dict[str, Outcome]:
    """Abort at one server an act, in one call."""
    with Scripted(routes={f"/{n}/abort_request": act for n, act in enumerate(acts.values())}) as server:
        report = abort_at(*(f"{server.url}/{n}" for n in range(len(acts))))
    return dict(zip(acts, report.outcomes))


def test_a_request_is_as_the_engines_want_it() -> None:
    """One POST on a fresh connection that is closed after it: JSON with both keys, a length, no chunks, no cookie."""
    with Scripted(answer()) as server:
        AbortClient(worker_urls=f"{server.url}//prefix/v1/").abort_requests(['r\u00e9"', "b"])
        AbortClient(worker_urls=server.url).abort_all()

    assert server.targets == ["POST /prefix/abort_request"] * 2 + ["POST /abort_request"]
    assert [json.loads(one.body) for one in server.asked] == [
        {"rid": 'r\u00e9"', "abort_all": False},
        {"rid": "b", "abort_all": False},
        {"rid": "", "abort_all": True},
    ]
    assert server.accepted == 3
    for one in server.asked:
        assert one.values("content-type") == ["application/json"]
        assert one.values("content-length") == [str(len(one.body))]
        assert one.values("connection") == ["close"]
        assert one.values("host") == [f"127.0.0.1:{server.port}"]
        assert one.values("user-agent") == ["abort-sync"]
        assert one.values("transfer-encoding") == one.values("cookie") == one.values("expect") == []


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(code: int) -> None:
    """The outcome says where it pointed; the other server gets nothing, neither an abort nor a listing nor a flush."""
    with Scripted(answer()) as other:
        place = f"location: {other.url}/elsewhere"
        with Scripted(answer(code, "moved", place)) as server:
            client = AbortClient(worker_urls=server.url, agent_server_url=server.url, limits=ONE, keys=Keys(worker="k"))
            outcomes = [*client.abort_request("rid-1").outcomes, *client.flush("i-1").outcomes]
            listed = AbortClient(server.url, limits=ONE).abort_request("rid-1")
            slow = Scripted(answer(code, "", place, length=10**9))
            with slow:
                unread = abort_at(slow.url, limits=Limits(read_s=1.5, attempts=1)).outcomes[0]

    assert [(one.status, one.http_status) for one in outcomes] == [(Status.REJECTED, code)] * 2
    assert all(f"redirected to {other.url}/elsewhere, not followed" in str(one.error) for one in outcomes)
    assert not listed.ok
    assert f"{other.url}/elsewhere" in str(listed.error)
    assert unread.status is Status.UNKNOWN
    assert other.accepted == 0


def test_only_a_whole_200_that_is_no_page_is_a_yes() -> None:
    """200 with an empty body, text or JSON is ACCEPTED; a page, another 2xx, or anything cut off is UNKNOWN."""
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    whole = {
        "empty": answer(),
        "text": answer(200, "ok"),
        "json": json_answer({"ok": True}),
        "chunked": chunked + b"2\r\nok\r\n0\r\n\r\n",
        "until closed": b"HTTP/1.1 200 OK\r\n\r\nok",
        "http/1.0": b"HTTP/1.0 200 OK\r\n\r\n",
        "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        "after 100": b"HTTP/1.1 100 Continue\r\n\r\n" + answer(),
        "more than stated": answer(200, "okay", length=2),
        "zipped": answer(200, gzip.compress(b"ok"), "content-encoding: gzip"),
    }
    pages = {
        "html": answer(200, "<p>", "content-type: text/html; charset=utf-8"),
        "untyped": answer(200, "\n <!DOCTYPE html>\n<title>Log in</title>"),
        "tag": answer(200, b"<HTML>"),
        "xhtml": answer(200, "<a/>", "Content-Type: application/xhtml+xml"),
    }
    other = {str(code): answer(code) for code in (201, 202, 203, 206, 207, 299)} | {"204": b"HTTP/1.1 204 No\r\n\r\n"}
    cut = {
        "nothing": b"",
        "status line": b"HTTP/1.1 200",
        "status line whole": b"HTTP/1.1 200 OK\r\n",
        "header": b"HTTP/1.1 200 OK\r\ncontent-le",
        "header whole": b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n",
        "body": answer(200, "o", length=2),
        "no body": answer(200, length=2),
        "chunk": chunked + b"2\r\no",
        "chunks": chunked + b"2\r\nok\r\n",
        "no body of a refusal": answer(401, length=2),
    }
    odd = {
        "no http": b"SSH-2.0-OpenSSH\r\n",
        "no number": b"HTTP/1.1 abc OK\r\n\r\n",
        "bad chunk": chunked + b"xyz\r\n",
        "bad zip": answer(200, "ok", "content-encoding: gzip"),
        "early hints": b"HTTP/1.1 103 Early Hints\r\n\r\n",
        "endless headers": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
        "long header": b"HTTP/1.1 200 OK\r\na: " + b"b" * 100_000 + b"\r\n\r\n",
        "too long": answer(200, b"x" * 65_537),
        "endless": endless(b"x" * 65_536, b"HTTP/1.1 200 OK\r\n\r\n"),
        "zipped twice": answer(200, gzip.compress(gzip.compress(b"x" * 50_000_000)), "content-encoding: gzip, gzip"),
        "zip bomb": answer(200, gzip.compress(b"x" * 50_000_000), "content-encoding: gzip"),
    }
    got = outcomes_of({**whole, **pages, **other, **cut, **odd})

    assert {name: one.status for name, one in got.items()} == {
        **dict.fromkeys(whole, Status.ACCEPTED),
        **dict.fromkeys({**pages, **other, **cut, **odd}, Status.UNKNOWN),
    }
    assert all("web page" in str(got[name].error) for name in pages)
    assert "content-encoding 'gzip, gzip' was not asked for" in str(got["zipped twice"].error)
    assert all(got[name].http_status is None for name in (*cut, *odd) if name != "early hints")
    assert all(got[name].error for name in got if not got[name].ok)


def test_an_answer_may_be_as_long_as_its_bound() -> None:
    """A yes of exactly the bound counts; a no counts at any length."""
    got = outcomes_of(
        {"yes": answer(200, b"x" * 65_536), "no": answer(400, b"why " * 100_000), "endless no": endless(b"x", b"HTTP/1.1 400 No\r\n\r\n")}
    )

    assert [(one.status, one.http_status) for one in got.values()] == [(Status.ACCEPTED, 200), *[(Status.REJECTED, 400)] * 2]
    assert len(str(got["no"].error)) < 300


def test_what_a_server_says_is_one_readable_line() -> None:
    """Line ends, terminal escapes and invalid UTF-8 in an answer do not reach a report as they are."""
    got = outcomes_of(
        {
            "body": answer(400, b"a\r\nb\x1b[2J\x07\x00\xff\xe2\x80\xae c"),
            "place": answer(302, "", "location: http://h/\x1b[2J\x9b"),
            "line": b"\x1b[2Jno http\x07\r\n\r\n",
        }
    )

    assert all(str(one).isprintable() for one in got.values())
    assert "the server said: a b [2J" in str(got["body"].error)


def test_no_cookie_is_carried_from_one_worker_to_another() -> None:
    """Whatever servers set, no request of a client ever holds a cookie."""
    with Scripted(answer(200, "", "set-cookie: a=b; Path=/", "set-cookie: c=d")) as server:
        client = AbortClient(worker_urls=[f"{server.url}/1", f"{server.url}/2"])
        client.abort_requests(["a", "b", "c"])
        client.abort_request("d")

    assert len(server.asked) == 8
    assert not any(one.values("cookie") for one in server.asked)


@pytest.mark.parametrize("error", [UnicodeError("label too long"), OverflowError("big"), RecursionError(), MemoryError(), KeyError("x")])
def test_an_error_outside_the_libraries_own_is_caught_per_target(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """What no library documents costs its own target only: the others are served."""
    original = connection_room.Dialer.open

    def opened(self: Any, line: Any, host: str, port: int) -> socket.socket:
        if host == "odd.example":
            raise error
        return original(self, line, host, port)

    monkeypatch.setattr(connection_room.Dialer, "open", opened)
    with Scripted(answer()) as server:
        odd, well = abort_at("odd.example", server.url).outcomes

    assert (odd.status, well.status) == (Status.UNREACHABLE, Status.ACCEPTED)
    assert type(error).__name__ in str(odd.error)


def test_an_internationalised_name_is_dialled_in_its_ascii_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver is asked for the name, and the server is told it in ASCII."""
    original, names = socket.getaddrinfo, []

    def look(host: Any, port: Any, *args: Any, flags: int = 0, **kwargs: Any) -> Any:
        if flags & socket.AI_NUMERICHOST:
            return original(host, port, *args, flags=flags, **kwargs)
        names.append(host.encode("idna"))
        return original("127.0.0.1", port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look)
    with Scripted(answer()) as server:
        (outcome,) = abort_at(f"http://b\u00fccher.example:{server.port}").outcomes

    assert outcome.status is Status.ACCEPTED
    assert names == [b"xn--bcher-kva.example"]
    assert server.asked[0].values("host") == [f"xn--bcher-kva.example:{server.port}"]


def test_a_private_authority_is_given_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``verify=`` takes a bundle; without it, or with another name in the certificate, nothing is sent and the error says why."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(CERTIFICATE))
    with Scripted(answer(), tls=server_context()) as server:
        named = server.url.replace("127.0.0.1", "localhost")
        by_path = abort_at(server.url, named, verify=str(CERTIFICATE))
        unchecked = abort_at(server.url, verify=False)
        from_env = abort_at(server.url, trust_env=True)
        assert len(server.asked) == 4
        (stranger,) = abort_at(server.url).outcomes
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("127.0.0.1", server.port))])
        (misnamed,) = abort_at(f"https://other.example:{server.port}", verify=str(CERTIFICATE)).outcomes
        assert len(server.asked) == 4

    assert by_path.ok, str(by_path)
    assert unchecked.ok
    assert from_env.ok
    assert [one.status for one in (stranger, misnamed)] == [Status.UNREACHABLE] * 2
    assert "verify= takes the path of a CA bundle" in str(stranger.error)
    assert "certificate was not accepted" in str(misnamed.error)


def test_http_at_a_tls_port_and_tls_at_an_http_port_are_told() -> None:
    """The wrong scheme is a failure with a reason, not a hang and not a yes."""
    with Scripted(answer(), tls=server_context()) as secure, Scripted(answer()) as plain:
        wrong = abort_at(secure.url.replace("https", "http"), plain.url.replace("http", "https"), limits=Limits(1.0, 1.0, 1)).outcomes

    assert [one.status for one in wrong] == [Status.UNKNOWN, Status.UNREACHABLE]
    assert all(one.error for one in wrong)


def test_what_a_certificate_is_checked_against_is_a_directory_too(tmp_path: Path) -> None:
    """A path that is a directory is taken for one of hashed certificates: an empty one trusts nobody."""
    with Scripted(answer(), tls=server_context()) as server:
        (outcome,) = abort_at(server.url, verify=str(tmp_path)).outcomes

    assert (outcome.status, server.asked) == (Status.UNREACHABLE, [])


def test_a_listing_over_tls_and_a_worker_that_drops_out() -> None:
    """Each connection has its own handshake: one that fails leaves the others alone."""
    with ExitStack() as stack:
        well = [stack.enter_context(Scripted(answer(), tls=server_context())) for _ in range(3)]
        dead = f"https://127.0.0.1:{closed_port()}"
        router = stack.enter_context(Scripted(routes=listing(*(one.url for one in well), dead), tls=server_context()))
        began = time.monotonic()
        report = AbortClient(router.url, verify=str(CERTIFICATE), timeout_s=30.0).abort_request("rid-1")

    assert [one.status for one in report.outcomes] == [Status.ACCEPTED] * 3 + [Status.UNREACHABLE]
    assert time.monotonic() - began < 20.0


def test_https_to_a_server_that_speaks_http_says_so() -> None:
    """The error names the mistake, not what the TLS library makes of the answer."""
    with Scripted(
        b"HTTP/1.1 400 Bad Request\r\n\r\n", on_accept=lambda connection: bool(connection.sendall(b"HTTP/1.1 400\r\n\r\n"))
    ) as plain:
        url = plain.url.replace("http:", "https:")
        (outcome,) = AbortClient(worker_urls=url, limits=Limits(attempts=1), timeout_s=20.0).abort_request("rid-1").outcomes
    assert outcome.status is Status.UNREACHABLE
    assert "wants an http:// URL" in str(outcome.error)
