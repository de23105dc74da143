"""What the child scripts have in common: they make a client, do one thing, and print what they saw as lines of JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from abort_sync import AbortClient, Report

logging.getLogger("abort_sync").addHandler(logging.NullHandler())  # stderr is for what nobody expects


def tell(**seen: Any) -> None:
    """Print what was seen."""
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()


def brief(report: Report) -> dict[str, Any]:
    """Return what the tests look at in a report."""
    return {
        "ok": report.ok,
        "error": report.error,
        "statuses": [one.status.value for one in report.outcomes],
        "errors": [one.error for one in report.outcomes],
        "elapsed_s": report.elapsed_s,
    }


def client_for(urls: Sequence[str], **options: Any) -> AbortClient:
    """Return a client of these workers that may take long, so that a test never depends on a quick machine."""
    return AbortClient(worker_urls=urls, **{"timeout_s": 20.0, **options})


def wait_for_go() -> None:
    """Wait until the parent says so."""
    sys.stdin.readline()


def seconds(work: Callable[[], object]) -> float:
    """Return how long a piece of work takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def main(*cases: Callable[[Sequence[str]], object]) -> None:
    """Run the case that the command line names, on its URLs."""
    named = {case.__name__: case for case in cases}
    named[sys.argv[1]](sys.argv[2:])
