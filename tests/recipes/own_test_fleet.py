"""A test of your own script against servers on loopback: the fixtures come with the package's pytest plugin."""

from __future__ import annotations

import pytest

from abort_sync import AbortClient, Status
from abort_sync.testing import Behaviour, LocalFleet


@pytest.mark.local_fleet(workers=3)
def test_a_dead_and_a_hung_worker_do_not_keep_the_third_from_stopping(local_fleet: LocalFleet, abort_client: AbortClient) -> None:
    """The healthy worker stops, and the report names the other two."""
    local_fleet.workers[0].start_generation("rid-1")
    local_fleet.workers[1].behave(Behaviour.hang())
    local_fleet.workers[2].kill()

    report = abort_client.abort_request("rid-1", timeout_s=2.0)

    assert [one.status for one in report.outcomes] == [Status.ACCEPTED, Status.UNKNOWN, Status.UNREACHABLE]
    assert not local_fleet.workers[0].running
