"""Each event as one JSON line in a log."""

from __future__ import annotations

import dataclasses
import json
import logging

from abort_sync import AbortClient, AttemptEvent, Event, ReportEvent

log = logging.getLogger("my_trainer.aborts")


def on_event(event: Event) -> None:
    """Log attempts and reports; no event ever holds a key."""
    if isinstance(event, AttemptEvent):
        log.info("%s", json.dumps({"kind": event.kind, "target": event.target, **dataclasses.asdict(event.attempt)}))
    elif isinstance(event, ReportEvent):
        log.info("%s", json.dumps({"ok": event.report.ok, "elapsed_s": event.report.elapsed_s}))


if __name__ == "__main__":
    import sys

    from abort_sync.testing import LocalFleet

    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    with LocalFleet(workers=2) as fleet:
        AbortClient(fleet.router_url, on_event=on_event).abort_request("rid-1")
