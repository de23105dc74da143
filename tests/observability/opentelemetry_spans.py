"""One span a call, with an event for each outcome that is not ok."""

from __future__ import annotations

import time

from opentelemetry import trace

from abort_sync import AbortClient, Event, ReportEvent


def on_event(event: Event) -> None:
    """Make a span of the finished report."""
    if not isinstance(event, ReportEvent):
        return
    report = event.report
    end_ns = time.time_ns()
    span = trace.get_tracer("my_trainer").start_span(report.operation, start_time=end_ns - int(report.elapsed_s * 1e9))
    span.set_attribute("abort.ok", report.ok)
    span.set_attribute("abort.targets", len(report.outcomes))
    for outcome in report.failures:
        span.add_event("not ok", {"target": outcome.target, "status": outcome.status.value, "error": outcome.error or ""})
    span.end(end_ns)


if __name__ == "__main__":
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    from abort_sync.testing import LocalFleet

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(provider)
    with LocalFleet(workers=2) as fleet:
        fleet.workers[1].kill()
        AbortClient(fleet.router_url, on_event=on_event).abort_request("rid-1")
