"""A client that nobody has used, in an object that goes when even this package's names are None."""

from __future__ import annotations

import sys
import threading

import abort_sync


class AbortsWhenDeleted:
    def __init__(self) -> None:
        self.client = abort_sync.AbortClient(worker_urls=sys.argv[2:])

    def __del__(self) -> None:
        self.client.abort_request("last")


threading.kept = AbortsWhenDeleted()  # type: ignore[attr-defined]  # made here
