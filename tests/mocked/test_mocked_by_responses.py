"""A user's own tests, with `responses`: whatever the client sends can be answered, counted and refused there."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import responses

from abort_sync import AbortClient, Keys, Limits, RouterError, Status, abort, abort_sglang_request, teardown

ROUTER, AGENT = "http://router.example:3000", "http://agents.example:9000"
WORKERS = ("http://10.0.0.1:30000", "http://10.0.0.2:30000", "http://10.0.0.3:30000")


def list_workers(mocked: responses.RequestsMock, *urls: str) -> None:
    mocked.get(f"{ROUTER}/workers", json={"workers": [{"url": url} for url in urls]})


def sent(mocked: responses.RequestsMock, path: str) -> list[tuple[str, Any]]:
    """Return what was sent to a path: from which base URL, and the body."""
    calls = [one.request for one in mocked.calls if one.request.url.endswith(path)]
    return sorted((one.url[: -len(path)], json.loads(one.body or "null")) for one in calls)


@pytest.fixture
def mocked() -> Any:
    with responses.RequestsMock() as mocked:  # fails a test in which an answer was not asked for, or a request not answered
        yield mocked


def test_an_abort_reaches_every_worker_of_the_router(mocked: responses.RequestsMock) -> None:
    """One rid, three workers: each gets one POST with both keys of the body, and the report has an outcome for each, in order."""
    list_workers(mocked, *WORKERS)
    for url in WORKERS:
        mocked.post(f"{url}/abort_request")
    report = AbortClient(ROUTER).abort_request("rid-1")
    assert report.ok
    assert [(one.target, one.via, one.status, one.http_status) for one in report.outcomes] == [
        (url, "router", Status.ACCEPTED, 200) for url in WORKERS
    ]
    assert sent(mocked, "/abort_request") == [(url, {"rid": "rid-1", "abort_all": False}) for url in WORKERS]


def test_a_router_without_an_abort_route_gets_every_worker_aborted(mocked: responses.RequestsMock) -> None:
    """A founding story: the abort sent to the router was a 404 that nobody saw; now the workers get it, and the router none."""
    mocked.get(f"{ROUTER}/workers", status=404)
    mocked.get(f"{ROUTER}/list_workers", json={"urls": list(WORKERS)})
    for url in WORKERS:
        mocked.post(f"{url}/abort_request")
    report = abort_sglang_request(ROUTER, "rid-1")
    assert report.ok
    assert [url for url, _ in sent(mocked, "/abort_request")] == list(WORKERS)


def test_a_driver_with_three_instance_ids_gets_three_flushes(mocked: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A founding story: the ids were in the plural map, the singular was read, and no trial was cancelled; now each is flushed once."""
    monkeypatch.setenv("AGENT_SERVER_URL", AGENT)
    monkeypatch.setenv("HARBOR_ADMIN_SECRET", "agent-secret")
    ids = ["session-0", "session-1", "session-2"]
    for number, one in enumerate(ids):
        body = {"session_server_instance_id": one}
        mocked.post(
            f"{AGENT}/flush",
            json={**body, "cancelled": number},
            match=[
                responses.matchers.json_params_matcher(body),
                responses.matchers.header_matcher({"Authorization": "Bearer agent-secret"}),
            ],
        )
    report = abort(SimpleNamespace(session_server_instance_ids={"a": ids[0], "b": ids[1], "c": ids[2]}, session_server_instance_id=None))
    assert report.ok
    assert [(one.target, one.cancelled) for one in report.outcomes] == [("session-0", 0), ("session-1", 1), ("session-2", 2)]
    assert len(mocked.calls) == 3


def test_a_server_itself_gets_the_abort(mocked: responses.RequestsMock) -> None:
    """A URL that lists no workers in any dialect is a server: it gets the abort, and the outcome says so."""
    mocked.get(f"{ROUTER}/workers", status=404)
    mocked.get(f"{ROUTER}/list_workers", status=404)
    mocked.post(f"{ROUTER}/abort_request")
    report = AbortClient(ROUTER).abort_request("rid-1")
    assert [(one.target, one.via, one.status) for one in report.outcomes] == [(ROUTER, "direct", Status.ACCEPTED)]


def test_workers_known_without_a_router(mocked: responses.RequestsMock) -> None:
    """Given worker URLs are aborted at without asking anybody."""
    mocked.post(f"{WORKERS[0]}/abort_request")
    report = AbortClient(worker_urls=[WORKERS[0]]).abort_all()
    assert [(one.via, one.status) for one in report.outcomes] == [("given", Status.ACCEPTED)]
    assert sent(mocked, "/abort_request") == [(WORKERS[0], {"rid": "", "abort_all": True})]


def test_a_worker_that_wants_another_key_is_refused(mocked: responses.RequestsMock) -> None:
    """401 is asked once, the outcome names the setting, and the other workers are aborted."""
    list_workers(mocked, *WORKERS[:2])
    mocked.post(f"{WORKERS[0]}/abort_request", status=401, json={"error": "Unauthorized"})
    mocked.post(f"{WORKERS[1]}/abort_request")
    report = AbortClient(ROUTER, keys=Keys(worker="wrong-key")).abort_request("rid-1")
    assert [one.status for one in report.outcomes] == [Status.REFUSED, Status.ACCEPTED]
    assert "keys.worker" in str(report.failures[0].error)
    assert "wrong-key" not in str(report)
    assert len(sent(mocked, "/abort_request")) == 2


@pytest.mark.parametrize("failure", [503, 429, requests.ConnectionError("lost"), requests.ReadTimeout("slow")], ids=repr)
def test_a_failure_is_tried_again(failure: Any, mocked: responses.RequestsMock) -> None:
    """An answer that asks for another attempt, or a lost one, is followed by another; the report counts them."""
    list_workers(mocked, WORKERS[0])
    url = f"{WORKERS[0]}/abort_request"
    if isinstance(failure, int):
        mocked.post(url, status=failure)
    else:
        mocked.post(url, body=failure)
    mocked.post(url)
    (outcome,) = AbortClient(ROUTER).abort_request("rid-1").outcomes
    assert (outcome.status, len(outcome.attempts), outcome.http_status) == (Status.ACCEPTED, 2, 200)


def test_attempts_are_bounded(mocked: responses.RequestsMock) -> None:
    """A worker that fails for ever is tried as often as `limits.attempts` says, and is REJECTED."""
    list_workers(mocked, WORKERS[0])
    failing = mocked.post(f"{WORKERS[0]}/abort_request", status=500)
    (outcome,) = AbortClient(ROUTER, limits=Limits(attempts=2)).abort_request("rid-1").outcomes
    assert (outcome.status, failing.call_count) == (Status.REJECTED, 2)


def test_a_router_that_fails_is_the_reports_error(mocked: responses.RequestsMock) -> None:
    """When the workers cannot be learned nothing is aborted by luck: the report's error says why, and `workers()` raises it."""
    mocked.get(f"{ROUTER}/workers", status=403)
    client = AbortClient(ROUTER)
    report = client.abort_request("rid-1")
    assert (report.ok, report.outcomes) == (False, ())
    assert "ABORT_SYNC_ROUTER_KEY" in str(report.error)
    with pytest.raises(RouterError, match="ABORT_SYNC_ROUTER_KEY"):
        client.workers()


def test_a_redirect_is_not_followed(mocked: responses.RequestsMock) -> None:
    """E3: a redirected abort is REJECTED, and says where it pointed."""
    mocked.post(f"{WORKERS[0]}/abort_request", status=302, headers={"Location": f"{WORKERS[1]}/abort_request"})
    (outcome,) = AbortClient(worker_urls=[WORKERS[0]]).abort_request("rid-1").outcomes
    assert outcome.status is Status.REJECTED
    assert f"{WORKERS[1]}/abort_request" in str(outcome.error)


def test_a_flush_that_may_have_arrived_is_not_repeated(mocked: responses.RequestsMock) -> None:
    """C3: a read timeout leaves a flush UNKNOWN after one attempt; a 503 is tried again."""
    mocked.post(f"{AGENT}/flush", body=requests.ReadTimeout("slow"))
    (outcome,) = AbortClient(agent_server_url=AGENT).flush("id-1").outcomes
    assert (outcome.status, len(outcome.attempts)) == (Status.UNKNOWN, 1)
    mocked.replace(responses.POST, f"{AGENT}/flush", status=503)
    mocked.post(f"{AGENT}/flush", json={"session_server_instance_id": "id-1", "cancelled": 4})
    (outcome,) = AbortClient(agent_server_url=AGENT).flush("id-1").outcomes
    assert (outcome.status, outcome.cancelled, len(outcome.attempts)) == (Status.ACCEPTED, 4, 2)


def test_until_idle_looks_until_nothing_is_left(mocked: responses.RequestsMock) -> None:
    """Abort, look, abort again: IDLE after two looks in a row without work."""
    list_workers(mocked, WORKERS[0])
    aborts = mocked.post(f"{WORKERS[0]}/abort_request")
    for running in (2, 0, 0):
        mocked.get(f"{WORKERS[0]}/v1/loads", json={"loads": [{"num_running_reqs": running, "num_waiting_reqs": 0}]})
    report = AbortClient(ROUTER).abort_until_idle(["rid-1"], poll_s=0.01)
    assert [(one.status, one.remaining) for one in report.outcomes] == [(Status.IDLE, 0)]
    assert aborts.call_count == 2


def test_a_teardown_flushes_and_sweeps(mocked: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The drop-in reads the driver's arguments: the agents' outcomes first, then the workers'."""
    monkeypatch.setenv("AGENT_SERVER_URL", AGENT)
    mocked.post(f"{AGENT}/flush", json={"session_server_instance_id": "id-1", "cancelled": 0})
    list_workers(mocked, WORKERS[0])
    mocked.post(f"{WORKERS[0]}/abort_request")
    mocked.get(f"{WORKERS[0]}/v1/loads", json={"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]})
    args = SimpleNamespace(sglang_router_ip="router.example", sglang_router_port=3000, session_server_instance_id="id-1")
    report = teardown(args, abort_all=True)
    assert report.ok
    assert [(one.target, one.status) for one in report.outcomes] == [("id-1", Status.ACCEPTED), (WORKERS[0], Status.IDLE)]


def test_the_guard_in_a_legacy_script(mocked: responses.RequestsMock) -> None:
    """A script whose generate times out aborts it, twice, and still sees its own exception."""
    mocked.post(f"{ROUTER}/generate", body=requests.ReadTimeout("60 s are over"))
    list_workers(mocked, WORKERS[0])
    aborts = mocked.post(f"{WORKERS[0]}/abort_request")
    client = AbortClient(ROUTER)
    with pytest.raises(requests.ReadTimeout, match="60 s are over"), client.abort_on_exit("rid-1") as guard:
        requests.post(f"{ROUTER}/generate", json={"rid": "rid-1", "text": "a"}, timeout=60)
    assert aborts.call_count == 2
    assert guard.report is not None
    assert guard.report.ok


def test_what_was_not_mocked_is_in_the_report(mocked: responses.RequestsMock) -> None:
    """A request that the test did not expect fails inside the library, and stands in the report; it is not raised."""
    report = AbortClient(worker_urls=["http://unexpected.example:1"], limits=Limits(attempts=1)).abort_request("rid-1")
    assert [one.status for one in report.outcomes] != [Status.ACCEPTED]
    assert not report.ok
