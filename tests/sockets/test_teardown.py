"""Tearing down: agents first, workers until idle, one report."""

from __future__ import annotations

import json
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from scripted import Scripted, answer, hang, json_answer

from abort_sync import AbortClient, ConfigurationError, Keys, Limits, Status, teardown
from abort_sync import _flush as flush_room
from abort_sync import _operations as operations_room
from abort_sync.testing import Behaviour, LocalFleet


def test_agents_and_workers_are_torn_down_in_one_report() -> None:
    """All runs, waiting ones included, and all generations end; the flushes come first in the report, then the workers."""
    with LocalFleet(workers=2, teardown_s=0.1) as fleet:
        fleet.agent.start_runs("i-1", 2)
        fleet.agent.waiting("i-1", 3)
        for worker in fleet.workers:
            worker.start_generation("a")
            worker.start_generation("other")
        client = fleet.client()
        report = client.teardown(["i-1", "i-2"], rids=["a"], timeout_s=2.0)
        assert fleet.agent.running == {}
        assert [worker.running for worker in fleet.workers] == [{"other"}] * 2
        everything = client.teardown(["i-1"], abort_all=True)
        assert not any(worker.running for worker in fleet.workers)

    assert [(one.target, one.status, one.cancelled, one.remaining) for one in report.outcomes] == [
        ("i-1", Status.ACCEPTED, 5, None),
        ("i-2", Status.ACCEPTED, 0, None),
        *((url, Status.BUSY, None, 1) for url in fleet.worker_urls),
    ]
    assert (report.operation, report.notes, report.ok) == ("teardown", (), False)
    assert everything.ok
    assert [one.status for one in everything.outcomes] == [Status.ACCEPTED, Status.IDLE, Status.IDLE]


@pytest.fixture(autouse=True)
def short_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush and look in quick succession: how far apart is held by other tests."""
    monkeypatch.setattr(flush_room, "QUIET_SPACING_S", 0.05)
    monkeypatch.setattr(operations_room, "_TEARDOWN_POLL_S", 0.05)


class Producer:
    """An agent server whose agent sends a new request just when the worker has looked idle for long."""

    def __init__(self) -> None:
        self.is_running, self.flushes = False, 0
        self.events: list[str] = []
        self.looks = threading.Semaphore(0)

    def flush(self, connection: socket.socket) -> None:
        self.flushes += 1
        if self.flushes == 1:
            for _ in range(6):  # more zeros than make a worker idle
                assert self.looks.acquire(timeout=30.0)
            self.is_running = True
            self.events.append("produced")
        connection.sendall(json_answer({"session_server_instance_id": "i-1", "cancelled": int(self.flushes == 1)}))

    def abort(self, connection: socket.socket) -> None:
        self.events.append("aborted")
        self.is_running = False
        connection.sendall(answer())

    def load(self, connection: socket.socket) -> None:
        count = int(self.is_running)
        self.looks.release()
        connection.sendall(json_answer({"loads": [{"num_running_reqs": count, "num_waiting_reqs": 0}]}))


def test_no_worker_is_idle_before_the_agents_are_quiet() -> None:
    """A request that an agent sends during its teardown, after many idle readings, is found and aborted."""
    play = Producer()
    routes: dict[str, Any] = {"/flush": play.flush, "/abort_request": play.abort, "/v1/loads": play.load}
    with Scripted(routes=routes) as server:
        client = AbortClient(worker_urls=server.url, agent_server_url=server.url, flush_timeout_s=60.0)
        report = client.teardown(["i-1"], rids=["a"])

    assert report.ok, str(report)
    assert play.flushes == 3
    assert play.events == ["aborted", "produced", "aborted"]
    assert not play.is_running


def test_a_worker_is_not_idle_while_the_teardown_of_the_agents_goes_on() -> None:
    """Agents that are not quiet at the deadline may still send: no worker is called idle, however often it said zero."""
    zero = json_answer({"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]})
    routes = {"/flush": hang, "/abort_request": answer(), "/v1/loads": zero}
    with Scripted(routes=routes) as server:
        client = AbortClient(worker_urls=server.url, agent_server_url=server.url)
        flush, worker = client.teardown(["i-1"], rids=["a"], timeout_s=2.0).outcomes

    assert (flush.status, worker.status) == (Status.UNKNOWN, Status.UNKNOWN)
    assert "delivered, still tearing down" in str(flush.error)
    assert "agents" in str(worker.error)


@pytest.mark.parametrize(
    ("trouble", "status"),
    [(Behaviour.refuse(), Status.UNREACHABLE), (Behaviour.answer(404), Status.UNSUPPORTED), (Behaviour.answer(401), Status.REFUSED)],
    ids=["dead", "no route", "wrong secret"],
)
@pytest.mark.parametrize("until_idle", [True, False])
def test_a_flush_that_fails_leaves_the_workers_swept(trouble: Behaviour, status: Status, until_idle: bool) -> None:
    """The aborts still run, and the report holds both: the failure and the workers."""
    with LocalFleet(workers=2) as fleet:
        fleet.agent.behave(trouble)
        fleet.workers[0].start_generation("a")
        report = fleet.client(limits=Limits(attempts=1)).teardown(["i-1"], rids=["a"], until_idle=until_idle)
        assert not fleet.workers[0].running

    swept = Status.IDLE if until_idle else Status.ACCEPTED
    assert [one.status for one in report.outcomes] == [status, swept, swept]
    assert not report.ok


def test_once_means_flush_first_then_one_abort_a_worker() -> None:
    """``until_idle=False``: each id is flushed once, and only after its answer each worker gets each rid once."""
    with LocalFleet(workers=2, teardown_s=0.5) as fleet:
        fleet.agent.start_runs("i-1")
        fleet.agent.waiting("i-1")
        report = fleet.client().teardown(["i-1"], rids=["a", "b"], until_idle=False)
        flushes, aborts = fleet.agent.requests, [one for worker in fleet.workers for one in worker.requests]

    assert report.ok
    assert [one.rid for one in report.outcomes] == [None, "a", "a", "b", "b"]
    assert len(flushes) == 1
    assert [one.path for one in aborts] == ["/abort_request"] * 4
    assert min(one.at for one in aborts) >= flushes[0].at + 0.5


def test_a_flush_without_an_end_leaves_time_for_the_aborts() -> None:
    """``until_idle=False`` with an agent server that hangs: the workers are aborted before the deadline all the same."""
    with LocalFleet(workers=2) as fleet:
        fleet.agent.behave(Behaviour.hang())
        report = fleet.client().teardown(["i-1"], rids=["a"], until_idle=False, timeout_s=4.0)

    assert [one.status for one in report.outcomes] == [Status.UNKNOWN, Status.ACCEPTED, Status.ACCEPTED]


def test_without_rids_no_worker_is_swept_and_that_is_said() -> None:
    """Only the flush: a note says that no worker was swept; router and workers hear nothing."""
    with LocalFleet(workers=1, teardown_s=0.0) as fleet:
        report = fleet.client().teardown("i-1")
        assert fleet.router.accepted == fleet.workers[0].accepted == 0

    assert report.ok
    assert [one.target for one in report.outcomes] == ["i-1"]
    assert any("no worker was swept" in note for note in report.notes)


def test_without_ids_no_agent_is_flushed_and_that_is_said() -> None:
    """Only the sweep: a note says that no agent was flushed, and no agent server is needed."""
    with LocalFleet(workers=1, agent_server=False) as fleet:
        report = fleet.client().teardown(rids=["a"])

    assert report.ok
    assert [one.status for one in report.outcomes] == [Status.IDLE]
    assert any("no agent was flushed" in note for note in report.notes)


def test_nothing_to_tear_down_is_no_success() -> None:
    """Neither ids nor rids: an error, not ok, no packet."""
    with LocalFleet(workers=1) as fleet:
        report = fleet.client().teardown([None, ""], rids=[])
        assert fleet.router.accepted == fleet.agent.accepted == 0

    assert (report.ok, report.outcomes) == (False, ())
    assert "nothing to tear down" in str(report.error)


def test_an_empty_fleet_does_not_pass_for_swept() -> None:
    """No worker listed: the flush is told, and the report is not ok, unless that is allowed."""
    with LocalFleet(workers=0, teardown_s=0.0) as fleet:
        report = fleet.client().teardown("i-1", rids=["a"])
        allowed = fleet.client(allow_empty=True).teardown("i-1", rids=["a"])

    assert [one.ok for one in report.outcomes] == [True]
    assert (report.ok, allowed.ok) == (False, True)
    assert "nothing to abort at" in str(report.error)


def test_what_is_missing_is_told_before_any_packet() -> None:
    """Ids without an agent server, rids without a router: ConfigurationError, and the other half is not done either."""
    with LocalFleet(workers=1) as fleet:
        with pytest.raises(ConfigurationError, match="AGENT_SERVER_URL"):
            AbortClient(fleet.router_url).teardown("i-1", rids=["a"])
        with pytest.raises(ConfigurationError, match="router_url"):
            AbortClient(agent_server_url=fleet.agent_url).teardown("i-1", rids=["a"])
        with pytest.raises(ConfigurationError, match="router_url"):
            AbortClient(agent_server_url=fleet.agent_url).teardown("i-1", abort_all=True)
        assert fleet.router.accepted == fleet.agent.accepted == 0


def test_the_drop_in_tears_down_what_args_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """``teardown(args, ...)``: the ids and the router of ``args``; ``abort_all`` only by name."""
    with LocalFleet(workers=1, teardown_s=0.0) as fleet:
        monkeypatch.setenv("AGENT_SERVER_URL", str(fleet.agent_url))
        args = SimpleNamespace(
            sglang_router_ip="127.0.0.1",
            sglang_router_port=int(fleet.router_url.rpartition(":")[2]),
            session_server_instance_ids={"x": "i-1"},
        )
        worker = fleet.workers[0]
        worker.start_generation("a")
        worker.start_generation("b")
        flushed = teardown(args)
        assert (worker.requests, worker.running) == ((), {"a", "b"})
        swept = teardown(args, abort_all=True)
        assert not worker.running

    assert [one.target for one in flushed.outcomes] == ["i-1"]
    assert [one.status for one in swept.outcomes] == [Status.ACCEPTED, Status.IDLE]
    assert (flushed.ok, swept.ok) == (True, True)


def test_the_drop_in_does_what_it_can_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent server URL: the workers are swept, and the report is not ok; no router: the agents are flushed."""
    with LocalFleet(workers=1, teardown_s=0.0) as fleet:
        ids = {"session_server_instance_id": "i-1"}
        monkeypatch.setenv("ABORT_SYNC_ROUTER_URL", fleet.router_url)
        swept = teardown(ids, rids=["a"])
        monkeypatch.delenv("ABORT_SYNC_ROUTER_URL")
        monkeypatch.setenv("AGENT_SERVER_URL", str(fleet.agent_url))
        flushed = teardown(ids, rids=["a"])

    assert ([one.status for one in swept.outcomes], swept.ok) == ([Status.IDLE], False)
    assert "AGENT_SERVER_URL" in str(swept.error)
    assert ([one.target for one in flushed.outcomes], flushed.ok) == (["i-1"], False)
    assert "ABORT_SYNC_ROUTER_URL" in str(flushed.error)


def test_keys_of_agents_and_workers_do_not_meet_in_a_teardown() -> None:
    """In one call, over one server that plays both, the flush carries the agent's key and the sweep the workers'."""
    zero = json_answer({"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]})
    routes = {"/flush": json_answer({"session_server_instance_id": "i", "cancelled": 0}), "/abort_request": answer(), "/v1/loads": zero}
    with Scripted(routes=routes) as server:
        client = AbortClient(worker_urls=server.url, agent_server_url=server.url, keys=Keys(worker="kw", worker_admin="ka", agent="kg"))
        assert client.teardown("i", rids=["a"]).ok

    assert {(one.target.partition("?")[0], *one.values("authorization")) for one in server.asked} == {
        ("/flush", "Bearer kg"),
        ("/abort_request", "Bearer ka"),
        ("/v1/loads", "Bearer kw"),
    }
    assert {json.loads(one.body)["rid"] for one in server.asked if one.target == "/abort_request"} == {"a"}


def test_what_a_teardown_must_leave_out_is_an_error_and_no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drop-in with half of the URLs: the error names what is missing, and no note says that the caller had not asked for it."""
    monkeypatch.delenv("ABORT_SYNC_ROUTER_URL", raising=False)
    monkeypatch.delenv("AGENT_SERVER_URL", raising=False)
    with LocalFleet(workers=1, teardown_s=0.0) as fleet:
        monkeypatch.setenv("AGENT_SERVER_URL", str(fleet.agent_url))
        half = teardown({"session_server_instance_id": "i-1"}, rids=["a"])
        monkeypatch.delenv("AGENT_SERVER_URL")
        other = teardown({"session_server_instance_id": "i-1", "rollout_external_engine_addrs": fleet.worker_urls}, rids=["a"])

    assert "no router URL" in str(half.error)
    assert "no agent server URL" in str(other.error)
    assert half.notes == other.notes == ()
