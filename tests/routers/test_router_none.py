"""A router without workers."""

from __future__ import annotations

import pytest
from router_stage import Stage

from abort_sync import AbortSyncError, new_rid

MODE = "none"


def test_no_worker_is_not_a_success(stage: Stage) -> None:
    """An empty listing is a report that there was nothing to abort at."""
    client = stage.client()

    report = client.abort_request(new_rid())

    assert client.workers() == ()
    assert (report.ok, report.outcomes) == (False, ())
    assert "nothing to abort at" in str(report.error)


def test_no_worker_is_a_success_if_the_caller_says_so(stage: Stage) -> None:
    """With `allow_empty=True` an empty listing is fine."""
    report = stage.client(allow_empty=True).abort_request(new_rid())

    assert report.ok, str(report)
    assert report.outcomes == ()


def test_waiting_for_a_worker_ends_at_the_deadline(stage: Stage) -> None:
    """`wait_for_workers` raises when there are still too few at the end, and says how many there are."""
    with pytest.raises(AbortSyncError, match="^0 of 1 workers"):
        stage.client().wait_for_workers(1, timeout_s=1.0)
