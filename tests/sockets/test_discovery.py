"""Finding the workers: each server once, the odd ones named, and nothing aborted by luck."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scripted import Act, Scripted, answer, closed_port, json_answer, listing, reset

from abort_sync import AbortClient, ConfigurationError, Keys, Limits, RouterError, RouterRefusedError, Status
from abort_sync.testing import LocalFleet


def discovered(content: Any, **settings: Any) -> tuple[list[str], tuple[str, ...]]:
    """Return the URLs of the workers that a listing gives, and the notes."""
    with Scripted(routes={"/workers": json_answer(content)}) as router:
        found = AbortClient(router.url, timeout_s=30.0, **settings).discover()
    assert [one.error for one in found.routers] == [None]
    return [one.url for one in found.workers], found.notes


@pytest.mark.parametrize(
    ("entries", "urls"),
    [
        (["http://h:1@0", "http://h:1@1", "http://h:1@17"], ["http://h:1"]),
        (["http://[fd00::1]:5@3", "http://[fd00::1]:5@4/"], ["http://[fd00::1]:5"]),
        ([{"url": "http://h:1@0", "dp_base_url": "http://h:2"}], ["http://h:2"]),
        ([{"url": "http://h:1@0", "base_url": "http://h:3/", "dp_base_url": None}], ["http://h:3"]),
        ([{"url": "http://h:1", "dp_base_url": "http://h:2", "base_url": "http://h:3"}], ["http://h:2"]),
        (["http://u:pw@h:1@2", "http://u:pw@h:1"], ["http://u:pw@h:1"]),
        (["http://h:1", "http://h:1/", "h:1", " http://h:1\n", "HTTP://H:1", "http://h:1/v1", "http://h:1//v1/"], ["http://h:1"]),
        (["http://h", "http://h:80", "https://h", "https://h:443"], ["http://h", "https://h"]),
        (["fd00::1:30000", "fd00:1:2:3:4:5:6:7", "http://[fd00::1]:30000"], ["http://[fd00::1]:30000", "http://[fd00:1:2:3:4:5:6:7]"]),
        (["http://localhost:1", "http://127.0.0.1:1"], ["http://localhost:1", "http://127.0.0.1:1"]),
        (["http://h//a//b/", "http://h/a/b"], ["http://h/a/b"]),
        ([{"url": "http://b:1", "is_healthy": False}, {"url": "http://a:1", "status": "draining"}], ["http://b:1", "http://a:1"]),
        ([{"url": "http://p:1", "worker_type": "prefill"}, {"url": "http://d:1", "worker_type": "decode"}], ["http://p:1", "http://d:1"]),
        ([{"url": "grpc://h:1"}, {"url": "ipc:///tmp/x/"}, {"url": "GRPCS://h:2"}], ["grpc://h:1", "ipc:///tmp/x", "GRPCS://h:2"]),
        ([{"url": "grpc://h:1", "labels": {"rl.control_url": "http://h:2/"}}], ["http://h:2"]),
        ([{"url": "http://h:1", "labels": None}, {"url": "http://h:2", "labels": {"rl.control_url": 7}}], ["http://h:1", "http://h:2"]),
    ],
)
def test_a_listing_is_cleaned(entries: list[Any], urls: list[str]) -> None:
    """Ranks, slashes, missing schemes and duplicates come to one worker a server, in the order listed; health leaves nobody out."""
    assert discovered({"workers": entries})[0] == urls
    assert discovered({"urls": entries})[0] == urls
    assert discovered(entries)[0] == urls


def test_entries_that_cannot_be_used_are_noted_and_the_rest_is_used() -> None:
    """Numbers, null, empty and impossible URLs are each named in a note; the valid entries are workers."""
    odd = [
        7,
        None,
        {},
        {"url": None},
        {"url": ""},
        {"url": 3},
        [],
        "",
        " ",
        "ftp://h",
        "http://",
        "http://h:99999",
        "http://h:0",
        "http://h/?a=b",
    ]
    odd += ["fd00::1:3000", "http://0.0.0.3:1", "http://a b", "http://h:1@", f"http://{'x' * 70}.y", "http://" + "h" * 3000, "://h", "/h"]
    urls, notes = discovered({"workers": [*odd[:10], "h:1", *odd[10:], "h:2"]})

    assert urls[:1] + urls[-1:] == ["http://h:1", "http://h:2"]
    assert set(urls) <= {"http://h:1", "http://h:2"}
    assert len(notes) == 21
    assert notes[-1].startswith(f"and {len(odd) - 20} more notes")
    assert all("cannot be used" in note and len(note) <= 400 for note in notes[:20])


@pytest.mark.parametrize(
    "act",
    [
        *(
            json_answer(one)
            for one in (None, {}, 7, "x", True, [1, 2], [None], {"workers": None}, {"workers": {}}, {"workers": "http://h"})
        ),
        *(answer(200, body) for body in (b"", b"{", b'{"workers": [{"url": ', b'{"workers": ["\xff\xfe"]}', b"OK", b"<html></html>")),
        answer(200, "[]", "content-type: text/html"),
        answer(200, '{"workers": []}', length=100),
        answer(204),
        answer(206, '{"workers": []}'),
        answer(302, "", "location: /login"),
    ],
)
def test_what_is_no_listing_is_one_clear_error(act: Act) -> None:
    """Null, cut-off JSON, invalid UTF-8, a page: a RouterError that names the URL; nothing is sent to anybody."""
    with Scripted(routes={"/workers": act}) as router:
        client = AbortClient(router.url, limits=Limits(attempts=1), timeout_s=30.0)
        with pytest.raises(RouterError, match=router.url):
            client.workers()
        report = client.abort_request("rid-1")

    assert (report.ok, report.outcomes) == (False, ())
    assert router.url in str(report.error)
    assert router.targets == ["GET /workers"] * 2


def test_an_older_dialect_is_asked_for_before_a_server_is_believed() -> None:
    """404 or 405 on ``/workers`` from a router that passes the rest on to one worker: every worker is aborted, the router is not."""
    with LocalFleet(workers=3) as fleet:
        for first in (answer(404), answer(405), answer(500), json_answer({"detail": "Not Found"}, 404)):
            routes = {"/workers": first, "/list_workers": json_answer({"urls": fleet.worker_urls})}
            with Scripted(answer(), routes=routes) as router:
                report = AbortClient(router.url, timeout_s=30.0).abort_request("rid-1")
            assert [(one.target, one.via) for one in report.outcomes] == [(url, "router") for url in fleet.worker_urls]
            assert report.ok
            assert router.targets == ["GET /workers", "GET /list_workers"]


def test_a_server_itself_is_aborted_directly() -> None:
    """Where both listings are no route, the URL is a server: it gets the abort, and the outcome says ``direct``."""
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].start_generation("rid-1")
        client = AbortClient(f"{fleet.worker_urls[0]}/v1/", timeout_s=30.0)
        report = client.abort_request("rid-1")
        assert not fleet.workers[0].running
        assert [(one.dialect, one.workers) for one in client.discover().routers] == [("server", 1)]

    assert [(one.target, one.via, one.status) for one in report.outcomes] == [(fleet.worker_urls[0], "direct", Status.ACCEPTED)]


@pytest.mark.parametrize("code", [404, 405, 501])
def test_a_missing_abort_route_is_a_failure_that_names_the_url(code: int) -> None:
    """A router without listing and abort route: UNSUPPORTED, once, with its URL; never swallowed."""
    with Scripted(answer(404), routes={"/abort_request": answer(code)}) as server:
        report = AbortClient(server.url, timeout_s=30.0).abort_request("rid-1")

    assert [(one.target, one.status, one.http_status) for one in report.failures] == [(server.url, Status.UNSUPPORTED, code)]
    assert "no such route" in str(report.outcomes[0].error)
    assert server.targets == ["GET /workers", "GET /list_workers", "POST /abort_request"]


@pytest.mark.parametrize("where", ["/workers", "/list_workers"])
@pytest.mark.parametrize("code", [401, 403])
def test_a_refusal_is_reported_and_nothing_is_aborted_by_luck(code: int, where: str) -> None:
    """401 and 403: which key is wanted, one attempt, and no abort at the router itself."""
    with Scripted(answer(404), routes={where: answer(code), "/abort_request": answer()}) as router:
        client = AbortClient(router.url, keys=Keys(router="wr0ng"), timeout_s=30.0)
        report = client.abort_request("rid-1")
        with pytest.raises(RouterRefusedError, match="ABORT_SYNC_ROUTER_KEY"):
            client.workers()
        with pytest.raises(RouterRefusedError):
            client.wait_for_workers(1, timeout_s=60.0)

    assert (report.ok, report.outcomes) == (False, ())
    assert "keys.router (ABORT_SYNC_ROUTER_KEY)" in str(report.error)
    assert not any(target.startswith("POST") for target in router.targets)
    assert router.targets.count(f"GET {where}") == 3


@pytest.mark.parametrize("code", [400, 408, 418, 429, 500, 502, 503])
def test_a_router_in_trouble_is_never_taken_for_a_server(code: int) -> None:
    """Any other no on the listing is an error, and no abort is sent."""
    with Scripted(answer(code), routes={"/abort_request": answer()}) as router:
        report = AbortClient(router.url, limits=Limits(attempts=1), timeout_s=30.0).abort_request("rid-1")

    assert (report.ok, report.outcomes) == (False, ())
    assert f"HTTP {code}" in str(report.error)
    assert not any(target.startswith("POST") for target in router.targets)


def test_an_empty_list_is_no_success_unless_it_is_allowed() -> None:
    """No worker: not ok, "nothing to abort at"; ``allow_empty=True`` takes it for ok."""
    with LocalFleet(workers=0) as fleet:
        for client, is_ok in ((fleet.client(), False), (fleet.client(allow_empty=True), True)):
            assert client.workers() == ()
            for report in (client.abort_request("rid-1"), client.abort_all(), client.abort_until_idle(["rid-1"], poll_s=0.05)):
                assert (report.ok, report.outcomes) == (is_ok, ())
                assert is_ok or "nothing to abort at" in str(report.error)


def test_a_dead_worker_is_reported_and_the_live_ones_are_aborted() -> None:
    """One killed worker in the list costs only its own outcome; the listing's word on health is not believed."""
    with LocalFleet(workers=3) as fleet:
        fleet.workers[1].kill()
        for worker in (fleet.workers[0], fleet.workers[2]):
            worker.start_generation("rid-1")
        report = fleet.client(limits=Limits(attempts=1)).abort_request("rid-1")
        assert not fleet.workers[0].running | fleet.workers[2].running

    assert [one.status for one in report.outcomes] == [Status.ACCEPTED, Status.UNREACHABLE, Status.ACCEPTED]
    assert "connection refused" in str(report.outcomes[1].error)


def test_all_routers_and_given_workers_are_asked_and_each_worker_once() -> None:
    """Several routers that share a worker, and engines without a router: one abort a worker."""
    with LocalFleet(workers=3, agent_server=False) as fleet, Scripted(answer()) as engine:
        a, b, c = fleet.worker_urls
        with Scripted(routes=listing(a, b)) as one, Scripted(routes=listing(b, c, engine.url)) as two:
            args = {
                "sglang_model_routers": {"x": ("127.0.0.1", one.port), "y": ("127.0.0.1", str(two.port)), "z": ("127.0.0.1", one.port)},
                "rollout_external_engine_addrs": [f"127.0.0.1:{engine.port}", c],
            }
            report = AbortClient.from_args(args, timeout_s=30.0).abort_request("rid-1")

    assert [outcome.target for outcome in report.outcomes] == [a, b, c, engine.url]
    assert [outcome.via for outcome in report.outcomes] == ["router", "router", "given", "given"]
    assert [len(worker.requests) for worker in fleet.workers] == [1, 1, 1]
    assert len(engine.asked) == 1


def test_one_dead_router_of_two_leaves_the_other_ones_workers_aborted() -> None:
    """What can be learned is aborted; the report is not ok and names the router that could not be asked."""
    dead = f"http://127.0.0.1:{closed_port()}"
    with LocalFleet(workers=2) as fleet:
        report = AbortClient([dead, fleet.router_url], limits=Limits(attempts=1)).abort_request("rid-1")

    assert [one.ok for one in report.outcomes] == [True, True]
    assert not report.ok
    assert dead in str(report.error)


def test_a_worker_that_http_cannot_reach_is_unsupported() -> None:
    """gRPC workers are reported, never counted as success; one with a control URL is aborted there."""
    with Scripted(answer()) as control:
        entries = [{"url": "grpc://h:1"}, {"url": "grpc://h:2", "labels": {"rl.control_url": control.url}}]
        with Scripted(routes={"/workers": json_answer({"workers": entries})}) as router:
            client = AbortClient(router.url, timeout_s=30.0)
            report = client.abort_request("rid-1")
            idle = client.abort_until_idle(["rid-1"], timeout_s=1.0, poll_s=0.1)
            loads = client.loads()

    assert [(one.target, one.status, len(one.attempts)) for one in report.outcomes] == [
        ("grpc://h:1", Status.UNSUPPORTED, 0),
        (control.url, Status.ACCEPTED, 1),
    ]
    assert idle.outcomes[0].status is Status.UNSUPPORTED
    assert loads == {"grpc://h:1": None, control.url: None}
    assert {json.loads(one.body)["rid"] for one in control.asked if one.method == "POST"} == {"rid-1"}


def test_registration_is_waited_for() -> None:
    """Refused, then none, then a part, then all: ``wait_for_workers`` returns as soon as there are enough."""
    acts = [reset, json_answer({"workers": []}), listing("h:1")["/workers"], listing("h:1", "h:2", "h:3")["/workers"]]
    with Scripted(routes={"/workers": acts}) as router:
        client = AbortClient(router.url, limits=Limits(attempts=1))
        assert [one.url for one in client.wait_for_workers(2, timeout_s=60.0)] == ["http://h:1", "http://h:2", "http://h:3"]
        assert len(router.asked) == 4
        with pytest.raises(RouterError, match="3 of 4 workers were listed"):
            client.wait_for_workers(4, timeout_s=0.6)


def test_what_is_no_url_of_a_router_is_refused_before_any_packet() -> None:
    """A client without any place to look for workers says so at once."""
    client = AbortClient(agent_server_url="http://h:1")
    for call in (client.workers, client.loads, client.abort_all, lambda: client.abort_request("r"), lambda: client.wait_for_workers(1)):
        with pytest.raises(ConfigurationError, match="router_url"):
            call()


def test_ranks_put_together_are_told_by_discover_alone() -> None:
    """discover() says how many entries named a server twice; a report of an abort is not filled with that."""
    with LocalFleet(workers=1) as fleet:
        fleet.router.worker_urls = [f"{fleet.worker_urls[0]}@{rank}" for rank in range(4)]
        client = AbortClient(fleet.router_url)
        found, report = client.discover(), client.abort_request("rid-1")

    assert [one.url for one in found.workers] == [fleet.worker_urls[0]]
    assert [note.partition(" of ")[0] for note in found.notes] == ["3 entries"]
    assert report.ok
    assert report.notes == ()


def test_an_empty_list_names_the_router() -> None:
    """Which router listed nobody stands in the error."""
    with LocalFleet(workers=0) as fleet:
        assert fleet.router_url in str(AbortClient(fleet.router_url).abort_request("rid-1").error)
