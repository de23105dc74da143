"""What became of a call: frozen, picklable, ready for JSON. This room knows nothing of HTTP or threads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Optional

from ._errors import AbortIncompleteError

if TYPE_CHECKING:
    from logging import Logger

MAX_LOGGED = 20
"""So many targets of one report are logged by name: a fleet that is down must not bury what else a log says."""


class Status(str, Enum):
    """The strongest claim about one target that all its attempts together allow."""

    ACCEPTED = "ACCEPTED"
    """The server answered 200: it took the order. This does not say that anything stopped."""
    IDLE = "IDLE"
    """Until idle only: the worker reported no work, several times in a row."""
    BUSY = "BUSY"
    """The deadline came while the worker still reported work (``Outcome.remaining``), or trials kept starting."""
    REFUSED = "REFUSED"
    """401 or 403: the server wants another key."""
    REJECTED = "REJECTED"
    """Any other answer that says no: redirects, other 4xx, and 5xx after the last attempt."""
    UNREACHABLE = "UNREACHABLE"
    """No byte of the request was sent: resolving, connecting or the TLS handshake failed or was still going on."""
    UNKNOWN = "UNKNOWN"
    """A request may have arrived and no usable answer came. It may or may not have been acted on."""
    NOT_SENT = "NOT_SENT"
    """Nothing was tried for this target: the deadline came first, or its worker had already proved unreachable."""
    UNSUPPORTED = "UNSUPPORTED"
    """The server has no such route (404, 405, 501), or HTTP cannot reach it."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Attempt:
    """One HTTP exchange with one target.

    Attributes:
        number: Counts from 1.
        elapsed_s: How long it took, in seconds.
        http_status: The status of the answer, or None when none came whole.
        error: What went wrong, or None.
    """

    number: int
    elapsed_s: float
    http_status: Optional[int] = None
    error: Optional[str] = None


@dataclass(frozen=True)
class Outcome:
    """What became of one target.

    Attributes:
        target: The worker's URL (credentials in it masked), or the instance id of a flush.
        via: How the worker was learned: ``"router"``, ``"direct"`` (the URL is a server itself), ``"given"``,
            ``"last_known"``; None for a flush.
        rid: The request id, or None where the order is not about one.
        status: The strongest claim that all attempts together allow.
        http_status: The status of the last whole answer, or None.
        attempts: Each exchange, in order; until idle, those of the last abort and the last look.
        elapsed_s: Seconds from the first attempt's start to the last one's end, waits included.
        error: Why the status is no better, as a sentence for a person; None when it is ok.
        cancelled: Flush: how many trials the server says it cancelled, over all flushes of this call; else None.
        remaining: Until idle: how many requests the worker last reported, where it could be read; else None.
    """

    target: str
    via: Optional[str]
    rid: Optional[str]
    status: Status
    http_status: Optional[int] = None
    attempts: tuple[Attempt, ...] = ()
    elapsed_s: float = 0.0
    error: Optional[str] = None
    cancelled: Optional[int] = None
    remaining: Optional[int] = None

    @property
    def ok(self) -> bool:
        """Whether the status is ACCEPTED or IDLE."""
        return self.status in (Status.ACCEPTED, Status.IDLE)

    def __str__(self) -> str:
        parts = [f"{self.status.value:<11}", self.target]
        if self.rid is not None:
            parts.append(f"rid={self.rid if self.rid.isprintable() else repr(self.rid)}")
        if self.via not in (None, "router"):
            parts.append(f"via={self.via}")
        if self.http_status is not None:
            parts.append(f"HTTP {self.http_status}")
        if self.cancelled is not None:
            parts.append(f"cancelled={self.cancelled}")
        if self.remaining is not None:
            parts.append(f"remaining={self.remaining}")
        if len(self.attempts) > 1:
            parts.append(f"attempts={len(self.attempts)}")
        return "  ".join(parts) + (f"  ({self.error})" if self.error else "")


@dataclass(frozen=True)
class Report:
    """What became of one call; it survives pickle and JSON and never holds a key.

    Attributes:
        operation: The method that made it.
        outcomes: One a target, in the order of the input.
        error: Why nothing, or not everything, could be tried; None when all could.
        notes: What a reader should know: a worker rewritten, an entry dropped, last known workers used and how old.
        elapsed_s: Seconds for the whole call.
        is_empty_ok: Whether a report without outcomes and without error counts as ok.
    """

    operation: str
    outcomes: tuple[Outcome, ...] = ()
    error: Optional[str] = None
    notes: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    is_empty_ok: bool = False

    @property
    def ok(self) -> bool:
        """Whether every outcome is ACCEPTED or IDLE, there was at least one, and nothing was left out."""
        return self.error is None and all(one.ok for one in self.outcomes) and (bool(self.outcomes) or self.is_empty_ok)

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The outcomes that are not ok."""
        return tuple(one for one in self.outcomes if not one.ok)

    def raise_if_incomplete(self) -> None:
        """Raise unless the report is ok.

        Raises:
            AbortIncompleteError: The report is not ok; the error holds it.
        """
        if not self.ok:
            raise AbortIncompleteError(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values that ``json.dumps`` takes; ``ok`` is included."""
        as_dict = asdict(self)
        del as_dict["is_empty_ok"]
        as_dict["notes"] = list(self.notes)
        as_dict["outcomes"] = [{**asdict(one), "status": one.status.value, "ok": one.ok} for one in self.outcomes]
        for one in as_dict["outcomes"]:
            one["attempts"] = list(one["attempts"])
        return {"ok": self.ok, **as_dict}

    def renamed(self, operation: str) -> Report:
        """Return the same report under another operation's name."""
        return replace(self, operation=operation)

    def with_error(self, error: str) -> Report:
        """Return the same report with one more ``error``: why not everything could be tried."""
        return replace(self, error="; ".join(one for one in (self.error, error) if one))

    def summary(self) -> str:
        """Return the first line of ``str()``: what was called, whether it is ok, and how many of each status."""
        if not self.outcomes:
            counts = "no targets"
        else:
            seen = [one.status.value for one in self.outcomes]
            counts = ", ".join(f"{seen.count(name)} {name}" for name in Status.__members__ if name in seen)
        return f"{self.operation}: {'ok' if self.ok else 'NOT OK'} in {self.elapsed_s:.2f} s, {counts}"

    def __str__(self) -> str:
        lines = [self.summary()]
        if self.error:
            lines.append(f"  error: {self.error}")
        lines += [f"  {one}" for one in self.outcomes]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def log_failures(report: Report, log: Logger) -> None:
    """Log a report's error and the targets that are not ok, as warnings; of many the first ones, and how many more there are."""
    if report.error is not None:
        log.warning("%s: %s", report.operation, report.error)
    failures = report.failures
    for outcome in failures[:MAX_LOGGED]:
        log.warning("%s: %s", report.operation, outcome)
    if len(failures) > MAX_LOGGED:
        log.warning("%s: %d more targets are not ok: the report has them", report.operation, len(failures) - MAX_LOGGED)
