"""Workers added and removed while they generate: until-idle goes by the listing of each round and forgets nobody."""

from __future__ import annotations

import pytest
from router_stage import NEVER, Stage, in_thread, wait_until

from abort_sync import Status, new_rid

MODE = "changing"


@pytest.fixture
def two_listed(stage: Stage) -> Stage:
    """The stage with its first two workers listed and nothing else, whatever the test before left."""
    first, second, third = stage.by_url
    for url in (first, second):
        if url not in stage.listed():
            stage.add(url)
    if third in stage.listed() and stage.program.can_remove:
        stage.remove(third)
    return stage


@pytest.mark.only(can_remove=True)
def test_a_removed_worker_is_watched_until_it_is_idle(two_listed: Stage) -> None:
    """A worker that the router forgets while it generates is aborted further, and only idle when it is."""
    stage = two_listed
    kept, removed, _ = stage.by_url
    rid = new_rid()
    for url in (kept, removed):
        stage.by_url[url].start_generation(rid, ignore_first_aborts=NEVER)
    call = in_thread(stage.client().abort_until_idle, [rid], timeout_s=120.0)
    stage.by_url[removed].wait_until(lambda _: bool(stage.aborts(removed, rid)), timeout_s=60.0)

    stage.remove(removed)

    before = len(stage.aborts(removed, rid))
    wait_until(lambda: len(stage.aborts(removed, rid)) > before, "another abort for the removed worker")
    stage.by_url[kept].finish_generation(rid)
    before = len(stage.by_url[removed].requests)
    wait_until(lambda: len(stage.by_url[removed].requests) > before + 4, "the removed worker is still looked at")
    assert not call.done(), "idle cannot be said while the removed worker generates"
    stage.by_url[removed].finish_generation(rid)

    report = call.result(timeout=120.0)
    assert report.ok, str(report)
    assert {one.target: one.status for one in report.outcomes} == {kept: Status.IDLE, removed: Status.IDLE}


def test_an_added_worker_is_aborted_as_well(two_listed: Stage) -> None:
    """A worker that is listed only after the first round gets the abort, and belongs to the report."""
    stage = two_listed
    first, second, added = stage.by_url
    rid = new_rid()
    stage.by_url[first].start_generation(rid, ignore_first_aborts=NEVER)
    call = in_thread(stage.client().abort_until_idle, [rid], timeout_s=120.0)
    stage.by_url[first].wait_until(lambda _: bool(stage.aborts(first, rid)), timeout_s=60.0)
    assert stage.aborts(added, rid) == []

    stage.by_url[added].start_generation(rid)
    stage.add(added)

    stage.by_url[added].wait_until(lambda worker: rid not in worker.running, timeout_s=60.0)
    stage.by_url[first].finish_generation(rid)
    report = call.result(timeout=120.0)
    assert report.ok, str(report)
    assert {one.target: one.status for one in report.outcomes} == dict.fromkeys(stage.by_url, Status.IDLE)
