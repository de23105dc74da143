"""F7: no more threads can be had."""

from __future__ import annotations

import pytest
from run_child import run

from abort_sync.testing import Behaviour, LocalFleet

FEW = 4


@pytest.mark.parametrize(("case", "could_start"), [("none", 0), ("few", FEW)])
def test_a_thread_limit_makes_it_slower_and_all_is_delivered(case: str, could_start: int) -> None:
    """Where `Thread.start` fails, at once or after a few, every abort is delivered once all the same."""
    with LocalFleet(workers=12, agent_server=False) as fleet:
        seen = run("child_limits", case, fleet.worker_urls)
        rids = [[one.json["rid"] for one in worker.requests] for worker in fleet.workers]
    assert (seen["could_start"], seen["can_start"]) == (could_start, could_start), seen
    assert seen["report"]["ok"], seen
    assert rids == [["limited"]] * 11 + [["before", "limited"]]


@pytest.mark.parametrize(("case", "could_start"), [("none_and_some_hang", 0), ("few_and_more_hang", FEW)])
def test_workers_that_hang_do_not_use_up_the_time_of_few_threads(case: str, could_start: int) -> None:
    """More workers hang than threads can be had: each attempt gets its share of the time, and the others are delivered."""
    hung = FEW + 1
    with LocalFleet(workers=hung + 3, agent_server=False) as fleet:
        for worker in fleet.workers[:hung]:
            worker.behave(Behaviour.hang())
        seen = run("child_limits", case, fleet.worker_urls)
    assert (seen["could_start"], seen["can_start"]) == (could_start, could_start), seen
    assert seen["report"]["statuses"] == ["UNKNOWN"] * hung + ["ACCEPTED"] * 3
    assert seen["report"]["elapsed_s"] < 6.0 + 5.0  # the deadline, and a slack for a machine that stalls
