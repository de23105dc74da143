"""A report and the events on the way to it, in words and in an exit status."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from abort_sync import AttemptEvent, Outcome, OutcomeEvent, Report, RoundEvent, Status
from abort_sync.cli._screen import Screen
from abort_sync.cli._status import NOT_WELL, NOTHING_TRIED, WELL
from abort_sync.cli._words import SEE_DOCTOR, as_options

HEADERS = ("STATUS", "TARGET", "RID", "VIA", "HTTP", "TRIES", "SECONDS", "LEFT", "CANCELLED", "WHY")
_WHAT_TO_DO = {
    Status.BUSY: "still at work at the deadline: find who keeps sending, or give it longer with --timeout",
    Status.REFUSED: "it wants another key: give --worker-admin-key-file FILE or --worker-key-file FILE",
    Status.REJECTED: "the server said no: read WHY, then the server's own log",
    Status.UNREACHABLE: "nothing arrived: is it running, and can this host reach that address? See doctor",
    Status.UNKNOWN: "it may have arrived: look with watch; an abort may be repeated, a flush goes on by itself",
    Status.NOT_SENT: "the time was over first: give it longer with --timeout",
    Status.UNSUPPORTED: "no such route, or HTTP cannot reach it: is the URL a worker's own, and its version current?",
}
_WHAT_TO_DO_FOR_FLUSH = {
    **_WHAT_TO_DO,
    Status.REFUSED: "it wants another secret: give --agent-secret-file FILE, or HARBOR_ADMIN_SECRET",
    Status.UNSUPPORTED: "no such route: give the agent server's base URL, without /flush",
}


def what_to_do(outcome: Outcome) -> str:
    """Say what to do about an outcome that is not ok. Only a flush goes `via` nothing."""
    return (_WHAT_TO_DO_FOR_FLUSH if outcome.via is None else _WHAT_TO_DO)[outcome.status]


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
        screen.print(f"error: {as_options(report.error)}; {SEE_DOCTOR}")
    if not screen.is_quiet:
        for note in report.notes:
            screen.print(f"note: {as_options(note)}")
    for line in dict.fromkeys(f"{outcome.status}: {what_to_do(outcome)}" for outcome in report.failures):
        screen.print(line)
    return exit_status(report)


def _row(outcome: Outcome) -> tuple[object, ...]:
    tries = len(outcome.attempts)
    return (
        outcome.status, outcome.target, outcome.rid, outcome.via, outcome.http_status, tries, f"{outcome.elapsed_s:.2f}",
        outcome.remaining, outcome.cancelled, as_options(outcome.error or ""),
    )  # fmt: skip


@contextlib.contextmanager
def progress(screen: Screen) -> Iterator[Callable[[object], None]]:
    """Give an `on_event` that keeps one line a target up to date while a call works.

    Where only plain lines can be printed, each piece of news is one: what did not change is not said again, and the
    outcomes are left to the report.
    """
    said: dict[tuple[str, str], str] = {}

    with screen.live(("STATE", "TARGET", "DETAIL")) as show:

        def tell(target: str, state: str, text: str) -> None:
            is_news = said.get((target, state)) != text
            said[target, state] = text
            show(target, (f"{state:<11}", target, text), is_news)

        def on_event(event: object) -> None:
            if isinstance(event, AttemptEvent):
                attempt = event.attempt
                tell(event.target, event.kind, f"HTTP {attempt.http_status}" if attempt.http_status else attempt.error or "")
            elif isinstance(event, RoundEvent):
                idle = f"{event.idle} of {event.workers} workers idle"
                tell("all workers", "round", f"{idle}, {event.remaining} requests left, {event.unknown} workers unreadable")
            elif isinstance(event, OutcomeEvent):
                outcome = event.outcome
                show(outcome.target, (f"{outcome.status!s:<11}", outcome.target, outcome.error or ""), False)

        yield on_event
