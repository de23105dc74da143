"""Until idle, against a model of a fleet on a fake clock.

The model: workers hold requests of ours. Requests come late, are sent again by a router to another worker, or are produced by
agents until these are quiet; workers enter and leave the listing, and an unlisted one works on. An abort can be lost, take
effect after a while, or at once; whatever else is there runs on. A visit takes time: its abort, its look and its return are
three moments. All of it is drawn by hypothesis.

What the engine can know, and so what is assumed: a load says truthfully what runs in the worker when its snapshot is made, but

* a snapshot may be given again at later looks, with the same stamp;
* a snapshot may miss everything that runs (a counter flaps to zero, a request is not counted yet), but not ``settle`` snapshots
  of one worker in a row;
* a load may be unreadable.

What follows, and is asserted: when the loop says that it is done, nothing runs in any worker of its last listing that came before
the first of the ``settle`` readings which it took for proof. (Who comes later was not there to be seen.) Nothing that agents sent
while they were producing runs there either, however late in that time it came.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from fake_steps import Steps
from hypothesis import example, given, settings
from hypothesis import strategies as st

from abort_sync._idle import Visit, Watch, Watched, until_idle
from abort_sync._loads import Load
from abort_sync._workers import Worker

TIMEOUT_S = 6.0
FOREVER = 1e6
POLL_S = 0.25
LISTING_S = 0.1
NAMES = ("a", "b", "c")
MODEL = settings(derandomize=True, deadline=None, database=None, max_examples=150)


@dataclass
class Request:
    """One request of ours in a worker: when it came, when it ends by itself or by an abort, and whether agents sent it."""

    came: float
    ends: float
    is_produced: bool = False


@dataclass
class Engine:
    """One worker as it is."""

    name: str
    is_listed: bool = False
    requests: list[Request] = field(default_factory=list)
    snapshot: tuple[float, int] | None = None
    misses: int = 0
    visits_now: int = 0
    aborts: list[float] = field(default_factory=list)
    looks: list[float | None] = field(default_factory=list)

    def running(self, now: float) -> list[Request]:
        return [one for one in self.requests if one.came <= now < one.ends]


@dataclass
class Event:
    """Something that happens at its time, whatever the client does."""

    at: float
    kind: str
    worker: str
    other: str


class Fleet:
    """All workers; what ``_idle`` asks of them, with the time that it takes."""

    def __init__(self, events: Sequence[Event], given: str, settle: int, quiet_s: float, luck: Iterator[int], timeout_s: float) -> None:
        self.engines = {name: Engine(name) for name in NAMES}
        self.events = sorted(events, key=lambda one: one.at)
        self.given, self.settle, self.quiet_s, self._luck = given, settle, quiet_s, luck
        self.timeout_s = timeout_s
        self.steps = Steps(self.happen)
        self.last_listing: tuple[str, ...] | None = None
        self.rounds = 0

    def happen(self, now: float) -> None:
        """Let everything happen that is due."""
        while self.events and self.events[0].at <= now:
            event = self.events.pop(0)
            engine, other = self.engines[event.worker], self.engines[event.other]
            if event.kind in ("listed", "unlisted"):
                engine.is_listed = event.kind == "listed"
            elif event.kind == "request":
                engine.requests.append(Request(event.at, FOREVER))
            elif event.kind == "produce" and event.at < self.quiet_s:
                engine.requests.append(Request(event.at, FOREVER, is_produced=True))
            elif event.kind == "resend":  # the worker fails; the router sends what it had to another one
                for one in engine.running(event.at):
                    one.ends = event.at
                    other.requests.append(Request(event.at, FOREVER, one.is_produced and event.at < self.quiet_s))

    def luck(self, *choices: Any) -> Any:
        """Choose as drawn; the first one, which is the good one, when all that was drawn is used up."""
        return choices[next(self._luck, 0) % len(choices)]

    # --- what _idle.Workers asks for ---

    def left(self) -> float:
        return max(0.0, self.timeout_s - self.steps.now)

    def given_workers(self) -> Sequence[Worker]:
        return [Worker(name, via="given") for name in self.given]

    def list_workers(self) -> Generator[Any, None, Sequence[Worker]]:
        listed = [name for name in NAMES if self.engines[name].is_listed or name in self.given]
        yield LISTING_S
        self.last_listing = tuple(listed)
        return [Worker(name) for name in listed]

    def is_listing_settled(self) -> bool:
        return True

    def round_ended(self, number: int) -> None:
        self.rounds += 1
        assert number == self.rounds, "rounds are told one by one"

    def visit(self, watched: Watched) -> Generator[Any, None, Visit]:
        engine = self.engines[watched.worker.url]
        assert engine.visits_now == 0, "a worker is visited by one loop, so an abort is never sent twice at a time"
        assert self.left() > 0, "no visit begins after the deadline"
        engine.visits_now = 1
        if watched.is_to_abort:
            assert not engine.aborts or self.steps.now >= engine.aborts[-1] + POLL_S, "aborts at one worker are spaced"
            engine.aborts.append(self.steps.now)
            effect = self.luck(0.0, 0.1, 0.4, None)
            if effect is not None:
                for one in engine.running(self.steps.now):
                    one.ends = self.steps.now + effect
        yield self.luck(0.0, 0.05, 0.2)
        load = self._look(engine)
        looked = self.steps.now
        yield self.luck(0.0, 0.05, 0.2, 0.6)
        engine.visits_now = 0
        engine.looks.append(looked if load is not None and engine.snapshot == (looked, load.running) else None)
        return Visit(load)

    def _look(self, engine: Engine) -> Load | None:
        kind = self.luck("fresh", "miss", "again", "unreadable")
        if kind == "unreadable":
            return None
        if kind != "again" or engine.snapshot is None:
            count = len(engine.running(self.steps.now))
            engine.misses = engine.misses + 1 if kind == "miss" and engine.misses < self.settle - 1 else 0
            engine.snapshot = (self.steps.now, 0 if engine.misses else count)
        stamp, count = engine.snapshot
        return Load(count, 0, stamps=(stamp,))


EVENTS = st.lists(
    st.builds(
        Event,
        at=st.integers(0, 60).map(lambda tenth: tenth / 20),
        kind=st.sampled_from(["listed", "listed", "unlisted", "request", "request", "produce", "resend"]),
        worker=st.sampled_from(NAMES),
        other=st.sampled_from(NAMES),
    ),
    max_size=12,
)
SCRIPTS = {
    "events": EVENTS,
    "given": st.sampled_from(["", "a", "ab"]),
    "settle": st.integers(1, 3),
    "quiet_s": st.sampled_from([0.0, 0.0, 0.4, 0.9, 1.7, 2.5]),
}


def play(
    events: Sequence[Event], given: str, settle: int, quiet_s: float, luck: bytes = b"", timeout_s: float = TIMEOUT_S
) -> tuple[Fleet, Watch, bool]:
    """Run until idle over the fleet, and say also whether it all ended by itself in time."""
    fleet = Fleet(events, given, settle, quiet_s, iter(luck), timeout_s)
    watch = Watch(POLL_S, settle)
    work = until_idle(fleet, watch, lambda: fleet.steps.now < quiet_s)
    has_ended = fleet.steps.run(work, until_s=timeout_s + POLL_S + LISTING_S + 1.0)
    return fleet, watch, has_ended


@MODEL
@given(luck=st.binary(max_size=80), timeout_s=st.sampled_from([TIMEOUT_S, 2.0, 1.0, 0.3]), **SCRIPTS)
# Rare: an agent sends just before it is quiet; the snapshot from before comes again after it, or comes back late.
@example(luck=bytes([0] * 14 + [6, 0, 0, 10]), events=[Event(0.85, "produce", "a", "a")], given="a", settle=1, quiet_s=0.9, timeout_s=6.0)
@example(
    luck=bytes([0] * 11 + [10] + [0] * 5 + [2]), events=[Event(0.35, "produce", "a", "a")], given="ab", settle=1, quiet_s=0.4, timeout_s=6.0
)
def test_idle_is_never_said_over_a_running_request(
    luck: bytes, events: list[Event], given: str, settle: int, quiet_s: float, timeout_s: float
) -> None:
    """Whatever the fleet does: never done while something runs that could be seen, back by the deadline, no abort after it."""
    check_safe(*play(events, given, settle, quiet_s, luck, timeout_s), settle)


def check_safe(fleet: Fleet, watch: Watch, has_ended: bool, settle: int) -> None:
    """Assert what holds in every run."""
    assert has_ended, "the loop ends by itself at the deadline"
    for engine in fleet.engines.values():
        assert all(at < fleet.timeout_s for at in engine.aborts)
    if not watch.is_reached:
        return
    now = fleet.steps.now
    assert now >= fleet.quiet_s, "nothing counts as idle while somebody is producing"
    assert fleet.last_listing is not None, "nothing is idle before the routers were asked once"
    for name in fleet.last_listing:
        engine = fleet.engines[name]
        assert name in watch.by_url, f"{name} is listed and was never visited"
        assert engine.aborts, f"{name} is listed and nothing was aborted there"
        noted = [at for at in engine.looks[: watch.by_url[name].visits] if at is not None]
        assert len(noted) >= settle, f"{name} was taken for idle after {len(noted)} readings"
        first_proof = noted[-settle]
        for one in engine.running(now):
            assert one.came > first_proof, f"{name} has a request from {one.came}, and was taken for idle from {first_proof} on"
            assert not one.is_produced, f"{name} has a request that an agent sent at {one.came}, before the agents were quiet"


@settings(MODEL, max_examples=60)
@given(**{**SCRIPTS, "events": EVENTS.map(lambda events: [one for one in events if one.at < 2.0])})
def test_idle_is_said_when_it_is_quiet(events: list[Event], given: str, settle: int, quiet_s: float) -> None:
    """When nothing new comes, aborts work and loads are true, the loop is done well before the deadline."""
    fleet, watch, has_ended = play(events, given, settle, quiet_s)
    assert has_ended
    assert watch.is_reached
    assert fleet.steps.now < max(quiet_s, 2.0) + (settle + 4) * (POLL_S + LISTING_S)
    check_safe(fleet, watch, has_ended, settle)


@pytest.mark.parametrize("settle", [1, 2, 5])
def test_the_same_snapshot_counts_once(settle: int) -> None:
    """However often one snapshot is given again, it is one reading."""
    watched = Watched(Worker("a"))
    for stamp in range(settle):
        for _ in range(3):
            assert not watched.is_settled(settle)
            watched.note(Visit(Load(0, 0, stamps=(float(stamp), 7.0 + stamp))))
            if stamp == settle - 1:
                break
    assert watched.is_settled(settle)


def test_all_ranks_must_have_looked_again() -> None:
    """A reading counts only if every data-parallel rank has made a new snapshot."""
    watched = Watched(Worker("a"))
    zeros = []
    for stamps in [(1.0, 1.0), (2.0, 1.0), (2.0, 2.0), (3.0, 2.5)]:
        watched.note(Visit(Load(0, 0, stamps=stamps)))
        zeros.append(watched.zeros)
    assert zeros == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("visits", "zeros", "is_to_abort", "is_settled"),
    [
        ([], 0, True, False),
        ([Visit(Load(2, 1))], 0, True, False),
        ([Visit(Load(0, 0))], 1, False, False),
        ([Visit(Load(0, 0)), Visit(Load(0, 0))], 2, False, True),
        ([Visit(Load(0, 0)), Visit(Load(0, 0, tokens=5))], 0, True, False),
        ([Visit(Load(0, 0)), Visit(None)], 0, True, False),
        ([Visit(None, is_final=True)], 0, True, False),
        ([Visit(None, is_final=True)] * 2, 0, True, True),
        ([Visit(None, is_final=True), Visit(None), Visit(None, is_final=True)], 0, True, False),
        ([Visit(Load(0, 0)), Visit(Load(1, 0)), Visit(Load(0, 0))], 1, False, False),
    ],
)
def test_what_visits_come_to(visits: list[Visit], zeros: int, is_to_abort: bool, is_settled: bool) -> None:
    """B6: idle only after readings in a row without work; a load that cannot be read is never zero, and asks for another abort."""
    watched = Watched(Worker("a"))
    for visit in visits:
        watched.note(visit)
    assert (watched.zeros, watched.is_to_abort, watched.is_settled(2)) == (zeros, is_to_abort, is_settled)
