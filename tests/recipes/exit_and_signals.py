"""Abort at exit, on SIGTERM and on Ctrl-C: raise in the handler, abort in `finally:` or at `atexit`."""

from __future__ import annotations

import atexit
import signal
import sys
from types import FrameType
from typing import Callable, Optional

from abort_sync import AbortClient, new_rid

unfinished: set[str] = set()


def on_sigterm(number: int, frame: Optional[FrameType]) -> None:
    """Do nothing here but raise: `finally:` and `atexit` come next."""
    sys.exit(128 + number)


def run(client: AbortClient, work: Callable[[str], None]) -> None:
    """Do some work under a rid; if it does not end well, its generation is stopped."""
    rid = new_rid()
    unfinished.add(rid)
    try:
        work(rid)
    except BaseException:
        client.abort_request(rid, timeout_s=5.0)
        raise
    finally:
        unfinished.discard(rid)


def stop_all(client: AbortClient) -> None:
    """Stop whatever is left when the interpreter ends."""
    if unfinished:
        print(client.abort_requests(sorted(unfinished), timeout_s=5.0))


if __name__ == "__main__":
    import os

    from abort_sync.testing import LocalFleet

    with LocalFleet(workers=2) as fleet:
        client = AbortClient(fleet.router_url)
        signal.signal(signal.SIGTERM, on_sigterm)
        atexit.register(stop_all, client)

        def work(rid: str) -> None:
            """Be killed in the middle of a generation."""
            fleet.workers[0].start_generation(rid)
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()

        try:
            run(client, work)
        except SystemExit as why:
            print("exit status", why.code, "still running:", set(fleet.workers[0].running))
