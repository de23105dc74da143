"""Learning the workers from a router's answers, in each dialect, and what becomes of each entry."""

from __future__ import annotations

import json
from typing import Any

import pytest
from call_stage import ScriptedTransport, stage
from fake_steps import Steps

from abort_sync import Discovery, RouterError, RouterRefusedError, RouterView, Worker
from abort_sync import _listing as listing_room
from abort_sync._answer import Answer, Order
from abort_sync._listing import Listing, learn

ROUTER = "http://10.0.0.9:30000"
NO_ROUTE = Answer(404)


def listed(*entries: Any) -> Answer:
    return Answer(200, json.dumps({"workers": entries}).encode())


def ask(script: dict[str, Any], router: str = ROUTER, **client: Any) -> tuple[Listing, ScriptedTransport]:
    """Learn from a router that answers by path: one answer, or several in turn."""
    answers = {path: list(given) if isinstance(given, list) else [given] * 9 for path, given in script.items()}

    def answer(order: Order) -> Answer:
        path = "/" + order.url.rpartition("/")[2]
        return answers[path].pop(0) if path in answers else NO_ROUTE

    call, transport = stage(answer, router_url=router, **client)
    listing = Listing(call.settings.routers[0])
    assert Steps().run(learn(call, listing, call.deadline))
    return listing, transport


def urls(*entries: Any, router: str = ROUTER, **client: Any) -> list[str]:
    return [one.url for one in ask({"/workers": listed(*entries)}, router, **client)[0].workers]


@pytest.mark.parametrize(
    ("script", "asked", "dialect", "found"),
    [
        ({"/workers": listed({"url": "http://a:1"})}, ["/workers"], "/workers", ["http://a:1"]),
        ({"/workers": Answer(200, b'[{"url": "http://a:1"}]')}, ["/workers"], "/workers", ["http://a:1"]),
        ({"/workers": listed()}, ["/workers"], "/workers", []),
        ({"/workers": Answer(200, b"[]")}, ["/workers"], "/workers", []),
        ({"/list_workers": Answer(200, b'{"urls": ["http://a:1"]}')}, ["/workers", "/list_workers"], "/list_workers", ["http://a:1"]),
        (
            {"/workers": Answer(405), "/list_workers": Answer(200, b'["a:1"]')},
            ["/workers", "/list_workers"],
            "/list_workers",
            ["http://a:1"],
        ),
        ({"/workers": Answer(500), "/list_workers": Answer(200, b'{"urls": []}')}, ["/workers", "/list_workers"], "/list_workers", []),
        ({}, ["/workers", "/list_workers"], "server", [ROUTER]),
        ({"/list_workers": Answer(405)}, ["/workers", "/list_workers"], "server", [ROUTER]),
    ],
)
def test_each_dialect(script: dict[str, Any], asked: list[str], dialect: str, found: list[str]) -> None:
    """A2: /workers, then /list_workers; only when both say "no such route" is the URL a server itself."""
    listing, transport = ask(script)
    assert transport.urls == [ROUTER + path for path in asked]
    assert (listing.error, listing.dialect, [one.url for one in listing.workers]) == (None, dialect, found)
    assert [one.via for one in listing.workers] == ["direct" if dialect == "server" else "router"] * len(found)


@pytest.mark.parametrize(
    ("script", "words", "is_refused", "is_reachable", "asked"),
    [
        ({"/workers": Answer(401)}, ["HTTP 401", "keys.router (ABORT_SYNC_ROUTER_KEY)"], True, True, 1),
        ({"/workers": Answer(403, b"role")}, ["HTTP 403", "keys.router", "role"], True, True, 1),
        ({"/list_workers": Answer(401)}, ["HTTP 401"], True, True, 2),
        ({"/workers": Answer(500)}, ["HTTP 500"], False, False, 6),
        ({"/workers": Answer(500), "/list_workers": Answer(503)}, ["HTTP 503"], False, False, 6),
        ({"/workers": Answer(503)}, ["HTTP 503"], False, False, 3),
        ({"/workers": Answer(400)}, ["HTTP 400"], False, True, 1),
        ({"/workers": Answer(307, headers=(("location", "http://x/"),))}, ["redirected to http://x/"], False, True, 1),
        ({"/workers": Answer(206)}, ["HTTP 206"], False, False, 1),
        ({"/workers": Answer(200, b"<html>", (("content-type", "text/html"),))}, ["web page"], False, False, 1),
        ({"/workers": Answer(error="timed out")}, ["timed out"], False, False, 3),
        ({"/workers": Answer(error="connection refused", is_sent=False, is_refused=True)}, ["refused"], False, False, 3),
    ],
)
def test_trouble_is_no_empty_list(script: dict[str, Any], words: list[str], is_refused: bool, is_reachable: bool, asked: int) -> None:
    """A4: a refusal or a failure is an error that names the router and what it wants; nothing is taken for a server by luck."""
    listing, transport = ask(script)
    assert listing.error is not None
    for word in (ROUTER, *words):
        assert word in listing.error
    assert (listing.workers, listing.dialect) == ((), None)
    assert (listing.is_refused, listing.is_reachable, len(transport.orders)) == (is_refused, is_reachable, asked)


def test_a_router_that_comes_back_is_asked_again() -> None:
    """A 503 or a lost answer is followed by another attempt, whose listing stands."""
    listing, transport = ask({"/workers": [Answer(503), Answer(error="timed out"), listed("http://a:1")]})
    assert (listing.error, [one.url for one in listing.workers], len(transport.orders)) == (None, ["http://a:1"], 3)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{}", b'{"workers": null}', b'{"workers": {}}', b'{"workers": 3}', b"7", b'"x"', b"[1, 2]",
     b"\xff", b'{"workers": [{"url": ', b"[" * 99999],
    ids=lambda body: repr(body[:22]),
)  # fmt: skip
def test_an_answer_that_is_no_listing_is_one_clear_error(body: bytes) -> None:
    """A6: what is no listing is an error that names the route and asks the right question, never a bare KeyError."""
    listing, _ = ask({"/workers": Answer(200, body)})
    assert listing.workers == ()
    assert listing.error is not None
    assert "GET /workers is no listing" in listing.error
    assert "is this the router's URL?" in listing.error


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({}, "its url is missing (dict)"),
        ({"url": None}, "missing"),
        ({"url": ""}, "missing"),
        ({"url": 7}, "no string"),
        (7, "no string (int)"),
        (None, "missing"),
        ([], "missing"),
        ("", "missing"),
        ({"url": "http://a b:1"}, "holds a space"),
        ({"url": "http://a:99999"}, "cannot be used"),
        ({"url": "ftp://a:1"}, "only http and https"),
        ({"url": "http://0.0.0.3:1"}, "names no machine"),
        ({"url": "http://a/" + "x" * 9000}, "characters long"),
        ({"url": "grpc://a\x00:1"}, "not usable"),
        ({"url": "grpc://a:1", "labels": {"rl.control_url": "ftp://b"}}, "only http and https"),
    ],
    ids=str,
)
def test_an_entry_that_cannot_be_used_is_noted_and_the_rest_is_used(entry: Any, why: str) -> None:
    """A6: the usable entries are used; each of the others is a note that says why, of bounded length."""
    listing, _ = ask({"/workers": listed({"url": "http://a:1"}, entry, "http://b:2")})
    assert [one.url for one in listing.workers] == ["http://a:1", "http://b:2"]
    assert listing.error is None
    assert len(listing.notes) == 1
    assert listing.notes[0].startswith(f"{ROUTER} lists an entry that cannot be used: ")
    assert why in listing.notes[0]
    assert len(listing.notes[0]) <= 400


def test_notes_are_bounded() -> None:
    """A hostile listing of thousands of bad entries makes twenty notes and a count; the usable entry is used."""
    listing, _ = ask({"/workers": listed("http://a:1", *([{"url": "ftp://x"}] * 1_000))})
    assert len(listing.notes) == 21
    assert listing.notes[-1] == f"and 980 more notes about the listing of {ROUTER}"
    assert [one.url for one in listing.workers] == ["http://a:1"]


def test_a_listing_beyond_all_measure_is_cut_and_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a listing with more entries than are read (ten thousand) the first ones are used, and its error says so."""
    assert listing_room.MAX_WORKERS == 10_000
    monkeypatch.setattr(listing_room, "MAX_WORKERS", 3)
    listing, _ = ask({"/workers": listed("a:1", "b:1", "c:1", "d:1")})
    assert [one.url for one in listing.workers] == ["http://a:1", "http://b:1", "http://c:1"]
    assert listing.error == f"{ROUTER} lists 4 entries: only the first 3 are used"


def test_each_server_is_one_worker() -> None:
    """A1: ranks, repetitions, slashes and schemes of one server are one worker; order is kept."""
    assert urls("http://b:2@0", {"url": "http://b:2@1"}, "http://a:1/", {"url": "a:1"}, "http://a:1") == ["http://b:2", "http://a:1"]
    assert urls({"url": "http://[::2]:1@3"}) == ["http://[::2]:1"]


def test_the_base_url_goes_before_the_url() -> None:
    """Where a router names the server's base URL, it is used in place of the rank's."""
    assert urls({"url": "http://a:1@0", "dp_base_url": "http://a:1"}, {"url": "http://b:1@0", "base_url": "http://b:2"}) == [
        "http://a:1",
        "http://b:2",
    ]
    assert urls({"url": "http://a:1", "dp_base_url": None, "base_url": ""}) == ["http://a:1"]


def test_health_and_kind_are_told_and_leave_nobody_out() -> None:
    """A draining or failed worker may be generating: it is a worker, with its health as listed."""
    listing, _ = ask(
        {
            "/workers": listed(
                {"url": "http://a:1", "is_healthy": False, "worker_type": "prefill"},
                {"url": "http://b:1", "status": "draining", "worker_type": "decode"},
                {"url": "http://c:1", "status": "Ready"},
                {"url": "http://d:1", "is_healthy": "yes", "worker_type": 3},
            )
        }
    )
    assert [(one.url[7], one.kind, one.is_healthy) for one in listing.workers] == [
        ("a", "prefill", False), ("b", "decode", False), ("c", None, True), ("d", None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["grpc", "grpcs", "ipc", "GRPC"])
def test_a_worker_behind_another_protocol_is_listed_as_such(scheme: str) -> None:
    """A worker that HTTP cannot reach stays in the list, with its connection; a control URL makes it an HTTP worker."""
    plain, controlled = ask(
        {"/workers": listed({"url": f"{scheme}://a:1/"}, {"url": f"{scheme}://b:1", "labels": {"rl.control_url": "http://b:2/"}})}
    )[0].workers
    assert (plain.url, plain.connection) == (f"{scheme}://a:1", scheme.lower())
    assert (controlled.url, controlled.connection) == ("http://b:2", "http")


@pytest.mark.parametrize(
    ("entry", "router", "url", "is_noted"),
    [
        ("http://127.0.0.1:1", ROUTER, "http://10.0.0.9:1", True),
        ("http://localhost:1", ROUTER, "http://10.0.0.9:1", True),
        ("http://0.0.0.0:1", ROUTER, "http://10.0.0.9:1", True),
        ("http://[::1]:1", ROUTER, "http://10.0.0.9:1", True),
        ("http://[::]:1", "http://[2001:db8:0:0:0:0:0:9]:1", "http://[2001:db8:0:0:0:0:0:9]:1", True),
        ("http://10.0.0.5:1", ROUTER, "http://10.0.0.5:1", False),
        ("http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:1", False),
        ("http://127.0.0.1:1", "http://localhost:2", "http://127.0.0.1:1", False),
        ("http://0.0.0.0:1", "http://127.0.0.1:2", "http://127.0.0.1:1", True),
    ],
)
def test_a_worker_on_the_routers_own_host_is_found_there(entry: str, router: str, url: str, is_noted: bool) -> None:
    """A10: a local name in the listing of a remote router means the router's host, and a note says so."""
    listing, _ = ask({"/workers": listed(entry)}, router)
    assert [one.url for one in listing.workers] == [url]
    assert [note for note in listing.notes if "rewrite_local_urls" in note] == listing.notes
    assert bool(listing.notes) is is_noted


def test_rewriting_can_be_switched_off() -> None:
    """A10: with rewrite_local_urls=False a URL is called as it is listed."""
    assert urls("http://127.0.0.1:1", rewrite_local_urls=False) == ["http://127.0.0.1:1"]


def test_the_router_gets_the_routers_key_only() -> None:
    """E7: a listing carries keys.router and no other key."""
    from abort_sync import Keys

    _, transport = ask({}, keys=Keys(router="r", worker="w", worker_admin="a", agent="g"))
    assert {one.key for one in transport.orders} == {"r"}
    assert {one.method for one in transport.orders} == {"GET"}


@pytest.mark.parametrize(("is_refused", "kind"), [(False, RouterError), (True, RouterRefusedError)])
def test_unknown_workers_raise_and_known_ones_pass(is_refused: bool, kind: type[RouterError]) -> None:
    """`raise_if_unknown` raises all errors of the routers in one text, or returns what is known."""
    known = Discovery((Worker("http://a:1"),), (RouterView(ROUTER, "/workers", 1),))
    assert known.raise_if_unknown() is known
    bad = Discovery((), (RouterView(ROUTER, error="one", is_refused=is_refused), RouterView(ROUTER, error="two")))
    with pytest.raises(RouterError, match="^one; two$") as caught:
        bad.raise_if_unknown()
    assert type(caught.value) is kind


def test_a_worker_shows_no_password() -> None:
    """Credentials in a worker's URL are masked in its repr and in `shown`."""
    worker = Worker("http://u:hunter2@a:1")
    assert worker.shown == "http://***@a:1"
    assert "hunter2" not in repr(worker)
