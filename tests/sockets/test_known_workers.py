"""Workers that a router cannot list now, or lists by a name that only it understands."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest
from scripted import Scripted, answer, listing

from abort_sync import AbortClient, Limits, RouterError
from abort_sync.testing import Behaviour, LocalFleet


def test_workers_seen_earlier_serve_rids_when_the_router_is_gone() -> None:
    """The last known workers get the abort, and the report says so and how old they are."""
    with LocalFleet(workers=2) as fleet:
        client = fleet.client(limits=Limits(attempts=1))
        assert client.abort_request("rid-1").notes == ()
        for trouble in (Behaviour.refuse(), Behaviour.reset(), Behaviour.answer(503), Behaviour.answer(500), Behaviour.cut_body()):
            fleet.router.behave(trouble)
            report = client.abort_request("rid-2")
            assert [(one.target, one.via, one.ok) for one in report.outcomes] == [(url, "last_known", True) for url in fleet.worker_urls]
            assert report.ok
            assert len(report.notes) == 1
            assert re.search(r"cannot be reached: its workers as seen \d+ s ago are used", report.notes[0])
        assert not fleet.client().abort_request("rid-2").outcomes, "another client has seen nothing"
        fleet.router.behave(None)
        assert {one.via for one in client.abort_request("rid-3").outcomes} == {"router"}


def test_abort_all_never_uses_workers_seen_earlier() -> None:
    """They may serve another job by now: without the router ``abort_all`` sends nothing, and ``workers()`` raises."""
    with LocalFleet(workers=2) as fleet:
        client = fleet.client(limits=Limits(attempts=1))
        client.workers()
        fleet.router.kill()
        for report in (
            client.abort_all(),
            client.teardown(abort_all=True, until_idle=False),
            client.abort_all_until_idle(timeout_s=0.5),
        ):
            assert (report.ok, report.outcomes) == (False, ())
        with pytest.raises(RouterError):
            client.workers()
        assert client.abort_request("rid-1").ok, "the memory is still there"
        assert not any(request.json["abort_all"] for worker in fleet.workers for request in worker.requests)


@pytest.mark.parametrize("code", [400, 401, 403])
def test_a_router_that_says_no_is_not_got_round(code: int) -> None:
    """A router that answers, and refuses, is no router that is gone: nothing is sent to the workers seen earlier."""
    with LocalFleet(workers=1) as fleet:
        client = fleet.client(limits=Limits(attempts=1))
        client.workers()
        fleet.router.behave(Behaviour.answer(code))
        assert client.abort_request("rid-1").outcomes == ()
        assert fleet.workers[0].requests == ()


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> str:
    """A host name of this machine that does not look like this machine."""
    original = socket.getaddrinfo

    def look(host: Any, *args: Any, **kwargs: Any) -> Any:
        return original("127.0.0.1" if host == "router.example" and not kwargs.get("flags") else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look)
    return "router.example"


LOCAL = ("http://127.0.0.1:{}", "localhost:{}", "http://0.0.0.0:{}/", "http://[::1]:{}", "http://[::]:{}", "http://127.0.0.1:{}@1")


def test_a_local_url_of_a_remote_router_is_on_the_routers_host(remote: str) -> None:
    """``127.0.0.1`` and its like mean the router's own host: rewritten, reached, and said in the notes."""
    with Scripted(answer()) as worker, Scripted(routes=listing(*(one.format(worker.port) for one in LOCAL), "http://10.0.0.9:1")) as router:
        url = f"http://{remote}:{router.port}"
        client = AbortClient(url, timeout_s=30.0)
        found = client.discover()
        as_listed = AbortClient(url, rewrite_local_urls=False, timeout_s=30.0).discover()

    assert [one.url for one in found.workers] == [f"http://{remote}:{worker.port}", "http://10.0.0.9:1"]
    assert len([note for note in found.notes if "rewrite_local_urls" in note and remote in note]) == len(LOCAL)
    assert len(as_listed.workers) == len(LOCAL)
    assert not [note for note in as_listed.notes if "rewrite_local_urls" in note]


def test_a_rewritten_worker_is_aborted_and_noted(remote: str) -> None:
    """The abort goes to the rewritten URL, and the report says that it was rewritten."""
    with Scripted(answer()) as worker, Scripted(routes=listing(worker.url)) as router:
        report = AbortClient(f"http://{remote}:{router.port}", timeout_s=30.0).abort_request("rid-1")

    assert [(one.target, one.ok) for one in report.outcomes] == [(f"http://{remote}:{worker.port}", True)]
    assert any("rewrite_local_urls" in note for note in report.notes)


def test_a_local_routers_loopback_workers_stay_and_only_the_wildcard_moves() -> None:
    """A router on this machine: ``127.0.0.1`` and ``localhost`` are as good as its own host, ``0.0.0.0`` is its host."""
    with Scripted(routes=listing("127.0.0.1:1", "localhost:1", "0.0.0.0:2")) as router:
        found = AbortClient(router.url, timeout_s=30.0).discover()

    assert [one.url for one in found.workers] == ["http://127.0.0.1:1", "http://localhost:1", "http://127.0.0.1:2"]
    assert len(found.notes) == 1
