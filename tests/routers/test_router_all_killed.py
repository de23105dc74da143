"""Every worker dies: the report says so, and soon."""

from __future__ import annotations

import pytest
from router_stage import Stage

from abort_sync import Status, new_rid

MODE = "all killed"


@pytest.fixture(autouse=True)
def _all_dead(stage: Stage) -> None:
    for worker in stage.by_url.values():
        worker.kill()


def test_every_dead_worker_is_unreachable(stage: Stage) -> None:
    """With no worker alive each one is reported as unreachable by its URL."""
    client = stage.client()

    report = client.abort_request(new_rid())

    assert sorted(worker.url for worker in client.workers()) == sorted(stage.by_url)
    assert not report.ok
    assert {one.target: one.status for one in report.outcomes} == dict.fromkeys(stage.by_url, Status.UNREACHABLE)


def test_until_idle_never_calls_a_dead_worker_idle(stage: Stage) -> None:
    """A worker that cannot be asked is not idle: until-idle ends by its deadline without saying so."""
    report = stage.client().abort_until_idle([new_rid()], timeout_s=3.0)

    assert not report.ok
    assert {one.target for one in report.outcomes} == set(stage.by_url)
    assert Status.IDLE not in {one.status for one in report.outcomes}
    assert report.elapsed_s < 10.0
