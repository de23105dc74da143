"""One worker of several dies: the others are served, the dead one is reported."""

from __future__ import annotations

from router_stage import NEVER, Stage, in_thread, wait_until

from abort_sync import Status, new_rid

MODE = "one killed"


def kill_one(stage: Stage) -> str:
    """Kill the first worker that lives and return its URL."""
    url = next(url for url in stage.by_url if url in stage.alive)
    stage.by_url[url].kill()
    return url


def test_a_dead_worker_is_unreachable_and_the_others_are_aborted(stage: Stage) -> None:
    """The live workers accept at once, each once; a dead one that is still listed is a failure that names it."""
    rid = new_rid()
    dead = kill_one(stage)
    for url in stage.alive:
        stage.by_url[url].start_generation(rid)

    client = stage.client()
    report = client.abort_request(rid)

    assert stage.running(rid) == set()
    assert {one.target for one in report.outcomes if one.status is Status.ACCEPTED} == stage.alive
    assert [len(stage.aborts(url, rid)) for url in stage.alive] == [1] * len(stage.alive)
    assert dead in stage.listed(), "no router drops a worker that it sent nothing"
    failed = {one.target: one for one in report.failures}
    assert not report.ok
    assert failed[dead].status is Status.UNREACHABLE
    assert failed[dead].http_status is None
    assert dead in str(report)


def test_health_is_told_as_listed_and_never_filters(stage: Stage) -> None:
    """A dead worker stays among the workers, marked as the router marks it."""
    dead = kill_one(stage)
    client = stage.client()
    if stage.program.tells_details:
        wait_until(
            lambda: any(one["url"] == dead and one["is_healthy"] is False for one in stage.listing() or ()),
            f"the router marks {dead} as not healthy",
        )

    workers = {worker.url: worker.is_healthy for worker in client.workers()}

    assert set(workers) == stage.listed()
    assert workers[dead] is (False if stage.program.tells_details else None)


def test_rids_of_a_killed_worker_are_followed_to_where_the_router_sends_them(stage: Stage) -> None:
    """When a worker dies with requests, a router may send them to another one: until-idle ends them there as well."""
    rids = [new_rid() for _ in range(6)]
    generations = [stage.generate(rid) for rid in rids]
    for rid in rids:
        stage.wait_running(rid)
    busy = [url for url in stage.by_url if set(rids) & stage.by_url[url].running]
    assert len(busy) >= 2, "the router spreads them over the workers that live"
    killed, *left = busy
    # Keeps the call going until the router has tried all that it tries, however long it waits in between.
    held = stage.by_url[left[0]].start_generation(ignore_first_aborts=NEVER)
    stage.by_url[killed].kill()

    call = in_thread(stage.client().abort_until_idle, rids, timeout_s=120.0)
    for generation in generations:
        generation.result(timeout=60.0)
    assert all(stage.running(rid) == set() for rid in rids)
    assert (killed in stage.listed()) is stage.program.keeps_the_dead
    stage.by_url[left[0]].finish_generation(held)

    report = call.result(timeout=150.0)
    statuses = {one.target: one.status for one in report.outcomes}
    assert {statuses[url] for url in left} == {Status.IDLE}, str(report)
    assert statuses.get(killed) is not Status.IDLE
    assert report.ok is (set(statuses) <= stage.alive), "only dead workers that the router has dropped do not matter"
