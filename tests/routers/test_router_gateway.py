"""A gateway with an abort route of its own, which knows the key of its workers."""

from __future__ import annotations

from router_programs import ROUTER_KEY
from router_stage import Stage

from abort_sync import Keys, Status, new_rid

MODE = "gateway route"


def test_workers_that_refuse_our_key_are_aborted_by_the_gateway(stage: Stage) -> None:
    """Without the workers' key each abort is refused once, goes through the gateway once, and the report says so."""
    rid = new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)

    report = stage.client().abort_request(rid)

    assert report.ok, str(report)
    assert sorted(one.target for one in report.outcomes) == sorted(stage.by_url)
    assert [len(stage.aborts(url, rid)) for url in stage.by_url] == [2, 2, 2]
    assert stage.running(rid) == set()
    told = " ".join(report.notes)
    assert all(url in told for url in stage.by_url), told


def test_a_worker_that_takes_our_key_is_aborted_directly_and_once(stage: Stage) -> None:
    """Where going direct works, the gateway's route is not used."""
    rid = new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)

    report = stage.client(keys=Keys(router=ROUTER_KEY, worker=ROUTER_KEY)).abort_request(rid)

    assert report.ok, str(report)
    assert [len(stage.aborts(url, rid)) for url in stage.by_url] == [1, 1, 1]
    assert report.notes == ()


def test_idle_is_not_claimed_where_the_load_is_refused(stage: Stage) -> None:
    """The gateway has a route for the abort only: a worker whose load we may not read is aborted, and not called idle."""
    rid = new_rid()
    generation = stage.generate(rid)
    stage.wait_running(rid)

    report = stage.client().abort_until_idle([rid], timeout_s=60.0)

    assert generation.result(timeout=60.0).status_code == 200
    assert not report.ok
    assert {one.target for one in report.outcomes} == set(stage.by_url)
    assert Status.IDLE not in {one.status for one in report.outcomes}


def test_a_dead_worker_is_reported_beside_those_that_the_gateway_aborts(stage: Stage) -> None:
    """A worker that died is unreachable, the others are aborted through the gateway. (The last test: it kills.)"""
    rid = new_rid()
    dead = next(iter(stage.by_url))
    stage.by_url[dead].kill()

    report = stage.client().abort_request(rid)

    statuses = {one.target: one.status for one in report.outcomes}
    assert statuses == {**dict.fromkeys(stage.by_url, Status.ACCEPTED), dead: Status.UNREACHABLE}
