"""All workers of a client, from all its sources: routers, the last listing seen, and URLs given. This room aborts nothing."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Optional

from ._call import Call
from ._deadline import Deadline
from ._fanout import Step
from ._listing import Listing, learn
from ._urls import mask
from ._workers import Discovery, Worker

LastKnown = dict[str, tuple[float, tuple[Worker, ...]]]
"""By router: when it was seen (wall clock), and what it listed."""

_LISTING_SHARE = 0.5
"""How much of a call's time the listing may use, so that last known workers can still be served after it."""


@dataclass
class Fleet:
    """What is known about the workers in the course of one call.

    Attributes:
        call: The call.
        last_known: The client's memory of earlier calls; never changed in place.
        may_use_last_known: Whether workers seen earlier may stand in for a router that cannot be reached.
        listings: The newest listing of each router.
        seen: What this call adds to the memory.
    """

    call: Call
    last_known: LastKnown
    may_use_last_known: bool
    listings: list[Listing] = field(default_factory=list)
    seen: LastKnown = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.listings = [Listing(router) for router in self.call.settings.routers]
        self.given = tuple(Worker(url.text, via="given") for url in self.call.settings.worker_urls)

    def learn(self) -> Generator[Step, None, None]:
        """Ask all routers at once; the listings are replaced when all have answered or failed."""
        fresh = [Listing(router) for router in self.call.settings.routers]
        if fresh:
            yield [self.learn_one(listing) for listing in fresh]
        self.listings = fresh

    def learn_one(self, listing: Listing) -> Generator[Step, None, None]:
        """Ask one router, within its share of the time."""
        yield from learn(self.call, listing, Deadline.after(self.call.deadline.left() * _LISTING_SHARE))
        if listing.error is None:
            self.seen[listing.router.text] = (time.time(), listing.workers)

    def workers_of(self, listing: Listing) -> tuple[Worker, ...]:
        """Return a router's workers: as listed, or as last seen where it cannot be reached."""
        stand_in = self._stand_in(listing)
        return listing.workers if stand_in is None else tuple(replace(one, via="last_known") for one in stand_in[1])

    @property
    def workers(self) -> tuple[Worker, ...]:
        """Each worker once: those of the routers, then those given."""
        found: dict[str, Worker] = {}
        for worker in [one for listing in self.listings for one in self.workers_of(listing)] + list(self.given):
            found.setdefault(worker.url, worker)
        return tuple(found.values())

    @property
    def notes(self) -> list[str]:
        """What was dropped, rewritten or stood in for."""
        notes = [note for listing in self.listings for note in listing.notes]
        for listing in self.listings:
            stand_in = self._stand_in(listing)
            if stand_in is not None:
                age = max(0.0, time.time() - stand_in[0])
                notes.append(
                    f"{mask(listing.router.text)} cannot be reached: its workers as seen {age:.0f} s ago are used ({listing.error})"
                )
        return [self.call.scrub(note)[:400] for note in notes]

    def error(self, is_covered_ok: bool = False) -> Optional[str]:
        """Return why the workers are not all known, or None.

        Args:
            is_covered_ok: Leave out the routers for which workers seen earlier stand in.
        """
        errors = [one.error for one in self.listings if one.error is not None and not (is_covered_ok and self._stand_in(one))]
        return self.call.scrub("; ".join(errors)) if errors else None

    @property
    def is_refused(self) -> bool:
        """Whether a router answered 401 or 403."""
        return any(listing.is_refused for listing in self.listings)

    def discovery(self) -> Discovery:
        """Return it as a user sees it; only here is it worth a note that ranks were put together."""
        together = [
            f"{one.repeats} entries of {mask(one.router.text)} repeat a server (data-parallel ranks): each server is one worker"
            for one in self.listings
            if one.repeats
        ]
        return Discovery(self.workers, tuple(listing.view(self.call.scrub) for listing in self.listings), (*self.notes, *together))

    def _stand_in(self, listing: Listing) -> Optional[tuple[float, tuple[Worker, ...]]]:
        if listing.error is None or listing.is_reachable or not self.may_use_last_known:
            return None
        return self.seen.get(listing.router.text) or self.last_known.get(listing.router.text)
