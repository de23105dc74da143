"""A router with an API key, which its workers share."""

from __future__ import annotations

import pytest
from router_programs import ROUTER_KEY
from router_stage import Stage

from abort_sync import Keys, RouterError, Status, new_rid

MODE = "key"
WRONG = "sk-wrong-test"


def test_both_keys_go_where_they_belong(stage: Stage) -> None:
    """With the router's key for the listing and the workers' key for the abort, each worker is reached once."""
    rid = new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)
    client = stage.client()

    report = client.abort_request(rid)

    assert {worker.url for worker in client.workers()} == set(stage.by_url)
    assert report.ok, str(report)
    assert stage.running(rid) == set()
    assert [len(stage.aborts(url, rid)) for url in stage.by_url] == [1, 1, 1]
    assert ROUTER_KEY not in f"{report} {report.to_dict()} {report!r}"


@pytest.mark.only(guards_listing=True)
@pytest.mark.parametrize("key", [None, WRONG])
def test_a_refused_listing_is_reported_and_nothing_is_aborted(stage: Stage, key: str) -> None:
    """A router that refuses to list is named with its answer; no worker is aborted by luck."""
    rid = new_rid()
    client = stage.client(keys=Keys(router=key, worker=ROUTER_KEY))

    report = client.abort_request(rid)

    assert not report.ok
    assert report.outcomes == ()
    assert stage.url in str(report.error)
    assert "401" in str(report.error)
    assert WRONG not in str(report)
    with pytest.raises(RouterError, match="401"):
        client.workers()
    assert [stage.aborts(url, rid) for url in stage.by_url] == [[], [], []]


@pytest.mark.only(guards_listing=False)
def test_a_router_that_lists_for_anyone_needs_no_key_of_ours(stage: Stage) -> None:
    """Some routers do not guard their listing, the key notwithstanding: it is used without one."""
    assert {worker.url for worker in stage.client(keys=Keys()).workers()} == set(stage.by_url)


def test_workers_that_want_a_key_refuse_and_are_reported(stage: Stage) -> None:
    """Without the workers' key each worker refuses, once, and the generations are known to live on."""
    rid = new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)

    report = stage.client(keys=Keys(router=ROUTER_KEY)).abort_request(rid)

    assert not report.ok
    assert sorted(one.target for one in report.failures) == sorted(stage.by_url)
    assert {(one.status, one.http_status, len(one.attempts)) for one in report.outcomes} == {(Status.REFUSED, 401, 1)}
    assert stage.running(rid) == set(stage.by_url)
