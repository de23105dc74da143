"""F6, F10: threads and event loops that call the client."""

from __future__ import annotations

from run_child import run

from abort_sync.testing import LocalFleet


def rids(fleet: LocalFleet) -> list[list[str]]:
    return [[one.json["rid"] for one in worker.requests] for worker in fleet.workers]


def test_a_worker_thread_may_call(fleet: LocalFleet) -> None:
    """A thread that is not the main one, daemon or not, gets its aborts delivered."""
    assert run("child_callers", "worker_thread", fleet.worker_urls) == {"ok": [True, True]}
    assert rids(fleet) == [["threaded"] * 2] * 2


def test_a_running_event_loop_may_call(fleet: LocalFleet) -> None:
    """Inside a running event loop a call blocks and delivers, and so it does from the loop's executor."""
    assert run("child_callers", "event_loop", fleet.worker_urls) == {"ok": [True, True]}
    assert rids(fleet) == [["inside", "beside"]] * 2


def test_32_threads_share_one_client(fleet: LocalFleet) -> None:
    """Of 32 threads that use one client at once each gets the reports of its own calls, and each abort arrives once."""
    seen = run("child_callers", "shared", fleet.worker_urls)
    wanted = sorted(f"{number:02}-{turn}" for number in range(32) for turn in range(5))
    assert sorted(seen["found"]) == wanted
    for rid, report in seen["found"].items():
        assert report["ok"], report
        assert report["rids"] == [rid, rid]
    assert [sorted(one) for one in rids(fleet)] == [wanted, wanted]
    assert seen["left"] == []
