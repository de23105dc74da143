"""Proxies and `.netrc`: nothing of the environment is used unless it is asked for, and then it works."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from little_proxy import proxy
from plain_http import raw, read_all
from scripted import CERTIFICATE, Scripted, answer, closed_port, hang, json_answer, server_context

from abort_sync import AbortClient, Keys, Limits, Outcome, Status

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def abort_at(url: str, **settings: Any) -> Outcome:
    options = {"limits": Limits(attempts=1), "timeout_s": 30.0, "keys": Keys(worker="w0rker-key"), **settings}
    return AbortClient(worker_urls=url, **options).abort_request("rid-1").outcomes[0]


def use_proxy(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, url)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_the_little_proxy_passes_requests_on() -> None:
    """The proxy of these tests passes a plain request on without its own headers, and makes a tunnel."""
    with Scripted(answer(200, "yes")) as server, proxy() as one:
        plain = f"GET http://any.example:{server.port}/x HTTP/1.1\r\nProxy-Authorization: p\r\nA: b\r\n\r\n"
        with raw(one.url, plain.encode()) as connection:
            assert read_all(connection).endswith(b"yes")
        with raw(one.url, f"CONNECT any.example:{server.port} HTTP/1.1\r\n\r\n".encode()) as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            connection.sendall(b"GET /y HTTP/1.1\r\n\r\n")
            assert read_all(connection).endswith(b"yes")

    assert server.targets == ["GET /x", "GET /y"]
    assert (server.asked[0].values("a"), server.asked[0].values("proxy-authorization")) == (["b"], [])
    assert [asked.method for asked in one.asked] == ["GET", "CONNECT"]


def test_proxy_variables_do_nothing_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that every variable names is not even connected to; calls inside a cluster go straight."""
    with Scripted(answer()) as worker, Scripted(answer(), tls=server_context()) as secure, Scripted(hang) as trap:
        use_proxy(monkeypatch, trap.url)
        outcomes = [abort_at(worker.url), abort_at(secure.url, verify=str(CERTIFICATE))]
        listed = AbortClient(worker.url).abort_request("rid-1")

    assert [one.status for one in outcomes] == [Status.ACCEPTED] * 2
    assert (listed.ok, trap.accepted) == (False, 0)


def test_a_proxy_that_is_asked_for_passes_http_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``trust_env=True`` the proxy is asked for the whole URL, gets its own credentials, and resolves the name itself."""
    with Scripted(answer()) as worker, proxy() as one:
        use_proxy(monkeypatch, one.url.replace("//", "//pu:p%40p@"))
        outcome = abort_at(f"http://worker.example:{worker.port}/x", trust_env=True)

    assert outcome.status is Status.ACCEPTED
    assert [f"{asked.method} {asked.target}" for asked in one.asked] == [f"POST http://worker.example:{worker.port}/x/abort_request"]
    assert one.asked[0].values("proxy-authorization") == [basic("pu", "p@p")]
    assert worker.targets == ["POST /x/abort_request"]
    assert worker.asked[0].values("authorization") == ["Bearer w0rker-key"]
    assert worker.asked[0].values("host") == [f"worker.example:{worker.port}"]
    assert worker.asked[0].body == b'{"rid": "rid-1", "abort_all": false}'


def test_a_proxy_that_is_asked_for_makes_a_tunnel_for_https(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy sees the host and its own credentials and nothing more; the certificate is the worker's."""
    with Scripted(answer(), tls=server_context()) as worker, proxy() as one:
        use_proxy(monkeypatch, one.url.replace("//", "//pu:pp@"))
        named = worker.url.replace("127.0.0.1", "localhost")
        outcome = abort_at(named, trust_env=True, verify=str(CERTIFICATE))
        stranger = abort_at(named, trust_env=True)

    assert outcome.status is Status.ACCEPTED
    assert [f"{asked.method} {asked.target}" for asked in one.asked] == [f"CONNECT localhost:{worker.port}"] * 2
    assert one.asked[0].values("proxy-authorization") == [basic("pu", "pp")]
    assert b"w0rker-key" not in one.asked[0].head
    assert [asked.values("authorization") for asked in worker.asked] == [["Bearer w0rker-key"]]
    assert worker.asked[0].values("proxy-authorization") == []
    assert stranger.status is Status.UNREACHABLE


def test_no_proxy_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that ``no_proxy`` names is called straight."""
    with Scripted(answer()) as worker, Scripted(hang) as trap:
        use_proxy(monkeypatch, trap.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert abort_at(worker.url, trust_env=True).status is Status.ACCEPTED
    assert trap.accepted == 0


def test_a_proxy_that_fails_is_told_and_the_request_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tunnel: nothing reached the worker. A plain request that a proxy refuses is a refusal."""
    denied = answer(407, "who are you?", "proxy-authenticate: Basic")
    with Scripted(denied) as asks, Scripted(hang) as hangs, Scripted(b"") as silent:
        got: list[Outcome] = []
        for url in (asks.url, hangs.url, silent.url, f"http://127.0.0.1:{closed_port()}", "socks5://u:s3cr3t@127.0.0.1:1", "http://"):
            use_proxy(monkeypatch, url)
            got.append(abort_at("https://worker.example", trust_env=True, limits=Limits(connect_s=1.0, attempts=1)))
        use_proxy(monkeypatch, asks.url)
        plain = abort_at("http://worker.example", trust_env=True)

    assert [one.status for one in got] == [Status.UNREACHABLE] * 6
    assert "407" in str(got[0].error)
    assert "asking the proxy for a tunnel" in str(got[1].error)
    assert "socks5://" in str(got[4].error)
    assert "s3cr3t" not in str(got[4])
    assert (plain.status, plain.http_status) == (Status.REJECTED, 407)


def test_a_netrc_does_nothing_unless_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``.netrc`` never replaces a key; with ``trust_env=True`` it serves where no key and no credentials were given."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login nu password np\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    with Scripted(json_answer({"session_server_instance_id": "i-1", "cancelled": 0})) as server:
        with_login = server.url.replace("//", "//u:p@")
        for trust_env in (False, True):
            for url, keys in ((server.url, Keys(worker="kw")), (server.url, Keys()), (with_login, Keys()), (with_login, Keys(worker="kw"))):
                abort_at(url, trust_env=trust_env, keys=keys)
            AbortClient(agent_server_url=server.url, trust_env=trust_env, keys=Keys(agent="ka")).flush("i-1")

    carried = [next(iter(asked.values("authorization")), None) for asked in server.asked]
    assert carried[:5] == ["Bearer kw", None, basic("u", "p"), "Bearer kw", "Bearer ka"]
    assert carried[5:] == ["Bearer kw", basic("nu", "np"), basic("u", "p"), "Bearer kw", "Bearer ka"]
