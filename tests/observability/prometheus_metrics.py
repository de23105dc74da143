"""Counters and a histogram for Prometheus."""

from __future__ import annotations

from prometheus_client import REGISTRY, Counter, Histogram, generate_latest

from abort_sync import AbortClient, AttemptEvent, Event, OutcomeEvent

OUTCOMES = Counter("abort_outcomes", "What became of each target.", ["operation", "status"])
ATTEMPT_S = Histogram("abort_attempt_seconds", "How long one HTTP exchange took.", ["kind"])


def on_event(event: Event) -> None:
    """Count outcomes and time attempts."""
    if isinstance(event, OutcomeEvent):
        OUTCOMES.labels(event.operation, event.outcome.status.value).inc()
    elif isinstance(event, AttemptEvent):
        ATTEMPT_S.labels(event.kind).observe(event.attempt.elapsed_s)


if __name__ == "__main__":
    from abort_sync.testing import LocalFleet

    with LocalFleet(workers=2) as fleet:
        AbortClient(fleet.router_url, on_event=on_event).abort_request("rid-1")
    print("\n".join(line for line in generate_latest(REGISTRY).decode().splitlines() if line.startswith("abort_outcomes_total")))
