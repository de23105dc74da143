"""A router with control-plane keys: who may list the workers."""

from __future__ import annotations

import pytest
from router_programs import ADMIN_KEY, ROUTER_KEY, USER_KEY
from router_stage import Stage

from abort_sync import Keys, RouterError, new_rid

MODE = "control keys"


def test_an_admin_key_lists_and_the_abort_reaches_every_worker_once(stage: Stage) -> None:
    """With an admin's key as the router's key everything works, and no worker sees that key."""
    rid = new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)

    report = stage.client(keys=Keys(router=ADMIN_KEY)).abort_request(rid)

    assert report.ok, str(report)
    assert stage.running(rid) == set()
    for worker in stage.by_url.values():
        (request,) = [one for one in worker.requests if one.path == "/abort_request" and one.json["rid"] == rid]
        assert "authorization" not in request.headers


@pytest.mark.parametrize("key", [None, ROUTER_KEY])
def test_no_key_or_a_strange_one_is_refused_with_401(stage: Stage, key: str) -> None:
    """A listing refused with 401 is reported with that status; nothing is sent to a worker."""
    rid = new_rid()
    client = stage.client(keys=Keys(router=key))

    report = client.abort_request(rid)

    assert (report.ok, report.outcomes) == (False, ())
    assert "401" in str(report.error)
    with pytest.raises(RouterError, match="401"):
        client.workers()
    assert [stage.aborts(url, rid) for url in stage.by_url] == [[], [], []]


@pytest.mark.only(user_key_lists=False)
def test_a_users_key_is_refused_with_403(stage: Stage) -> None:
    """A key without the admin role is told apart from a wrong one by the router's 403."""
    client = stage.client(keys=Keys(router=USER_KEY))

    with pytest.raises(RouterError, match="403"):
        client.workers()
    report = client.abort_request(new_rid())
    assert (report.ok, report.outcomes) == (False, ())
    assert "403" in str(report.error)


@pytest.mark.only(user_key_lists=True)
def test_a_users_key_may_list_where_the_router_allows_it(stage: Stage) -> None:
    """smg lets a user's key list, and the abort works with it."""
    report = stage.client(keys=Keys(router=USER_KEY)).abort_request(new_rid())

    assert report.ok, str(report)
    assert {one.target for one in report.outcomes} == set(stage.by_url)
