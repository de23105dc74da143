"""Names are looked up without waiting longer than the deadline."""

from __future__ import annotations

import _thread
import socket
import threading
import time
from threading import Semaphore
from typing import Any

import pytest

from abort_sync._names import NameLookup, literal


class Resolver:
    """Stands for the system's: answers when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[tuple[Any, ...]] = []
        self.error: Exception | None = None

    def __call__(self, host: str, port: int, **kwargs: Any) -> list[Any]:
        self.asked.append((host, port))
        assert self.let_go.wait(60)
        if self.error is not None:
            raise self.error
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
        ]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Any:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.let_go.set()


def test_a_resolver_that_hangs_is_waited_for_until_the_deadline_only(resolver: Resolver) -> None:
    """D2: a wait ends when nothing is left, also where the resolver never answers."""
    lookup = NameLookup("slow.example", 80, Semaphore(1)).begin(lambda: 5.0)
    end = time.monotonic() + 0.3
    with pytest.raises(TimeoutError, match="not resolved in time"):
        lookup.wait(lambda: end - time.monotonic())
    with pytest.raises(TimeoutError):
        lookup.wait(lambda: 0.0)
    assert resolver.asked == [("slow.example", 80)]


def test_a_wait_that_is_cut_ends_soon(resolver: Resolver) -> None:
    """What is left is asked again and again, so a cut from another thread ends the wait before the deadline."""
    lookup = NameLookup("slow.example", 80, Semaphore(1)).begin(lambda: 5.0)
    lefts = iter([60.0, 60.0, 0.0])
    with pytest.raises(TimeoutError):
        lookup.wait(lambda: next(lefts, 0.0))


def test_one_look_up_serves_everyone(resolver: Resolver) -> None:
    """All who need a name wait for the one look-up, and get all its addresses in order."""
    resolver.let_go.set()
    lookup = NameLookup("h.example", 81, Semaphore(1)).begin(lambda: 5.0)
    expected = [(socket.AF_INET, ("192.0.2.1", 81)), (socket.AF_INET6, ("::1", 81, 0, 0))]
    assert [lookup.wait(lambda: 60.0) for _ in range(3)] == [expected] * 3
    assert len(resolver.asked) == 1


@pytest.mark.parametrize("error", [socket.gaierror(socket.EAI_NONAME, "unknown"), UnicodeError("label too long")])
def test_a_name_that_cannot_be_resolved_raises_for_everyone(resolver: Resolver, error: Exception) -> None:
    """E9: the resolver's error, of whatever type, reaches whoever waits."""
    resolver.error = error
    resolver.let_go.set()
    lookup = NameLookup("none.example", 80, Semaphore(1)).begin(lambda: 5.0)
    for _ in range(2):
        with pytest.raises(type(error)):
            lookup.wait(lambda: 60.0)


def test_without_threads_the_look_up_is_made_in_place(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started the name is looked up by the calling thread."""

    def refuse(*_: Any) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    resolver.let_go.set()
    assert len(NameLookup("h.example", 80, Semaphore(1)).begin(lambda: 5.0).wait(lambda: 0.0)) == 2


def test_look_ups_that_hang_take_no_more_threads_than_there_are_slots(resolver: Resolver) -> None:
    """One slot: the second name waits for the first one's end, no longer than its time, and is looked up after it."""
    slots = Semaphore(1)
    first = NameLookup("slow.example", 80, slots).begin(lambda: 5.0)
    ends = time.monotonic() + 0.2
    with pytest.raises(TimeoutError, match="too many names"):
        NameLookup("other.example", 80, slots).begin(lambda: ends - time.monotonic())
    assert [host for host, _ in resolver.asked] == ["slow.example"]
    resolver.let_go.set()
    first.wait(lambda: 60.0)
    assert NameLookup("other.example", 80, slots).begin(lambda: 60.0).wait(lambda: 60.0)


def test_the_thread_of_a_look_up_does_not_hold_the_exit(resolver: Resolver) -> None:
    """The thread that looks up is none that the interpreter waits for when it ends."""
    before = threading.active_count()
    NameLookup("slow.example", 80, Semaphore(1)).begin(lambda: 5.0)
    assert [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()] == []
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_an_address_is_never_looked_up(host: str, family: int) -> None:
    """An address literal is an address already."""
    found = literal(host, 80)
    assert found is not None
    assert [(one, address[:2]) for one, address in found] == [(family, (host, 80))]


@pytest.mark.parametrize("name", ["localhost", "h.example", "a" * 300, "\udcff"], ids=ascii)
def test_a_name_is_no_address(name: str) -> None:
    """A name is none, whatever it is made of."""
    assert literal(name, 80) is None
