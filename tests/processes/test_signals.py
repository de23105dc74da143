"""F2: signal handlers that call, and signals that end a call."""

from __future__ import annotations

import signal

import pytest
from run_child import child, run

from abort_sync.testing import Behaviour, LocalFleet


def rids(fleet: LocalFleet) -> list[list[str]]:
    return [[one.json["rid"] for one in worker.requests] for worker in fleet.workers]


def test_a_signal_handler_may_call(fleet: LocalFleet) -> None:
    """A handler that interrupts a main thread at rest gets its abort delivered."""
    assert run("child_signals", "idle", fleet.worker_urls) == {"ok": [True]}
    assert rids(fleet) == [["handler"], ["handler"]]


def test_a_handler_may_interrupt_a_fan_out_a_hundred_times(fleet: LocalFleet) -> None:
    """A hundred handlers abort in the middle of fan-outs of the main thread: every abort of both arrives once, no thread is left."""
    seen = run("child_signals", "hundred_fan_outs", fleet.worker_urls)
    assert seen["handled"] == [True] * 100
    assert all(seen["interrupted"])
    assert seen["threads"] == 1
    wanted = {f"handler-{n}" for n in range(100)} | {f"main-{n}" for n in range(len(seen["interrupted"]))}
    for got in rids(fleet):
        assert len(got) == len(wanted)
        assert set(got) == wanted


def test_an_exception_from_a_handler_comes_out_of_any_moment_of_a_call(fleet: LocalFleet) -> None:
    """A hundred calls over a hung worker are each left by an exception, wherever it hit: soon, and with no thread left."""
    fleet.workers[0].behave(Behaviour.hang())
    with child("child_signals", "hundred_exceptions", fleet.worker_urls) as one:
        ended = one.end()  # stderr may tell of one that hit a callback of the interpreter's own
    seen = ended.seen
    assert ended.code == 0, ended
    assert seen["longest_s"] < 10.0, seen
    assert seen["threads"] == 1
    assert seen["after"]["ok"], seen


def test_a_handler_may_interrupt_the_callers_own_submit(fleet: LocalFleet) -> None:
    """Handlers that interrupt `executor.submit` of the main thread, its lock held, come back in time, with all delivered."""
    seen = run("child_signals", "submits", fleet.worker_urls)
    assert seen["ok"], seen
    assert seen["found"], seen
    assert seen["longest_s"] < 10.0, seen  # of 20
    assert [len(set(got)) for got in rids(fleet)] == [len(got) for got in rids(fleet)] == [seen["handled"]] * 2


def test_a_call_needs_no_lock_that_the_interrupted_code_may_hold(fleet: LocalFleet) -> None:
    """While the calling thread itself holds the locks of `submit`, `Thread.start` or `join`, one or all, calls deliver in time."""
    seen = run("child_signals", "held_locks", fleet.worker_urls)
    assert seen.pop("threads") == 1
    assert {"submit-256", "start-256", "submit-1", "start-1", "after"} <= set(seen)
    for report in seen.values():
        assert report["ok"], report
        assert report["elapsed_s"] < 10.0, report  # of 20
    assert rids(fleet) == [list(seen)] * 2


def test_raise_in_the_handler_and_abort_in_finally(fleet: LocalFleet) -> None:
    """The README's recipe: SIGTERM raises, `finally:` aborts, the exit code stands."""
    with child("child_signals", "recipe", fleet.worker_urls) as one:
        ended = one.end()
    assert (ended.code, ended.stderr) == (3, ""), ended
    assert ended.seen["report"]["ok"], ended
    assert rids(fleet) == [["recipe"], ["recipe"]]


@pytest.mark.parametrize("case", ["interrupted", "terminated"])
def test_a_signal_ends_a_fan_out_over_hung_workers_at_once(case: str) -> None:
    """Ctrl-C, or SIGTERM turned into SystemExit: it surfaces within 1 s, no further POST begins, the process has ended within 2 s."""
    with LocalFleet(workers=6, agent_server=False) as fleet:
        for worker in fleet.workers:
            worker.behave(Behaviour.hang())
        with child("child_signals", case, fleet.worker_urls) as one:
            for worker in fleet.workers[:2]:
                worker.wait_for(1, timeout_s=30.0)
            sent_at = one.send(signal.SIGINT if case == "interrupted" else signal.SIGTERM)
            ended = one.end()
        assert [len(worker.requests) for worker in fleet.workers] == [1, 1, 0, 0, 0, 0]
    assert ended.seen["raised"] == f"<class '{'KeyboardInterrupt' if case == 'interrupted' else 'SystemExit'}'>"
    assert ended.seen["at"] - sent_at < 3.0  # the machine stalls; the limits of the attempts are 30 s and 60 s
    assert ended.at - sent_at < 6.0
    assert ended.code == (-signal.SIGINT if case == "interrupted" else 3)
