"""Router and worker on the IPv6 loopback."""

from __future__ import annotations

from router_stage import Stage

from abort_sync import Status, is_aborted, new_rid

MODE = "IPv6"


def test_one_abort_reaches_the_worker_exactly_once(stage: Stage) -> None:
    """A worker listed by an IPv6 address is called by it, brackets and all."""
    (url,) = stage.by_url
    rid = new_rid()
    stage.by_url[url].start_generation(rid)
    client = stage.client()

    report = client.abort_request(rid)

    assert [worker.url for worker in client.workers()] == [url]
    assert report.ok, str(report)
    assert [one.target for one in report.outcomes] == [url]
    assert stage.aborts(url, rid) == [{"rid": rid, "abort_all": False}]
    assert stage.running(rid) == set()


def test_a_generation_through_the_router_ends_and_the_worker_is_seen_idle(stage: Stage) -> None:
    """`abort_until_idle` works over IPv6 as well."""
    rid = new_rid()
    generation = stage.generate(rid)
    stage.wait_running(rid)

    report = stage.client().abort_until_idle([rid], timeout_s=60.0)

    assert report.ok, str(report)
    assert {one.status for one in report.outcomes} == {Status.IDLE}
    assert is_aborted(generation.result(timeout=60.0).json())
