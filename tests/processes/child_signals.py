"""Cases in which a signal interrupts the main thread."""

from __future__ import annotations

import concurrent.futures.thread as futures_thread
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from child import brief, client_for, main, tell

from abort_sync import Limits, Report


def on_signal(handler: Callable[[], object], number: int = signal.SIGALRM) -> None:
    signal.signal(number, lambda *_: handler())


def idle(urls: Sequence[str]) -> None:
    client = client_for(urls)
    reports: list[Report] = []
    on_signal(lambda: reports.append(client.abort_request("handler")))
    os.kill(os.getpid(), signal.SIGALRM)
    tell(ok=[one.ok for one in reports])


def hundred_fan_outs(urls: Sequence[str]) -> None:
    client = client_for(urls)
    chance = random.Random(20)
    handled: list[Report] = []
    interrupted: list[Report] = []
    on_signal(lambda: handled.append(client.abort_request(f"handler-{len(handled)}")))
    while len(handled) < 100:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.01))
        interrupted.append(client.abort_request(f"main-{len(interrupted)}"))
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    tell(handled=[one.ok for one in handled], interrupted=[one.ok for one in interrupted], threads=threading.active_count())


class Raised(BaseException):
    """What a handler raises, as KeyboardInterrupt is."""


def hundred_exceptions(urls: Sequence[str]) -> None:
    """Have a handler raise at a random moment of each of a hundred calls, whose first worker hangs."""
    client = client_for(urls, limits=Limits(read_s=30.0))
    chance = random.Random(5)

    def stop() -> None:
        raise Raised

    on_signal(stop)
    came_out: list[float] = []
    while len(came_out) < 100:
        began = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.02), 1.0)  # again, should it be lost in a callback
            client.abort_request("interrupted")
        except Raised:
            came_out.append(time.monotonic() - began)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    wait_for_threads_to_end()
    tell(longest_s=max(came_out), threads=threading.active_count(), after=brief(client_for(urls[1:]).abort_request("after")))


def wait_for_threads_to_end() -> None:
    ends = time.monotonic() + 20.0
    while threading.active_count() > 1 and time.monotonic() < ends:
        time.sleep(0.01)


def submits(urls: Sequence[str]) -> None:
    """Interrupt the caller's own `submit` until the handler has found its lock held 10 times."""
    client = client_for(urls)
    chance = random.Random(3)
    reports: list[Report] = []
    found: list[bool] = []

    def handler() -> None:
        found.append(futures_thread._global_shutdown_lock.locked())
        reports.append(client.abort_request(f"handler-{len(reports)}"))
        if not is_over:  # else a last signal would set it again, and end the process when its handler is gone
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.001, 0.003))

    is_over: list[bool] = []
    on_signal(handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    ends = time.monotonic() + 20.0
    while sum(found) < 10 and time.monotonic() < ends:
        with ThreadPoolExecutor(4) as executor:
            for _ in range(50):
                executor.submit(int)
    is_over.append(True)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    longest_s = max(one.elapsed_s for one in reports)
    tell(ok=all(one.ok for one in reports), longest_s=longest_s, handled=len(reports), found=sum(found))


def locks() -> dict[str, Any]:
    """The locks that `submit`, `Thread.start` and `Thread.join` hold while they work; not all exist in every Python."""
    named = {
        "submit": (futures_thread, "_global_shutdown_lock"),
        "start": (threading, "_active_limbo_lock"),
        "join": (threading, "_shutdown_locks_lock"),
    }
    return {name: getattr(room, lock) for name, (room, lock) in named.items() if hasattr(room, lock)}


def held_locks(urls: Sequence[str]) -> None:
    """Call while the calling thread itself holds a lock, as a handler does that interrupts it there."""
    for threads in (256, 1):
        client = client_for(urls, limits=Limits(threads=threads))
        for names in [[one] for one in locks()] + [list(locks())]:
            with ExitStack() as held:
                for name in names:
                    held.enter_context(locks()[name])
                report = client.abort_request(f"{'+'.join(names)}-{threads}")
            tell(**{f"{'+'.join(names)}-{threads}": brief(report)})
    tell(after=brief(client.abort_request("after")))
    wait_for_threads_to_end()  # those that waited for the locks
    tell(threads=threading.active_count())


def recipe(urls: Sequence[str]) -> None:
    """Raise in the handler, abort in `finally:`, as the README says."""
    client = client_for(urls)

    def stop(*_: object) -> None:
        raise SystemExit(3)

    signal.signal(signal.SIGTERM, stop)
    try:
        tell(ready=True)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60.0)
    finally:
        tell(report=brief(client.abort_request("recipe")))


def hung(urls: Sequence[str]) -> None:
    """A fan-out over workers that hang, which a signal ends; two threads, so most of them have not been called by then."""
    if sys.argv[1] == "terminated":

        def stop(*_: object) -> None:
            raise SystemExit(3)

        signal.signal(signal.SIGTERM, stop)
    try:
        client_for(urls, timeout_s=60.0, limits=Limits(threads=2, read_s=30.0)).abort_request("hung")
    finally:
        tell(at=time.monotonic(), raised=str(sys.exc_info()[0]))


def interrupted(urls: Sequence[str]) -> None:
    hung(urls)


def terminated(urls: Sequence[str]) -> None:
    hung(urls)


if __name__ == "__main__":
    main(idle, hundred_fan_outs, hundred_exceptions, submits, held_locks, recipe, interrupted, terminated)
