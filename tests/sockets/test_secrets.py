"""No text that a call leaves behind holds a key or a password."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import socket
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Callable

import pytest
from scripted import Scripted, answer, closed_port, json_answer, listing

from abort_sync import AbortClient, AbortIncompleteError, AbortSyncError, ConfigurationError, Keys, Limits, Report

SECRETS = {name: f"Zq{n}x7Vw{n}Kp{n} \"'<&%/\\  {n}Jt4" for n, name in enumerate(("router", "worker", "worker_admin", "agent"))}
"""As nasty as a header allows: quotes, a backslash, a per cent sign, two blanks in a row."""

CALLS: dict[str, Callable[[AbortClient], Any]] = {
    "workers": lambda client: client.workers(),
    "loads": lambda client: client.loads(),
    "abort_request": lambda client: client.abort_request("rid-1"),
    "abort_requests": lambda client: client.abort_requests(["rid-1", "rid-2"]),
    "abort_all": lambda client: client.abort_all(),
    "flush": lambda client: client.flush(["i-1"]),
}


def forms(secret: str) -> set[str]:
    """Return how a secret could stand in a text."""
    return {secret, secret[:9], json.dumps(secret)[1:-1], base64.b64encode(secret.encode()).decode()}


class Texts:
    """Collects every text that a call leaves behind, and looks for secrets in it."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.caplog, self.found = caplog, [""]

    def add(self, value: object) -> None:
        """Take a report, an event, an error with all that it was made from, or anything with a repr."""
        self.found += [str(value), repr(value)]
        if isinstance(value, Report):
            self.found += [json.dumps(value.to_dict()), str(pickle.dumps(value)), str(AbortIncompleteError(value))]
        if isinstance(value, BaseException):
            self.found += traceback.format_exception(type(value), value, value.__traceback__)
            for inner in (value.__cause__, value.__context__):
                if inner is not None:
                    self.add(inner)

    def check(self, *secrets: str) -> str:
        """Return it all, which holds none of the secrets."""
        everything = "\n".join([*self.found, self.caplog.text, *(repr(one.__dict__) for one in self.caplog.records)])
        for secret in secrets:
            for form in forms(secret):
                assert form not in everything
        return everything


@pytest.fixture
def texts(caplog: pytest.LogCaptureFixture) -> Iterator[Texts]:
    """All texts, everybody's log at DEBUG included."""
    with caplog.at_level(logging.DEBUG):
        for name in ("abort_sync", "urllib3", "requests", "asyncio", "concurrent.futures"):
            caplog.set_level(logging.DEBUG, logger=name)
        yield Texts(caplog)


def echoes(status: int, *headers: str) -> Callable[[Any], None]:
    """Return what answers with the keys in its body, right where an error's text would be cut off."""
    everything = list(SECRETS.values())
    body = "x" * 185 + " " + everything[0] + " ".join(everything) + json.dumps(everything)

    def play(connection: Any) -> None:
        connection.sendall(answer(status, body, *headers))

    return play


ECHOES: tuple[Any, ...] = (
    *(echoes(status) for status in (200, 202, 400, 401, 403, 404, 422, 500, 503)),
    echoes(302, f"location: http://u:{SECRETS['worker']}@h/"),
    echoes(307, "location: " + "y" * 180 + SECRETS["worker_admin"]),
    b"nonsense " + "\n".join(SECRETS.values()).encode(),
    b"HTTP/1.1 " + SECRETS["worker"].encode() + b"\r\n\r\n",
    b"HTTP/1.1 2000 " + b"z" * 150 + SECRETS["agent"].encode() + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + SECRETS["worker"].encode() + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + SECRETS["agent"].encode() + b"\r\n",
    json_answer({"workers": [{"url": f"http://h/{'p' * 360}{secret}"} for secret in SECRETS.values()]}),
    json_answer({"workers": [{"url": f"http://{secret}@h:x"} for secret in SECRETS.values()]}),
)


def test_no_text_holds_a_key_though_servers_send_it_back(texts: Texts) -> None:
    """Reports, events, errors, logs at DEBUG and pickles are free of keys, also where they would be cut in the middle of one."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Scripted(act)) for act in ECHOES]
        urls = [one.url for one in servers]
        router = stack.enter_context(Scripted(routes=listing(*urls)))
        options: dict[str, Any] = {"keys": Keys(**SECRETS), "limits": Limits(attempts=1), "on_event": texts.add, "timeout_s": 20.0}
        for client in (AbortClient(router.url, **options), AbortClient(urls, **options)):
            texts.add(client)
            for call in sorted(CALLS.keys() - {"flush"}):
                try:
                    texts.add(CALLS[call](client))
                except AbortSyncError as why:
                    texts.add(why)
            texts.add(client.abort_until_idle(["rid-1"], timeout_s=1.0, poll_s=0.1))
            texts.add(client.discover())
        for url in urls:
            texts.add(AbortClient(agent_server_url=url, **options).flush(["i-1"]))
            with pytest.raises(AbortSyncError) as caught:
                AbortClient(url, **options).wait_for_workers(100, timeout_s=0.1)
            texts.add(caught.value)

    everything = texts.check(*SECRETS.values())
    assert "the server said: xxxx" in everything
    assert "***" in everything


def test_no_text_holds_a_key_when_nobody_answers(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, over TLS to a plain server, by a name that does not resolve: errors of the libraries hold no key either."""

    def fails(host: str, *args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    with Scripted(b"") as silent:
        urls = [f"127.0.0.1:{closed_port()}", silent.url, silent.url.replace("http:", "https:"), f"http://{'a' * 60}.invalid:1"]
        client = AbortClient(
            worker_urls=urls, agent_server_url=urls[0], keys=Keys(**SECRETS), limits=Limits(0.5, attempts=1), on_event=texts.add
        )
        for name in ("abort_request", "flush", "loads"):
            texts.add(CALLS[name](client))

    texts.check(*SECRETS.values())


CREDENTIALS = ("us3r", "p%40s:s3cr3t/", "p@s:s3cr3t/")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_credentials_in_a_url_are_sent_and_masked_wherever_it_is_printed(texts: Texts) -> None:
    """``user:password@`` becomes a Basic header at that server alone; every text shows ``***@``."""
    user, quoted, password = CREDENTIALS[0], "p%40s%3As3cr3t%2F", CREDENTIALS[2]
    with ExitStack() as stack:
        worker = stack.enter_context(Scripted(answer(500)))
        at = worker.url.replace("http://", f"http://{user}:{quoted}@")
        odd = [f"grpc://{user}:{quoted}@h\x07:1", f"ftp://{user}:{quoted}@h", f"http://{user}:s3cr3t/x@h:1", f"grpc://{user}:{quoted}@h:1"]
        router = stack.enter_context(Scripted(routes=listing(at, *odd)))
        agent = stack.enter_context(Scripted(answer(500)))
        urls = [one.url.replace("http://", f"http://{user}:{quoted}@") for one in (router, agent)]
        client = AbortClient(urls[0], agent_server_url=urls[1], limits=Limits(attempts=1), on_event=texts.add, timeout_s=20.0)
        texts.add(client)
        report = client.abort_request("rid-1")
        for one in (report, client.flush("i-1"), client.loads(), client.discover(), client.workers()):
            texts.add(one)
        texts.add(client.abort_until_idle(["rid-1"], timeout_s=1.0))
        asked = [*router.asked, *worker.asked, *agent.asked]

    assert {tuple(one.values("authorization")) for one in asked} == {(basic(user, password),)}
    assert not any(b"us3r" in one.head for one in asked)
    assert [one.target for one in report.outcomes][0] == at.replace(f"{user}:{quoted}", "***")
    everything = texts.check(password, quoted, "s3cr3t")
    assert user not in everything
    assert "***@" in everything


def test_credentials_of_a_url_that_the_server_sends_back_are_masked(texts: Texts) -> None:
    """A server that repeats the login of its URL, as it is, quoted or as the header had it, does not get it into any text."""
    user, password = CREDENTIALS[0], CREDENTIALS[2]
    echo = f"bad login {user}:{password} p%40s%3As3cr3t%2F {basic(user, password)}"
    for act in (answer(401, echo), answer(302, "", f"location: http://h/{basic(user, password)[6:]}")):
        with Scripted(act) as worker:
            at = worker.url.replace("http://", f"http://{user}:p%40s%3As3cr3t%2F@")
            client = AbortClient(worker_urls=[at], limits=Limits(attempts=1), on_event=texts.add, timeout_s=20.0)
            report = client.abort_request("rid-1")
        texts.add(report)
        assert "***" in str(report.outcomes[0].error)
    texts.check(password, "p%40s%3As3cr3t%2F", basic(user, password)[6:])


@pytest.mark.parametrize(
    "url",
    [
        *("http://u:s3cr3t@h:99999", "ftp://u:s3cr3t@h", "http://u:s3cr3t@h/ x", "http://u:s3cr3t@a@h", "http://u:s3cr3t/y@h:1"),
        *("u:s3cr3t@", "http://u:s3cr3t?x@h", "http://u:s3cr3t#x@h", "http://h/?key=s3cr3t"),
    ],
)
def test_a_url_that_is_refused_is_masked(url: str) -> None:
    """The error about a bad URL shows no password."""
    for make in (lambda: AbortClient(url), lambda: AbortClient(worker_urls=[url]), lambda: AbortClient(agent_server_url=url)):
        with pytest.raises(ConfigurationError) as caught:
            make()
        assert "s3cr3t" not in "".join(traceback.format_exception(type(caught.value), caught.value, caught.value.__traceback__)[-1:])
