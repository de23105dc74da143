"""F4, F5: a client is a value, so it works in every kind of child process, and all that it gives back can be handed on."""

from __future__ import annotations

import pytest
from run_child import child, run

from abort_sync.testing import Behaviour, LocalFleet

# A fork in a process with threads is the point here, and Python 3.12 warns of it.
FORK = ("-W", "ignore:This process:DeprecationWarning")


def rids(fleet: LocalFleet, number: int = 0) -> list[str]:
    return [one.json["rid"] for one in fleet.workers[number].requests]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_client_made_before_the_child_works_in_it(fleet: LocalFleet, method: str) -> None:
    """A client made and used before a child was started serves the child, and its maker afterwards, each abort once."""
    seen = run("child_forks", method, fleet.worker_urls, *FORK)
    assert seen["code"] == 0
    for when in ("before", "child", "after"):
        assert seen[when]["ok"], seen
    for number in range(2):
        assert rids(fleet, number) == ["before", "child", "after"]


def test_a_fork_in_the_middle_of_another_threads_fan_out(fleet: LocalFleet) -> None:
    """A child forked while another thread waits for a worker can abort at all, and leaves that thread's connection alone."""
    fleet.workers[0].behave([Behaviour.hang()])
    with child("child_forks", "fork_in_the_middle", fleet.worker_urls, *FORK) as one:
        fleet.workers[0].wait_for(1)
        one.go()
        ended = one.end()
    seen = ended.seen
    assert (ended.code, ended.stderr, seen["code"]) == (0, "", 0), ended
    assert seen["child"]["ok"], seen
    assert seen["is_in_the_middle"], seen
    assert seen["other"]["statuses"] == ["UNKNOWN", "ACCEPTED"]
    assert "timed out" in seen["other"]["errors"][0]  # not "closed"
    assert rids(fleet) == ["other", "child"]


def test_forks_at_any_moment_of_fan_outs(fleet: LocalFleet) -> None:
    """Whatever three other threads are doing in their fan-outs when a child is forked, the child's own abort is delivered."""
    seen = run("child_forks", "forks_among_fan_outs", fleet.worker_urls, *FORK)
    assert seen == {"codes": [0] * 20, "ok": True}
    assert rids(fleet).count("child") == rids(fleet, 1).count("child") == 20


def test_a_child_that_leaves_a_call_by_an_exception_cuts_nothing(fleet: LocalFleet) -> None:
    """A fork inside `on_event`, left by SystemExit in the child: the parent's connections are not shut down."""
    fleet.workers[1].behave([Behaviour.hang()])
    with child("child_forks", "fork_inside_a_call", fleet.worker_urls, *FORK) as one:
        fleet.workers[1].wait_for(1)
        one.go()
        ended = one.end()
    assert (ended.code, ended.stderr, ended.seen["code"]) == (0, "", 7), ended
    assert ended.seen["statuses"] == ["ACCEPTED", "UNKNOWN"]
    assert "timed out" in ended.seen["errors"][1]


@pytest.mark.parametrize("case", ["executor_fork", "executor_spawn", "pool_fork", "pool_forkserver"])
def test_clients_go_into_a_process_pool_and_reports_and_errors_come_out(fleet: LocalFleet, case: str) -> None:
    """`ProcessPoolExecutor` and `multiprocessing.Pool` take a client and bring back a report, an error with its report, a misuse."""
    seen = run("child_forks", case, fleet.worker_urls, *FORK)
    assert seen["report"]["ok"], seen
    assert seen["incomplete"]["statuses"] == ["UNREACHABLE"]
    assert "UNREACHABLE" in seen["text"]
    assert "rid" in seen["misuse"]
    assert rids(fleet) == rids(fleet, 1) == ["pool"]
