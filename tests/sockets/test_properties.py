"""For every script of server behaviours: outcomes are complete, in order and true, and the deadline holds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from abort_sync import Limits, Status
from abort_sync.testing import Behaviour, LocalFleet

WORKERS = 4
NUMBERS = iter(range(1_000_000))  # no rid of an example is one of another
TIMEOUT_S = 0.6
SLACK_S = 5.0  # the machine stalls
SCRIPTS = settings(derandomize=True, deadline=None, database=None, max_examples=15)

ANSWERS = st.one_of(
    st.sampled_from([200, 201, 204, 207, 301, 307, 400, 401, 403, 404, 405, 408, 422, 429, 500, 501, 502, 503, 599]).map(Behaviour.answer),
    st.sampled_from(["0", "-1", "soon", "99999999", "Thu, 31 Dec 2099 23:59:59 GMT"]).map(
        lambda later: Behaviour.answer(503, headers={"retry-after": later})
    ),
    st.sampled_from(
        [
            Behaviour.hang(),
            Behaviour.hang(obey=True),
            Behaviour.reset(),
            Behaviour.reset(obey=True),
            Behaviour.redirect("http://127.0.0.1:9/abort_request", 302),
            Behaviour.wrong_json(),
            Behaviour.html(),
            Behaviour.drip_headers(),
            Behaviour.drip_body(),
            Behaviour.cut_body(),
            Behaviour.endless_body(),
        ]
    ),
)
# What a worker does with one request after the other, then with all others; "dead" is a closed port.
WORKER = st.one_of(st.just("dead"), st.lists(ANSWERS, max_size=3))
ROUTER = st.lists(ANSWERS, max_size=2)


@pytest.fixture(scope="module")
def fleet() -> Iterator[LocalFleet]:
    with LocalFleet(workers=WORKERS, agent_server=False) as fleet:
        yield fleet


@SCRIPTS
@given(st.lists(WORKER, min_size=WORKERS, max_size=WORKERS), st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 2, 64]))
@example([[Behaviour.hang()], [], "dead", [Behaviour.answer(503)]], 3, 3, 64)
@example([[Behaviour.hang()] * 3] * WORKERS, 3, 3, 1)
def test_every_script_of_the_workers(fleet: LocalFleet, workers: list, rids: int, attempts: int, threads: int) -> None:
    """Whatever the workers do, there is one outcome per rid and worker, rid-major, none claims what its server did not see, in time."""
    number = next(NUMBERS)
    wanted = [f"rid-{number}-{one}" for one in range(rids)]
    for worker, script in zip(fleet.workers, workers):
        worker.behave(Behaviour.refuse() if script == "dead" else None)
        if script != "dead" and script:
            worker.behave(script)
    client = fleet.client(router_url=None, worker_urls=fleet.worker_urls, limits=Limits(attempts=attempts, threads=threads))
    began = time.monotonic()
    report = client.abort_requests(wanted, timeout_s=TIMEOUT_S)
    assert time.monotonic() - began < TIMEOUT_S + SLACK_S
    assert [(one.rid, one.target) for one in report.outcomes] == [(rid, url) for rid in wanted for url in fleet.worker_urls]
    seen = {(one.json["rid"], worker.url) for worker in fleet.workers for one in worker.requests if one.path == "/abort_request"}
    for one in report.outcomes:
        where = f"{one}"
        assert len(one.attempts) <= attempts, where
        assert (one.error is None) == (one.status is Status.ACCEPTED), where
        if one.status in (Status.NOT_SENT, Status.UNREACHABLE):
            assert (one.rid, one.target) not in seen, where
        elif one.status is not Status.UNKNOWN:
            assert (one.rid, one.target) in seen, where
        if one.status is Status.ACCEPTED:
            assert one.http_status == 200, where


@SCRIPTS
@given(ROUTER)
@example([Behaviour.hang()])
@example([Behaviour.endless_body()])
def test_every_script_of_the_router(fleet: LocalFleet, script: list) -> None:
    """Whatever the router does, either every worker has its outcome, or the report's error says why the workers are unknown, in time."""
    for worker in fleet.workers:
        worker.behave(None)
    fleet.router.behave(None)
    if script:
        fleet.router.behave(script)
    rid = f"rid-{next(NUMBERS)}"
    began = time.monotonic()
    report = fleet.client().abort_request(rid, timeout_s=TIMEOUT_S)
    assert time.monotonic() - began < TIMEOUT_S + SLACK_S
    targets = [one.target for one in report.outcomes]
    if report.error is None and targets != [fleet.router_url]:
        assert targets == list(fleet.worker_urls)
    elif report.error is not None:
        assert targets == []
        assert not report.ok
        assert fleet.router_url in report.error or "no worker is listed" in report.error
