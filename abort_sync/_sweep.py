"""Aborts over all workers, once or until idle, and the outcomes they come to. This room knows nothing of agent servers."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Callable, Optional

from ._call import Tries
from ._events import RoundEvent
from ._fanout import Step
from ._fleet import Fleet
from ._idle import Visit, Watch, Watched, until_idle
from ._judge import together
from ._listing import Listing
from ._report import Outcome, Status
from ._worker_calls import abort_at, abort_order, abort_tries, look_at, look_tries, through_gateway
from ._workers import Worker

Rids = Sequence[Optional[str]]
"""The rids to abort; ``(None,)`` stands for everything."""


@dataclass
class AbortSweep:
    """Each rid at each worker, once.

    Attributes:
        fleet: The workers.
        rids: What to abort.
    """

    fleet: Fleet
    rids: Rids
    tries: dict[str, list[Tries]] = field(default_factory=dict)

    def work(self) -> Generator[Step, None, None]:
        """Learn the workers, and abort at those of each router as soon as it has told them."""
        yield [self._at(self.fleet.given), *(self._through(listing) for listing in self.fleet.listings)]

    def _through(self, listing: Listing) -> Generator[Step, None, None]:
        yield from self.fleet.learn_one(listing)
        yield from self._at(self.fleet.workers_of(listing))

    def _at(self, workers: Sequence[Worker]) -> Generator[Step, None, None]:
        works = []
        for one in workers:
            tries = [abort_tries(one, rid) for rid in self.rids]
            if self.tries.setdefault(one.url, tries) is tries:  # nobody else has this worker
                works.append(abort_at(self.fleet.call, one, self.rids, tries))
        yield works

    def notes(self) -> list[str]:
        """Return what the reader should know about the aborts, each once."""
        return _notes_of(tries for all_ in self.tries.values() for tries in all_)

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return one outcome per rid and worker, rid-major."""
        workers = self.fleet.workers
        tries = {one.url: self.tries.get(one.url) or [abort_tries(one, rid) for rid in self.rids] for one in workers}
        return tuple(tries[one.url][number].outcome(self.fleet.call.scrub) for number in range(len(self.rids)) for one in workers)


@dataclass
class _Seen:
    """The tries of a worker's last visit, and when the first one began."""

    aborts: list[Tries] = field(default_factory=list)
    look: Optional[Tries] = None
    began: float = 0.0
    path: int = 0
    was_accepted: bool = False


@dataclass
class IdleSweep:
    """Abort at each worker until it is idle; it satisfies ``_idle.Workers``.

    Attributes:
        fleet: The workers.
        rids: What to abort.
        watch: What has been seen of each worker.
        is_producing: Whether somebody may still be sending new requests.
    """

    fleet: Fleet
    rids: Rids
    watch: Watch
    is_producing: Callable[[], bool] = lambda: False
    seen: dict[str, _Seen] = field(default_factory=dict)

    def work(self) -> Generator[Step, None, None]:
        """Go on until idle or the deadline."""
        return until_idle(self, self.watch, self.is_producing)

    def list_workers(self) -> Generator[Step, None, Sequence[Worker]]:
        """Ask the routers."""
        yield from self.fleet.learn()
        return self.fleet.workers

    def is_listing_settled(self) -> bool:
        """Tell whether no router is left to be asked again: each has answered, if only with a refusal."""
        return all(one.error is None or one.is_reachable for one in self.fleet.listings)

    def given_workers(self) -> Sequence[Worker]:
        """Return the workers that no router needs to be asked for."""
        return self.fleet.given

    def left(self) -> float:
        """Return the seconds to the deadline."""
        return self.fleet.call.deadline.left()

    def visit(self, watched: Watched) -> Generator[Step, None, Visit]:
        """Abort if work may be left, then look."""
        call, worker = self.fleet.call, watched.worker
        seen = self.seen.setdefault(worker.url, _Seen())
        if worker.connection != "http":
            seen.aborts = [abort_tries(worker, None)]
            return Visit(None, is_final=True)
        seen.look = None
        aborts: list[Tries] = []
        if watched.is_to_abort:
            aborts = seen.aborts = [abort_tries(worker, rid) for rid in self.rids]
            for rid, tries in zip(self.rids, aborts):
                answer = call.exchange(abort_order(call, worker, rid), tries, None)
                through_gateway(call, worker, rid, tries)
                seen.began = seen.began or tries.began
                if not answer.is_whole:
                    return Visit(None, is_final=answer.is_refused)
                yield 0.0
            seen.was_accepted = seen.was_accepted or all(together(one.statuses) is Status.ACCEPTED for one in aborts)
        look = seen.look = look_tries(worker)
        load, seen.path, answer = look_at(call, worker, look, seen.path)
        refused = [one for one in aborts if one.statuses and one.statuses[-1] in (Status.REFUSED, Status.UNSUPPORTED)]
        is_unreadable = load is None and answer.is_whole and (answer.status or 0) < 500
        return Visit(load, is_final=is_unreadable or (bool(refused) and (load is None or load.remaining > 0)) or answer.is_refused)

    def notes(self) -> list[str]:
        """Return what the reader should know about the aborts, each once."""
        return _notes_of(tries for seen in self.seen.values() for tries in seen.aborts)

    def round_ended(self, number: int) -> None:
        """Tell about the round."""
        loads = [one.load for one in self.watch.by_url.values()]
        known = [one.remaining for one in loads if one is not None]
        call = self.fleet.call
        call.emit(RoundEvent(call.operation, number, len(loads), known.count(0), sum(known), len(loads) - len(known)))

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return one outcome a worker: those that were ever listed, in the order in which they were first seen."""
        watched = list(self.watch.by_url.values())
        known = {one.worker.url for one in watched}
        return tuple(self._outcome(one) for one in watched + [Watched(one) for one in self.fleet.workers if one.url not in known])

    def _outcome(self, watched: Watched) -> Outcome:
        scrub = self.fleet.call.scrub
        seen = self.seen.get(watched.worker.url, _Seen())
        aborts = [one.outcome(scrub) for one in seen.aborts] or [abort_tries(watched.worker, None).outcome(scrub)]
        look = seen.look.outcome(scrub) if seen.look is not None else None
        parts = [*aborts, look] if look is not None else aborts
        attempts = tuple(attempt for part in parts for attempt in part.attempts)
        whole = [attempt.http_status for attempt in attempts if attempt.http_status is not None]
        plain = Outcome(
            target=watched.worker.shown,
            via=watched.worker.via,
            rid=None,
            status=Status.UNKNOWN,
            http_status=whole[-1] if whole else None,
            attempts=tuple(replace(attempt, number=number) for number, attempt in enumerate(attempts, 1)),
            elapsed_s=max((one.ended for one in [*seen.aborts, *([seen.look] if seen.look else [])]), default=0.0) - seen.began
            if seen.began
            else 0.0,
            remaining=watched.load.remaining if watched.load is not None else None,
        )
        plain = replace(plain, elapsed_s=max(0.0, plain.elapsed_s))
        if watched.zeros >= self.watch.settle:
            return replace(plain, status=Status.IDLE)
        worst = next((one for one in aborts if not one.ok), None)
        is_cut = any(one.line is not None or not one.statuses for one in seen.aborts)
        is_busy = watched.load is not None and watched.load.remaining > 0
        if worst is not None and not (is_cut and is_busy and seen.was_accepted):  # else an earlier visit's abort stands
            status = together([one.status for one in aborts if not one.ok and one.status is not Status.NOT_SENT] or [worst.status])
            return replace(plain, status=status, error=worst.error)
        if watched.load is None:
            if look is None:
                why = "the deadline came before its load was read"
            elif look.status is Status.ACCEPTED:
                why = "accepted, but its load is in a form that this client cannot read"
            else:
                why = f"accepted, but its load cannot be read: {look.error}"
            return replace(plain, error=why)
        if watched.load.remaining == 0:
            why = f"it reported no work {watched.zeros} times, and the deadline came before the reading was confirmed"
            if not self.watch.is_quiet:
                why = "it reported no work, but the deadline came before the agents were quiet: they may still send new requests"
            return replace(plain, error=why)
        if self.rids != (None,) and not self.fleet.call.settings.exclusive:
            why = f"accepted, but {watched.load.remaining} requests run there, and the engine does not say whose (exclusive=False)"
            return replace(plain, error=why)
        return replace(plain, status=Status.BUSY, error=f"the deadline came and {watched.load.remaining} requests are still there")


def _notes_of(tries: Iterable[Tries]) -> list[str]:
    return list(dict.fromkeys(one.note for one in tries if one.note is not None))
