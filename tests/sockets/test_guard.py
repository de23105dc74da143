"""The guard: a block that fails ends what it started, and its exception goes on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from scripted import Scripted, answer, closed_port, hang

from abort_sync import AbortClient, AbortIncompleteError, ConfigurationError, Limits, Report, Status, new_rid
from abort_sync import _guard as guard_room
from abort_sync.testing import LocalFleet


class Stop(BaseException):
    """Neither an Exception nor one of the interpreter's own."""


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), Stop()], ids=repr)
def test_any_exception_aborts_the_rids_and_goes_on_unchanged(error: BaseException) -> None:
    """Whatever ends the block, each rid is aborted on every worker, and the very same exception comes out."""
    with LocalFleet(workers=2) as fleet:
        for worker in fleet.workers:
            worker.start_generation("a")
            worker.start_generation("b")
        with pytest.raises(type(error)) as caught:
            with fleet.client().abort_on_exit("a", "b") as guard:
                raise error
        assert not any(worker.running for worker in fleet.workers)

    assert caught.value is error
    assert (error.__cause__, error.__context__) == (None, None)
    assert guard.report is not None
    assert guard.report.ok
    assert guard.report.operation == "abort_on_exit"
    assert [(one.rid, one.target) for one in guard.report.outcomes] == [(rid, url) for rid in "ab" for url in fleet.worker_urls]


def test_a_block_that_ends_well_sends_nothing() -> None:
    """The end of the block, ``return`` and ``break`` are good ends: no packet, no report."""

    def returns(client: AbortClient) -> Any:
        with client.abort_on_exit("a") as guard:
            return guard

    with LocalFleet(workers=1) as fleet:
        client = fleet.client()
        for _ in range(1):
            with client.abort_on_exit("a") as first:
                break
        with client.abort_on_exit("a") as second:
            pass
        guards = [first, second, returns(client)]
        assert fleet.router.accepted == fleet.workers[0].accepted == 0

    assert [guard.report for guard in guards] == [None] * 3


def test_an_exception_that_the_block_catches_itself_sends_nothing() -> None:
    """Only what leaves the block counts."""
    with LocalFleet(workers=1) as fleet:
        with fleet.client().abort_on_exit("a") as guard:
            try:
                raise ValueError
            except ValueError:
                pass
        assert (guard.report, fleet.router.accepted) == (None, 0)


def test_the_abort_is_sent_at_once_and_again_a_little_later() -> None:
    """Two aborts a worker, 0.2 s apart: one that comes before its generate is forgotten by the engine."""
    with LocalFleet(workers=1) as fleet:
        with pytest.raises(ValueError), fleet.client().abort_on_exit("a"):
            raise ValueError
        times = [one.at for one in fleet.workers[0].requests]

    assert len(times) == 2
    assert 0.2 <= times[1] - times[0] < 10.0


def test_a_generate_that_arrives_after_the_first_abort_is_ended_by_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rid becomes live between the two aborts, and is not left running."""
    waits: list[float] = []
    with LocalFleet(workers=1) as fleet:

        def begin(seconds: float) -> None:
            waits.append(seconds)
            assert len(fleet.workers[0].requests) == 1
            fleet.workers[0].start_generation("a")

        monkeypatch.setattr(guard_room, "time", SimpleNamespace(sleep=begin))
        with pytest.raises(ValueError), fleet.client().abort_on_exit("a"):
            raise ValueError
        assert not fleet.workers[0].running

    assert waits == [0.2]


def test_rids_can_be_added_inside_the_block() -> None:
    """``guard.add(rid)`` returns the rid, and it is aborted with the others; a bad one is refused."""
    rid = new_rid()
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].start_generation(rid)
        with pytest.raises(ZeroDivisionError):
            with fleet.client().abort_on_exit() as guard:
                assert guard.add(rid) == rid
                for bad in ("", " ", None, 7):
                    with pytest.raises(ConfigurationError):
                        guard.add(bad)  # type: ignore[arg-type]  # wrong on purpose
                1 / 0  # noqa: B018 -- the failure on its way
        assert not fleet.workers[0].running

    assert guard.report is not None
    assert [one.rid for one in guard.report.outcomes] == [rid]


def test_a_guard_without_rids_sends_nothing() -> None:
    """Nothing was started, so nothing is aborted, though the block failed."""
    with LocalFleet(workers=1) as fleet:
        with pytest.raises(ValueError), fleet.client().abort_on_exit() as guard:
            raise ValueError
        assert (guard.report, fleet.router.accepted) == (None, 0)


def test_bad_use_is_refused_when_the_guard_is_made() -> None:
    """A blank rid, or a client that knows no workers: ConfigurationError before the block begins."""
    with pytest.raises(ConfigurationError):
        AbortClient("http://h:1").abort_on_exit("")
    with pytest.raises(ConfigurationError, match="router_url"):
        AbortClient(agent_server_url="http://h:1").abort_on_exit("a")


def test_a_fleet_that_is_gone_never_hides_the_exception() -> None:
    """Router and workers dead: the exception comes out, and the report says what was not done."""
    client = AbortClient(f"127.0.0.1:{closed_port()}", limits=Limits(attempts=1))
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught, client.abort_on_exit("a") as guard:
        raise error

    assert caught.value is error
    assert guard.report is not None
    assert not guard.report.ok
    assert "connection refused" in str(guard.report.error)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[AbortClient]:
    """A client whose aborts raise, which they never should."""
    client = AbortClient("http://h:1")

    def raises(rids: Any) -> Report:
        raise RuntimeError("the abort's own")

    monkeypatch.setattr(client, "abort_requests", raises)
    yield client


def test_an_abort_that_raises_is_logged_and_never_hides_the_exception(broken: AbortClient, caplog: pytest.LogCaptureFixture) -> None:
    """The block's exception goes on; the other one is in the log, of the logger that was given."""
    for logger in (None, logging.getLogger("mine")):
        error = KeyError("block")
        with pytest.raises(KeyError) as caught, broken.abort_on_exit("a", logger=logger):
            raise error
        assert caught.value is error

    assert [one.name for one in caplog.records] == ["abort_sync", "mine"]
    assert all("the abort's own" in str(one.exc_info) for one in caplog.records)


@pytest.mark.parametrize(
    ("acts", "status"),
    [
        ([answer(), answer(400)], Status.ACCEPTED),
        ([answer(400), answer()], Status.ACCEPTED),
        ([answer(400), answer(401)], Status.REFUSED),
        ([answer(401), answer(400)], Status.REJECTED),
    ],
)
def test_of_two_aborts_the_better_one_counts(acts: list[Any], status: Status) -> None:
    """Accepted once is accepted; of two noes the later one stands."""
    with Scripted(*acts) as worker:
        with pytest.raises(ValueError), AbortClient(worker_urls=worker.url).abort_on_exit("a") as guard:
            raise ValueError

    assert guard.report is not None
    assert [one.status for one in guard.report.outcomes] == [status]
    assert guard.report.ok == (status is Status.ACCEPTED)
    if not guard.report.ok:
        with pytest.raises(AbortIncompleteError):
            guard.report.raise_if_incomplete()


def test_a_hung_worker_holds_the_exception_no_longer_than_the_clients_time() -> None:
    """The guard is finite: two calls of ``timeout_s``, and what lies between."""
    with Scripted(hang) as worker:
        client = AbortClient(worker_urls=worker.url, timeout_s=1.0)
        began = time.monotonic()
        with pytest.raises(ValueError), client.abort_on_exit("a"):
            raise ValueError
        took = time.monotonic() - began

    print(f"{took - 2.2:+.3f} s after the deadline")
    assert took < 8.0


def test_a_request_that_times_out_is_ended_by_the_guard() -> None:
    """The founding recipe: the client's time is over, the generation ends, the timeout goes on."""
    with LocalFleet(workers=2) as fleet, requests.Session() as session:
        session.trust_env = False
        rid = new_rid()
        body = {"rid": rid, "input_ids": [1], "sampling_params": {"max_new_tokens": 1_000_000}}
        with pytest.raises(requests.ReadTimeout):
            with fleet.client().abort_on_exit(rid) as guard:
                session.post(f"{fleet.router_url}/generate", json=body, timeout=(30.0, 0.5))
        for worker in fleet.workers:
            worker.wait_until(lambda one: not one.running, timeout_s=1.0)

    assert guard.report is not None
    assert guard.report.ok


def test_guards_of_many_threads_end_only_their_own() -> None:
    """One client, eight threads, every second one fails: those rids end, the others run on."""
    with LocalFleet(workers=1) as fleet:
        client, ends = fleet.client(), []
        rids = [new_rid(f"{n}-") for n in range(8)]
        for rid in rids:
            fleet.workers[0].start_generation(rid)
        together = threading.Barrier(8)

        def work(n: int) -> None:
            try:
                with client.abort_on_exit(rids[n]):
                    together.wait(30.0)
                    if n % 2:
                        raise ValueError(n)
            except ValueError as why:
                ends.append(why.args[0])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
        assert fleet.workers[0].running == set(rids[::2])

    assert sorted(ends) == [1, 3, 5, 7]


def test_nested_guards_each_end_their_own() -> None:
    """An inner block that fails and is caught ends only its own rids; the outer block's live on."""
    with LocalFleet(workers=1) as fleet:
        for rid in ("outer", "inner"):
            fleet.workers[0].start_generation(rid)
        client = fleet.client()
        with client.abort_on_exit("outer") as outer:
            with pytest.raises(ValueError), client.abort_on_exit("inner"):
                raise ValueError
        assert (outer.report, fleet.workers[0].running) == (None, {"outer"})
