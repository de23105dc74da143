"""All workers of a call: from several routers, from memory where a router is down, and those given."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from call_stage import stage
from fake_steps import Steps

from abort_sync import Worker
from abort_sync._answer import Answer, Order
from abort_sync._fleet import Fleet

R1, R2 = "http://r1:1", "http://r2:1"
DOWN = Answer(error="connection refused while connecting", is_sent=False, is_refused=True)


def listed(*urls: str) -> Answer:
    return Answer(200, json.dumps({"workers": [{"url": url} for url in urls]}).encode())


def learnt(answers: dict[str, Answer], seen: dict[str, Any] | None = None, may_use_last_known: bool = True, **client: Any) -> Fleet:
    def answer(order: Order) -> Answer:
        return answers[order.url.rpartition("/")[0]]

    call, _ = stage(answer, router_url=list(answers), **client)
    fleet = Fleet(call, seen or {}, may_use_last_known)
    assert Steps().run(fleet.learn())
    return fleet


def as_seen(*urls: str, ago_s: float = 60.0) -> tuple[float, tuple[Worker, ...]]:
    return (time.time() - ago_s, tuple(Worker(url) for url in urls))


def test_several_routers_and_given_workers_are_one_fleet() -> None:
    """A12: the workers of all routers, then those given, each once; the first way in which it was learned stands."""
    fleet = learnt(
        {R1: listed("http://a:1", "http://b:1"), R2: listed("http://b:1", "http://c:1")}, worker_urls=["http://c:1", "http://d:1"]
    )
    assert [(one.url, one.via) for one in fleet.workers] == [
        ("http://a:1", "router"),
        ("http://b:1", "router"),
        ("http://c:1", "router"),
        ("http://d:1", "given"),
    ]
    assert (fleet.error(), fleet.notes, fleet.is_refused) == (None, [], False)
    assert sorted(fleet.seen) == [R1, R2]


def test_last_known_workers_stand_in_for_a_router_that_is_down() -> None:
    """A9: the workers seen earlier are used, marked as such, and a note says how old they are and why."""
    fleet = learnt({R1: DOWN, R2: listed("http://c:1")}, {R1: as_seen("http://a:1")})
    assert [(one.url, one.via) for one in fleet.workers] == [("http://a:1", "last_known"), ("http://c:1", "router")]
    (note,) = fleet.notes
    assert note.startswith(f"{R1} cannot be reached: its workers as seen 60 s ago are used")
    assert "connection refused" in note
    assert fleet.error(is_covered_ok=True) is None
    assert R1 in str(fleet.error())


@pytest.mark.parametrize(
    ("answer", "may_use_last_known", "is_used"),
    [
        (DOWN, True, True),
        (Answer(error="timed out"), True, True),
        (Answer(503), True, True),
        (DOWN, False, False),
        (Answer(401), True, False),
        (Answer(400), True, False),
        (listed(), True, False),
        (Answer(200, b"null"), True, False),
    ],
)
def test_memory_is_used_only_where_the_router_cannot_say(answer: Answer, may_use_last_known: bool, is_used: bool) -> None:
    """A9: never for abort_all, never against what the router answers: a refusal, an empty list, another no."""
    fleet = learnt({R1: answer}, {R1: as_seen("http://a:1")}, may_use_last_known)
    assert [one.url for one in fleet.workers] == (["http://a:1"] if is_used else [])


def test_a_router_that_was_never_seen_has_no_stand_in() -> None:
    """Without an earlier listing the error is the router's own."""
    fleet = learnt({R1: DOWN}, {R2: as_seen("http://a:1")})
    assert (fleet.workers, fleet.notes) == ((), [])
    assert "cannot be learned" in str(fleet.error(is_covered_ok=True))


def test_a_failed_listing_does_not_change_what_was_seen() -> None:
    """Only a listing that was understood is remembered, an empty one too."""
    assert learnt({R1: DOWN}).seen == {}
    assert learnt({R1: Answer(401)}).seen == {}
    assert learnt({R1: listed()}).seen[R1][1] == ()


def test_a_discovery_tells_it_all() -> None:
    """A discovery holds the workers, what each router turned out to be, and the notes."""
    found = learnt({R1: listed("http://a:1", "ftp://x"), R2: Answer(401)}).discovery()
    assert [(one.url, one.dialect, one.workers, one.is_refused, one.error is None) for one in found.routers] == [
        (R1, "/workers", 1, False, True),
        (R2, None, 0, True, False),
    ]
    assert [one.url for one in found.workers] == ["http://a:1"]
    assert len(found.notes) == 1
