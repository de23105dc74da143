"""A worker whose key only its router knows is aborted through the router's own route."""

from __future__ import annotations

import json

import pytest

from abort_sync import AbortClient, Keys, Status
from abort_sync.testing import Behaviour, LocalFleet

ROUTE = "/v1/rl/workers/{}/engine/abort_request"


def ids_of(fleet: LocalFleet) -> list[str]:
    """Give each worker an id in the listing, as smg does, and return them."""
    ids = [f"01a2291e-{number}" for number, _ in enumerate(fleet.worker_urls)]
    entries = [{"id": name, "url": url} for name, url in zip(ids, fleet.worker_urls)]
    fleet.router.behave(Behaviour.answer(200, body=json.dumps({"workers": entries})), path="/workers")
    return ids


def says(status: int) -> Behaviour:
    """Answer as the route does when the worker answered so."""
    return Behaviour.answer(200, body=json.dumps({"worker_id": "x", "status": status, "body": ""}))


def test_refused_worker_is_reached_through_its_router() -> None:
    """Workers that refuse our key are aborted through the router, with the router's key, and the report says which way was taken."""
    with LocalFleet(workers=2, worker_key="only-the-router-knows") as fleet:
        for name in ids_of(fleet):
            fleet.router.behave(says(200), path=ROUTE.format(name))
        report = AbortClient(fleet.router_url, keys=Keys(router="router-key")).abort_request("rid-1")
        assert report.ok, report
        assert len([note for note in report.notes if "through its router's own route" in note]) == 2
        asked = [one for one in fleet.router.requests if one.method == "POST"]
        assert sorted(one.path for one in asked) == [ROUTE.format(name) for name in ids_of(fleet)]
        assert all(one.json == {"rid": "rid-1", "abort_all": False} for one in asked)
        assert {one.headers["authorization"] for one in asked} == {"Bearer router-key"}


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [(None, Status.REFUSED), (says(401), Status.REFUSED), (Behaviour.answer(502), Status.REJECTED), (Behaviour.html(), Status.UNKNOWN)],
)
def test_what_the_router_could_not_do_is_not_claimed(behaviour: Behaviour | None, status: Status) -> None:
    """A router without the route, one whose key is refused too, and one that fails leave a worker that is not ok."""
    with LocalFleet(workers=1, worker_key="only-the-router-knows") as fleet:
        name = ids_of(fleet)[0]
        if behaviour is not None:
            fleet.router.behave(behaviour, path=ROUTE.format(name))
        report = AbortClient(fleet.router_url).abort_request("rid-1")
        assert [one.status for one in report.outcomes] == [status], report
        assert not report.notes


def test_a_worker_that_accepts_is_not_aborted_twice() -> None:
    """Where going direct works the router's route is not used."""
    with LocalFleet(workers=1) as fleet:
        fleet.router.behave(says(200), path=ROUTE.format(ids_of(fleet)[0]))
        assert AbortClient(fleet.router_url).abort_request("rid-1").ok
        assert [one.method for one in fleet.router.requests] == ["GET"]
