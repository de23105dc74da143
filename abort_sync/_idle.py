"""Until idle: abort, look, and abort again until every worker reported no work several times in a row. No HTTP in this room.

Each worker is visited in its own loop, so one that hangs delays only itself. The loop here lists the workers again between
rounds (late, re-registered and removed ones count) and says when the goal is reached.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Callable, Optional, Protocol

from ._fanout import Spawn, Step
from ._loads import Load
from ._workers import Worker

ROUTER_AWAY_S = 5.0
"""So long a router that does not answer, or answers 5xx, is asked again before the call makes do with what it knows."""

_SHORTEST_LISTING_S = 1.0
"""With less time left the workers are not listed again: a router that has only a moment to answer would look as if it were away."""

_SHORTEST_VISIT_S = 0.05
"""With less time left no visit is begun: it would be cut before its answer."""


@dataclass
class Visit:
    """What one visit at a worker brought.

    Attributes:
        load: What the worker said, or None where it could not be read.
        is_final: Whether another visit would bring the same: refused, no such route, nobody listens.
    """

    load: Optional[Load]
    is_final: bool = False


@dataclass
class Watched:
    """One worker, and what has been seen of it.

    Attributes:
        worker: The worker.
        load: The last reading, or None.
        zeros: Readings without work in a row, each made after the one before.
        finals: Visits in a row after which another would bring the same.
        visits: Visits so far.
    """

    worker: Worker
    load: Optional[Load] = None
    zeros: int = 0
    finals: int = 0
    visits: int = 0
    _stamps: tuple[float, ...] = ()

    @property
    def is_to_abort(self) -> bool:
        """Whether the next visit aborts first: at first, and whenever work may be left."""
        return self.visits == 0 or self.load is None or self.load.remaining > 0

    def note(self, visit: Visit, is_proof: bool = True) -> None:
        """Take what a visit brought.

        A reading without work counts only if the server made it after every one before it: two snapshots with the same stamps
        are one reading, also where another visit or an unreadable load lies between them.

        Args:
            visit: What it brought.
            is_proof: Whether nobody was sending new requests any more when the visit began.
        """
        self.visits += 1
        self.load = visit.load
        self.finals = self.finals + 1 if visit.is_final else 0
        stamps = visit.load.stamps if visit.load is not None else ()
        is_newer = all(new > old for new, old in zip(stamps, self._stamps))
        if visit.load is None or visit.load.remaining or not is_proof:
            self.zeros = 0
        elif is_newer:
            self.zeros += 1
        if stamps and is_newer:
            self._stamps = stamps

    def is_settled(self, settle: int) -> bool:
        """Whether nothing more is to be learned from it: idle, or past help."""
        return self.zeros >= settle or self.finals >= max(2, settle)


class Workers(Protocol):
    """What the loop needs: the way to list the workers and to visit one."""

    def given_workers(self) -> Sequence[Worker]:
        """Return the workers that no router needs to be asked for."""

    def list_workers(self) -> Generator[Step, None, Sequence[Worker]]:
        """Return the workers that are listed now."""

    def is_listing_settled(self) -> bool:
        """Tell whether the last listing was whole, or would not become so by being asked for again."""

    def visit(self, watched: Watched) -> Generator[Step, None, Visit]:
        """Abort at one worker if ``watched.is_to_abort``, then look at its load."""

    def round_ended(self, number: int) -> None:
        """Be told that a round is over."""

    def left(self) -> float:
        """Return the seconds to the deadline."""


@dataclass
class Watch:
    """All workers that are or were listed in the course of one call.

    Attributes:
        poll_s: Seconds between two visits at one worker, and between two listings.
        settle: How many readings without work in a row make a worker idle.
        by_url: Each worker, by its URL.
        is_quiet: Whether nobody is sending new requests any more; only what is read from then on is taken for proof.
        is_reached: Whether the goal is reached.
    """

    poll_s: float
    settle: int
    by_url: dict[str, Watched] = field(default_factory=dict)
    is_quiet: bool = False
    is_reached: bool = False


def until_idle(workers: Workers, watch: Watch, is_producing: Callable[[], bool]) -> Generator[Step, None, None]:
    """Visit every worker again and again until all are settled, or the deadline comes.

    Args:
        workers: The way to list and to visit.
        watch: Where everything that is seen is kept.
        is_producing: Whether somebody may still be sending new requests; while so, no reading is taken for proof.
    """
    number = 0
    listed = workers.given_workers()
    is_listed = False
    patience_until = -math.inf  # on the clock of what is left
    while True:
        watch.is_quiet = not is_producing()
        new = [Watched(one) for one in listed if one.url not in watch.by_url]
        for one in new:
            watch.by_url[one.worker.url] = one
        if new:
            yield Spawn([_visit_again_and_again(workers, watch, one) for one in new])
        if is_listed and watch.is_quiet and not new and all(one.is_settled(watch.settle) for one in watch.by_url.values()):
            watch.is_reached = True
        if number:
            workers.round_ended(number)
        number += 1
        if watch.is_reached or workers.left() <= 0:
            return
        yield watch.poll_s if number > 1 else 0.0
        if number > 1 and workers.left() < _SHORTEST_LISTING_S:
            listed = ()
            continue
        listed = yield from workers.list_workers()
        if workers.is_listing_settled():
            is_listed, patience_until = True, -math.inf
        else:
            patience_until = max(patience_until, workers.left() - ROUTER_AWAY_S)
            is_listed = workers.left() <= patience_until


def _visit_again_and_again(workers: Workers, watch: Watch, one: Watched) -> Generator[Step, None, None]:
    while not watch.is_reached and workers.left() > _SHORTEST_VISIT_S:
        was_quiet = watch.is_quiet  # before the look: what is read while others send proves nothing, however late it comes back
        visit = yield from workers.visit(one)
        if watch.is_reached or workers.left() <= 0:
            return  # this visit may have been cut by the end of the call: what was read before it stands
        one.note(visit, was_quiet)
        if one.finals >= max(2, watch.settle):
            return
        yield watch.poll_s
