"""Each public operation: make a call, run its work, and put the report together. This room knows nothing of HTTP."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from typing import Optional

from ._args import instance_ids_of
from ._call import Call, log, why_unsent
from ._config import Settings
from ._deadline import Deadline
from ._errors import ConfigurationError, RouterError
from ._events import OutcomeEvent, ReportEvent
from ._fanout import Step
from ._fleet import Fleet, LastKnown
from ._flush import Flush
from ._idle import Watch
from ._loads import Load
from ._report import Outcome, Report, log_failures
from ._rids import prefix_notes
from ._sweep import AbortSweep, IdleSweep
from ._urls import mask
from ._worker_calls import look_at, look_tries
from ._workers import Discovery, Worker

_LISTING_POLL_S = 0.25
_TEARDOWN_POLL_S = 0.25
_TEARDOWN_SETTLE = 2
_FLUSH_SHARE = 0.75
NO_SWEEP = "no rids and no abort_all=True: no worker was swept"
NO_FLUSH = "no instance ids: no agent was flushed"


class Operations:
    """What a client does; it keeps the settings and the workers it last saw.

    Args:
        settings: The client's settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last_known: LastKnown = {}  # replaced as a whole, never changed: threads and handlers may read it at any time

    def shown(self) -> str:
        """Return the settings for a repr, without keys and credentials."""
        settings = self._settings
        parts = [f"router_url={[mask(one.text) for one in settings.routers]}"] if settings.routers else []
        parts += [f"worker_urls={[mask(one.text) for one in settings.worker_urls]}"] if settings.worker_urls else []
        parts += [f"agent_server_url={mask(settings.agent_server.text)!r}"] if settings.agent_server else []
        return ", ".join([*parts, f"keys={settings.keys!r}", f"timeout_s={settings.timeout_s}"])

    def check_has_workers(self) -> None:
        """Raise unless there is somewhere to look for workers.

        Raises:
            ConfigurationError: The client has neither a router nor a worker URL.
        """
        if not (self._settings.routers or self._settings.worker_urls):
            raise ConfigurationError("this client has no router_url and no worker_urls: set router_url (or ABORT_SYNC_ROUTER_URL)")

    def discover(self, timeout_s: float) -> Discovery:
        """Learn the workers."""
        self.check_has_workers()
        call = Call("discover", self._settings, timeout_s)
        fleet = Fleet(call, self._last_known, may_use_last_known=False)
        call.run(fleet.learn())
        self._remember(fleet)
        return fleet.discovery()

    def wait_for_workers(self, n: int, timeout_s: float) -> tuple[Worker, ...]:
        """Learn the workers again and again until there are enough."""
        self.check_has_workers()
        call = Call("wait_for_workers", self._settings, timeout_s)
        fleet = Fleet(call, self._last_known, may_use_last_known=False)

        def wait() -> Generator[Step, None, None]:
            while True:
                yield from fleet.learn()
                if len(fleet.workers) >= n or fleet.is_refused:
                    return
                yield _LISTING_POLL_S

        call.run(wait())
        self._remember(fleet)
        discovery = fleet.discovery()
        if fleet.is_refused:
            discovery.raise_if_unknown()
        if len(discovery.workers) < n:
            why = fleet.error() or "is every worker up, and started with this router's URL?"
            raise RouterError(f"{len(discovery.workers)} of {n} workers were listed after {timeout_s:g} s: {why}")
        return discovery.workers

    def loads(self, timeout_s: float) -> dict[str, Optional[Load]]:
        """Look at every worker once."""
        self.check_has_workers()
        call = Call("loads", self._settings, timeout_s)
        fleet = Fleet(call, self._last_known, may_use_last_known=False)
        found: dict[str, Optional[Load]] = {}

        def look(worker: Worker) -> Generator[Step, None, None]:
            yield 0.0
            if worker.connection == "http":
                found[worker.shown] = look_at(call, worker, look_tries(worker))[0]

        def work() -> Generator[Step, None, None]:
            yield from fleet.learn()
            yield [look(one) for one in fleet.workers]

        call.run(work())
        self._remember(fleet)
        workers = fleet.discovery().raise_if_unknown().workers
        return {one.shown: found.get(one.shown) for one in workers}

    def abort(self, operation: str, rids: Sequence[Optional[str]], timeout_s: float) -> Report:
        """Abort each rid (None: everything) at each worker, once."""
        self.check_has_workers()
        call = Call(operation, self._settings, timeout_s)
        if not rids:
            return self._nothing(call, "no rids were given: there is nothing to abort")
        fleet = Fleet(call, self._last_known, may_use_last_known=None not in rids)
        sweep = AbortSweep(fleet, rids)
        call.run(sweep.work())
        notes = prefix_notes([rid for rid in rids if rid is not None])
        return self._report(call, sweep.outcomes(), fleet.error(is_covered_ok=True), notes + sweep.notes(), fleet)

    def until_idle(self, operation: str, rids: Sequence[Optional[str]], timeout_s: float, poll_s: float, settle: int) -> Report:
        """Abort at each worker until it is idle."""
        self.check_has_workers()
        call = Call(operation, self._settings, timeout_s)
        if not rids:
            return self._nothing(call, "no rids were given: there is nothing to abort")
        sweep = self._idle_sweep(call, rids, Watch(poll_s, settle))
        call.run(sweep.work())
        notes = prefix_notes([rid for rid in rids if rid is not None])
        return self._report(call, sweep.outcomes(), sweep.fleet.error(), notes + sweep.notes(), sweep.fleet)

    def flush(self, instance_ids: object, until_quiet: bool, timeout_s: float) -> Report:
        """Flush each instance id, all at once."""
        ids = self._checked_ids(instance_ids)
        call = Call("flush", self._settings, timeout_s)
        if not ids:
            return self._nothing(call, "no instance ids were given: there is nothing to flush")
        flushes = [Flush(call, one, until_quiet) for one in ids]
        call.run(_all([one.work() for one in flushes]))
        return self._report(call, [one.outcome() for one in flushes], None, [])

    def teardown(self, instance_ids: object, rids: Sequence[Optional[str]], until_idle: bool, timeout_s: float) -> Report:
        """Flush the instance ids and sweep the workers."""
        ids = self._checked_ids(instance_ids, is_needed=False)
        if rids:
            self.check_has_workers()
        call = Call("teardown", self._settings, timeout_s)
        if not ids and not rids:
            return self._nothing(call, "no instance ids and no rids were given: there is nothing to tear down")
        flushes = [Flush(call, one, until_quiet=until_idle) for one in ids]
        notes = prefix_notes([rid for rid in rids if rid is not None])
        if not rids:
            call.run(_all([one.work() for one in flushes]))
            return self._report(call, [one.outcome() for one in flushes], None, [NO_SWEEP])
        if not ids:
            notes.append(NO_FLUSH)
        sweep: AbortSweep | IdleSweep
        if until_idle:
            idle = sweep = self._idle_sweep(call, rids, Watch(_TEARDOWN_POLL_S, _TEARDOWN_SETTLE))
            idle.is_producing = lambda: not all(one.has_ended for one in flushes)
            call.run(_all([*(one.work() for one in flushes), idle.work()]))
        else:
            sweep = AbortSweep(Fleet(call, self._last_known, may_use_last_known=None not in rids), rids)
            flushes = [Flush(call, one, False, Deadline.after(timeout_s * _FLUSH_SHARE)) for one in ids]
            call.run(_one_after_another(_all([one.work() for one in flushes]), sweep.work()))
        error = sweep.fleet.error(is_covered_ok=not until_idle)
        outcomes = [*(one.outcome() for one in flushes), *sweep.outcomes()]
        return self._report(call, outcomes, error, notes + sweep.notes(), sweep.fleet, sweep.outcomes())

    def _idle_sweep(self, call: Call, rids: Sequence[Optional[str]], watch: Watch) -> IdleSweep:
        return IdleSweep(Fleet(call, self._last_known, may_use_last_known=None not in rids), rids, watch)

    def _checked_ids(self, instance_ids: object, is_needed: bool = True) -> list[str]:
        ids = instance_ids_of(instance_ids)
        if (ids or is_needed) and self._settings.agent_server is None:
            raise ConfigurationError("this client has no agent_server_url: set it (or AGENT_SERVER_URL) to flush instance ids")
        return ids

    def _remember(self, fleet: Fleet) -> None:
        if fleet.seen:
            self._last_known = {**self._last_known, **fleet.seen}

    def _nothing(self, call: Call, why: str) -> Report:
        report = Report(call.operation, error=why, elapsed_s=call.elapsed_s())
        log.info("%s: %s", call.operation, why)
        call.call_back(ReportEvent(report))
        return report

    def _report(
        self,
        call: Call,
        outcomes: Sequence[Outcome],
        error: Optional[str],
        notes: list[str],
        fleet: Optional[Fleet] = None,
        worker_outcomes: Optional[Sequence[Outcome]] = None,
    ) -> Report:
        if fleet is not None:
            self._remember(fleet)
            notes = notes + fleet.notes
            is_empty = not (outcomes if worker_outcomes is None else worker_outcomes)
            if is_empty and error is None and not self._settings.allow_empty:
                routers = ", ".join(mask(one.text) for one in self._settings.routers)
                error = f"nothing to abort at: no worker is listed by {routers} (allow_empty=True takes that for ok)"
        error = why_unsent() if sys.is_finalizing() else error
        scrub = call.scrub
        report = Report(
            call.operation, tuple(outcomes), error, tuple(scrub(note) for note in notes), call.elapsed_s(), self._settings.allow_empty
        )
        log_failures(report, log)
        for outcome in report.outcomes:
            call.call_back(OutcomeEvent(report.operation, outcome))
        call.call_back(ReportEvent(report))
        return report


def _all(works: Sequence[Generator[Step, None, None]]) -> Generator[Step, None, None]:
    yield works


def _one_after_another(*works: Generator[Step, None, None]) -> Generator[Step, None, None]:
    for work in works:
        yield from work
