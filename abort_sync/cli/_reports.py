"""A report and the events on the way to it, in words and in an exit status."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from abort_sync import AttemptEvent, Outcome, OutcomeEvent, Report, RoundEvent, Status
from abort_sync.cli._screen import Screen

WELL, NOT_WELL, MISUSE, NOTHING_TRIED, INTERRUPTED = 0, 1, 2, 3, 130

HEADERS = ("STATUS", "TARGET", "RID", "VIA", "HTTP", "TRIES", "SECONDS", "LEFT", "CANCELLED", "WHY")

_WHAT_TO_DO = {
    Status.BUSY: "still at work at the deadline: find who keeps sending, or give it longer with --timeout",
    Status.REFUSED: "it wants another key: --worker-admin-key-file or --worker-key-file; a flush --agent-secret-file",
    Status.REJECTED: "the server said no: read WHY, then the server's own log",
    Status.UNREACHABLE: "nothing arrived: is it running, and can this host reach that address? See doctor",
    Status.UNKNOWN: "it may have arrived: look with watch; an abort may be repeated, a flush goes on by itself",
    Status.NOT_SENT: "the time was over first: give it longer with --timeout",
    Status.UNSUPPORTED: "no such route, or HTTP cannot reach it: is the URL a worker's own, and its version current?",
}


def exit_status(report: Report) -> int:
    """Say a report as an exit status: 0 all well, 1 something was not, 3 nothing could be tried."""
    if report.ok:
        return WELL
    return NOT_WELL if report.outcomes else NOTHING_TRIED


def show_report(screen: Screen, report: Report) -> int:
    """Print a report as a table with what to do about each kind of failure, and return the exit status."""
    if screen.is_json:
        screen.print_json(report.to_dict())
        return exit_status(report)
    outcomes = report.failures if screen.is_quiet else report.outcomes
    if outcomes:
        screen.table(HEADERS, [_row(outcome) for outcome in outcomes])
    if not screen.is_quiet or not report.ok:
        screen.print(report.summary())
    if report.error:
        screen.print(f"error: {report.error}")
    if not screen.is_quiet:
        for note in report.notes:
            screen.print(f"note: {note}")
    for status in dict.fromkeys(outcome.status for outcome in report.failures):
        screen.print(f"{status}: {_WHAT_TO_DO[status]}")
    return exit_status(report)


def _row(outcome: Outcome) -> tuple[object, ...]:
    tries = len(outcome.attempts)
    return (
        outcome.status, outcome.target, outcome.rid, outcome.via, outcome.http_status, tries, f"{outcome.elapsed_s:.2f}",
        outcome.remaining, outcome.cancelled, outcome.error,
    )  # fmt: skip


@contextlib.contextmanager
def progress(screen: Screen) -> Iterator[Callable[[object], None]]:
    """Give an `on_event` that keeps one line a target up to date while a call works."""
    with screen.live(("STATE", "TARGET", "DETAIL")) as show:

        def on_event(event: object) -> None:
            if isinstance(event, OutcomeEvent):
                outcome = event.outcome
                rid = f"rid {outcome.rid}" if outcome.rid else ""
                show(outcome.target, (f"{outcome.status!s:<11}", outcome.target, rid or outcome.error or ""))
            elif isinstance(event, RoundEvent):
                idle = f"{event.idle} of {event.workers} workers idle"
                left = f"{event.remaining} requests left, {event.unknown} workers unreadable"
                show("", (f"{'round':<11}", f"number {event.number}", f"{idle}, {left}"))
            elif isinstance(event, AttemptEvent):
                attempt = event.attempt
                answer = f"HTTP {attempt.http_status}" if attempt.http_status else attempt.error or ""
                show(event.target, (event.kind, event.target, f"try {attempt.number}: {answer}"), is_minor=True)

        yield on_event
