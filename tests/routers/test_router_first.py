"""A router that was started before its workers: refused, then empty or a part, then all."""

from __future__ import annotations

from router_stage import Stage, in_thread

from abort_sync import new_rid

MODE = "router first"


def test_waiting_for_workers_lasts_until_they_are_registered(stage: Stage) -> None:
    """`wait_for_workers` sits out a router that refuses or lists too few, and gives all once they are there."""
    call = in_thread(stage.client().wait_for_workers, len(stage.by_url), timeout_s=90.0)
    for worker in stage.by_url.values():
        worker.behave(None)

    workers = call.result(timeout=120.0)

    assert sorted(worker.url for worker in workers) == sorted(stage.by_url)
    rid = new_rid()
    report = stage.client().abort_request(rid)
    assert report.ok, str(report)
    assert [len(stage.aborts(url, rid)) for url in stage.by_url] == [1, 1, 1]
