"""Data-parallel servers: the router lists `url@rank`, and one server is one worker."""

from __future__ import annotations

from router_stage import Stage

from abort_sync import Status, is_aborted, new_rid

MODE = "data-parallel"


def test_ranks_of_one_server_are_one_worker(stage: Stage) -> None:
    """`workers()` gives each server once, by the URL that can be called."""
    assert {url.rpartition("@")[2] for url in stage.listed()} == {"0", "1"}, "the router lists ranks"

    workers = stage.client().workers()

    assert sorted(worker.url for worker in workers) == sorted(stage.by_url)


def test_one_abort_reaches_every_server_exactly_once(stage: Stage) -> None:
    """An abort goes to each server once, not once per rank, and carries no header made of the URL."""
    rid = new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)

    report = stage.client().abort_request(rid)

    assert report.ok, str(report)
    assert sorted(one.target for one in report.outcomes) == sorted(stage.by_url)
    assert stage.running(rid) == set()
    for url, worker in stage.by_url.items():
        (request,) = [one for one in worker.requests if one.path == "/abort_request" and one.json["rid"] == rid]
        assert "authorization" not in request.headers
        assert request.headers["host"] == url[len("http://") :]


def test_a_generation_on_a_rank_ends_and_the_servers_are_seen_idle(stage: Stage) -> None:
    """`abort_until_idle` ends what the router sent to one rank, and reports each server once."""
    rid = new_rid()
    generation = stage.generate(rid)
    stage.wait_running(rid)

    report = stage.client().abort_until_idle([rid], timeout_s=60.0)

    assert report.ok, str(report)
    assert sorted((one.target, one.status) for one in report.outcomes) == sorted((url, Status.IDLE) for url in stage.by_url)
    assert is_aborted(generation.result(timeout=60.0).json())
