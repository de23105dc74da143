"""Three workers given at the start: the ordinary case, end to end."""

from __future__ import annotations

import pytest
from router_stage import Stage

from abort_sync import Status, abort_sglang_request, is_aborted, new_rid

MODE = "plain"


def test_workers_are_those_that_the_router_was_given(stage: Stage) -> None:
    """`workers()` and `discover()` give each worker of the router once, learned from the router in its own dialect."""
    discovery = stage.client().discover()
    workers = discovery.workers

    assert [(view.url, view.dialect, view.workers) for view in discovery.routers] == [(stage.url, stage.program.dialect, 3)]
    assert stage.client().workers() == workers
    assert sorted(worker.url for worker in workers) == sorted(stage.by_url)
    assert {worker.via for worker in workers} == {"router"}
    assert {worker.is_healthy for worker in workers} == {True if stage.program.tells_details else None}
    assert {worker.kind for worker in workers} == {"regular" if stage.program.tells_details else None}


def test_one_abort_reaches_every_worker_exactly_once(stage: Stage) -> None:
    """An abort of one rid goes to every worker once, ends that rid everywhere and no other."""
    rid, other = new_rid(), new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)
        worker.start_generation(other)

    report = stage.client().abort_request(rid)

    assert report.ok, str(report)
    assert sorted(one.target for one in report.outcomes) == sorted(stage.by_url)
    assert {(one.rid, one.via, one.status, one.http_status) for one in report.outcomes} == {(rid, "router", Status.ACCEPTED, 200)}
    assert [len(one.attempts) for one in report.outcomes] == [1, 1, 1]
    for url in stage.by_url:
        assert stage.aborts(url, rid) == [{"rid": rid, "abort_all": False}]
    assert stage.running(rid) == set()
    assert stage.running(other) == set(stage.by_url)


def test_many_rids_are_reported_one_by_one_and_each_ends(stage: Stage) -> None:
    """With several rids there is one outcome per rid and worker, in the order of the rids."""
    rids = [new_rid() for _ in range(5)]
    generations = [stage.generate(rid) for rid in rids]
    for rid in rids:
        stage.wait_running(rid)

    report = stage.client().abort_requests(rids)

    assert report.ok, str(report)
    assert [one.rid for one in report.outcomes] == [rid for rid in rids for _ in stage.by_url]
    for generation in generations:
        assert is_aborted(generation.result(timeout=60.0).json())


def test_abort_all_ends_everything_on_every_worker(stage: Stage) -> None:
    """`abort_all` reaches each worker once and leaves nothing running."""
    for worker in stage.by_url.values():
        worker.start_generation()
        worker.start_generation()

    report = stage.client().abort_all()

    assert report.ok, str(report)
    for url, worker in stage.by_url.items():
        assert [body["abort_all"] for body in stage.aborts(url) if body["abort_all"]] == [True]
        assert worker.running == frozenset()


def test_a_generation_through_the_router_ends_and_its_worker_is_seen_idle(stage: Stage) -> None:
    """`abort_until_idle` ends a generation that runs behind the router, and says that every worker is idle."""
    rid = new_rid()
    generation = stage.generate(rid)
    stage.wait_running(rid)

    report = stage.client().abort_until_idle([rid], timeout_s=60.0)

    assert report.ok, str(report)
    assert {(one.target, one.status) for one in report.outcomes} == {(url, Status.IDLE) for url in stage.by_url}
    assert is_aborted(generation.result(timeout=60.0).json())


def test_the_drop_in_function_reaches_every_worker(stage: Stage) -> None:
    """`abort_sglang_request` with the router's URL aborts on each worker, whatever the router's own abort route does."""
    rid = new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)

    report = abort_sglang_request(f"{stage.url}/", rid)

    assert report.ok, str(report)
    assert stage.running(rid) == set()
    assert [len(stage.aborts(url, rid)) for url in stage.by_url] == [1, 1, 1]


def test_an_abort_sent_to_the_router_itself_is_no_substitute(stage: Stage) -> None:
    """The router's own answer to an abort says nothing: it reaches one worker or none."""
    rid = new_rid()

    answer = stage.send("POST", "/abort_request", {"rid": rid, "abort_all": False})

    assert answer.status_code == (200 if stage.program.passes_abort_on else 404)
    assert sum(len(stage.aborts(url, rid)) for url in stage.by_url) == (1 if stage.program.passes_abort_on else 0)


@pytest.mark.parametrize("number", [2, 3])
def test_wait_for_workers_returns_at_once_when_enough_are_listed(stage: Stage, number: int) -> None:
    """`wait_for_workers(n)` gives all workers as soon as at least n are listed."""
    workers = stage.client().wait_for_workers(number, timeout_s=60.0)

    assert {worker.url for worker in workers} == set(stage.by_url)
