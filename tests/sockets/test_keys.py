"""Each key goes where it belongs and nowhere else."""

from __future__ import annotations

import traceback
from typing import Any, Callable

import pytest
from scripted import Scripted, answer, json_answer

from abort_sync import AbortClient, ConfigurationError, Keys, Status, abort, teardown
from abort_sync.testing import Behaviour, LocalFleet

NAMES = ("router", "worker", "worker_admin", "agent")
SECRETS = {name: f"Zq{n}x7Vw{n}Kp{n} \"'<&%/\\  {n}Jt4" for n, name in enumerate(NAMES)}
"""As nasty as a header allows: quotes, a backslash, a per cent sign, two blanks in a row."""

CALLS: dict[str, Callable[[AbortClient], Any]] = {
    "workers": lambda client: client.workers(),
    "loads": lambda client: client.loads(),
    "abort_request": lambda client: client.abort_request("rid-1"),
    "abort_requests": lambda client: client.abort_requests(["rid-1", "rid-2"]),
    "abort_all": lambda client: client.abort_all(),
    "abort_until_idle": lambda client: client.abort_until_idle(["rid-1"], poll_s=0.05),
    "abort_all_until_idle": lambda client: client.abort_all_until_idle(poll_s=0.05),
    "flush": lambda client: client.flush(["i-1"]),
    "teardown": lambda client: client.teardown(["i-1"], rids=["rid-1"], until_idle=False),
}
# Which key each route of each server gets: the first of these that was given.
BELONGS = {
    ("router", "/workers"): ("router",),
    ("router", "/list_workers"): ("router",),
    ("worker", "/abort_request"): ("worker_admin", "worker"),
    ("worker", "/v1/loads"): ("worker",),
    ("worker", "/get_load"): ("worker",),
    ("agent", "/flush"): ("agent",),
}


@pytest.mark.parametrize("given", [NAMES, ("router", "worker", "agent"), *((name,) for name in NAMES), ()], ids="+".join)
def test_each_request_to_each_server_carries_exactly_its_key(given: tuple[str, ...]) -> None:
    """By route and server: the key that belongs there if it was given, else no header at all, and never another one."""
    carried: set[tuple[str, str, str | None]] = set()
    with LocalFleet(workers=2, dialect="list_workers", load_routes=["/get_load"], teardown_s=0.0) as fleet:
        keys = Keys(**{name: SECRETS[name] for name in given})
        for call in CALLS.values():
            call(fleet.client(keys=keys))
        servers = [("router", fleet.router), ("agent", fleet.agent), *(("worker", worker) for worker in fleet.workers)]
        for kind, server in servers:
            for request in server.requests:
                carried.add((kind, request.path, request.headers.get("authorization")))
                rest = [value for name, value in request.headers.items() if name != "authorization"]
                told = " ".join([request.path, request.query, request.body.decode(), *rest])
                assert not any(secret in told for secret in SECRETS.values())

    first = {where: next((name for name in names if name in given), None) for where, names in BELONGS.items()}
    assert carried == {(*where, f"Bearer {SECRETS[name]}" if name else None) for where, name in first.items()}


def test_a_server_given_as_router_gets_the_routers_key_for_its_listing_only() -> None:
    """Where the URL turns out to be a server itself, its abort and its load carry the worker's keys."""
    routes = {"/abort_request": answer(), "/v1/loads": json_answer({"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]})}
    with Scripted(answer(404), routes=routes) as server:
        client = AbortClient(server.url, keys=Keys(**SECRETS), timeout_s=30.0)
        assert [one.via for one in client.abort_request("rid-1").outcomes] == ["direct"]
        assert client.loads()[server.url] is not None

    assert {(one.target.partition("?")[0], *one.values("authorization")) for one in server.asked} == {
        ("/workers", f"Bearer {SECRETS['router']}"),
        ("/list_workers", f"Bearer {SECRETS['router']}"),
        ("/abort_request", f"Bearer {SECRETS['worker_admin']}"),
        ("/v1/loads", f"Bearer {SECRETS['worker']}"),
    }


def test_the_drop_ins_read_their_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``abort(args)`` and ``teardown(args)`` send each variable's key where it belongs; a newline at its end is trimmed."""
    with LocalFleet(workers=1, router_key="kr", worker_key="kw", worker_admin_key="ka", agent_secret="kg", teardown_s=0.0) as fleet:
        for name, value in {
            "ABORT_SYNC_ROUTER_URL": fleet.router_url,
            "ABORT_SYNC_ROUTER_KEY": "kr\n",
            "ABORT_SYNC_WORKER_KEY": " kw\r\n",
            "ABORT_SYNC_WORKER_ADMIN_KEY": "ka\n",
            "AGENT_SERVER_URL": str(fleet.agent_url),
            "HARBOR_ADMIN_SECRET": "kg\n",
        }.items():
            monkeypatch.setenv(name, value)
        args = {"session_server_instance_id": "i-1"}
        assert abort(args).ok
        assert teardown(args, rids=["rid-1"]).ok


@pytest.mark.parametrize("blank", [None, "", " ", "\t\n", "\r\n"])
def test_a_blank_key_is_no_header(blank: str | None) -> None:
    """Unset or blank: no ``Authorization`` at all, never ``Bearer None`` or ``Bearer ``."""
    with LocalFleet(workers=1, teardown_s=0.0) as fleet:
        client = fleet.client(keys=Keys(router=blank, worker=blank, worker_admin=blank, agent=blank))
        for call in CALLS.values():
            call(client)
        requests = [one for server in (fleet.router, fleet.agent, *fleet.workers) for one in server.requests]

    assert requests
    assert not any("authorization" in one.headers for one in requests)


def test_a_blank_admin_key_leaves_the_workers_key_in_its_place() -> None:
    """An empty variable for the admin key is no admin key: the abort carries the worker's."""
    with LocalFleet(workers=1, worker_key="kw") as fleet:
        assert fleet.client(keys=Keys(worker="kw", worker_admin=" \n")).abort_request("rid-1").ok


@pytest.mark.parametrize(
    "bad", ["sk-s3cret\nX-Evil: 1", "sk-s3cret\x00", "sk-s3cret\x7fx", "sk-s3cr\u00e9t", "sk-s3cret\u2028x", 7, b"sk-s3cret"]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(name: str, bad: Any) -> None:
    """A control or non-ASCII character inside, or no string: refused when made, and the text shows nothing of it."""
    with pytest.raises(ConfigurationError) as caught:
        Keys(**{name: bad})
    shown = "".join(traceback.format_exception(type(caught.value), caught.value, None)) + repr(caught.value)
    assert f"keys.{name}" in shown
    assert "s3cr" not in shown


def test_a_key_goes_before_credentials_in_a_url() -> None:
    """Where both are given the key is sent, and the credentials not at all."""
    with Scripted(answer()) as worker:
        AbortClient(worker_urls=worker.url.replace("//", "//u:p@"), keys=Keys(worker="kw"), timeout_s=20.0).abort_request("rid-1")

    assert [one.values("authorization") for one in worker.asked] == [["Bearer kw"]]


def test_a_wrong_key_is_told_by_the_name_of_its_setting() -> None:
    """401: one attempt, REFUSED, and the error names the setting and the variable to look at; the others are served."""
    with LocalFleet(workers=2, worker_key="kw", agent_secret="right", teardown_s=0.0) as fleet:
        client = fleet.client(keys=Keys(worker="kw", agent="wr0ng"))
        report = client.teardown(["i-1"], rids=["rid-1"])
        fleet.workers[0].behave(Behaviour.answer(403))
        refused = client.abort_request("rid-1")

    flush, *swept = report.outcomes
    assert (flush.status, len(flush.attempts), flush.http_status) == (Status.REFUSED, 1, 401)
    assert "HARBOR_ADMIN_SECRET" in str(flush.error)
    assert [one.status for one in swept] == [Status.IDLE, Status.IDLE]
    assert "wr0ng" not in str(report)
    assert [one.status for one in refused.outcomes] == [Status.REFUSED, Status.ACCEPTED]
    assert "ABORT_SYNC_WORKER_ADMIN_KEY" in str(refused.outcomes[0].error)
