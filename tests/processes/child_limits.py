"""Cases under a limit of threads: as another user, since root has none."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Sequence

from child import brief, client_for, main, tell

from abort_sync import AbortClient, Limits


def used_client(urls: Sequence[str], timeout_s: float) -> AbortClient:
    """Return a client that has been used, so that everything is loaded: the other user may read no file."""
    client = client_for(urls[-1:], timeout_s=timeout_s)
    client.abort_request("before").raise_if_incomplete()
    return client_for(urls, timeout_s=timeout_s, limits=Limits(read_s=30.0))


def become_somebody_else() -> None:
    if os.getuid() == 0:
        os.setuid(20_000 + os.getpid() % 40_000)  # a user of its own, so that nobody else's threads count


class Ballast:
    """Threads that do nothing, as many as can be had."""

    def __init__(self) -> None:
        self.ends: list[threading.Event] = []
        self.threads: list[threading.Thread] = []
        while self.start():
            pass

    def start(self) -> bool:
        end = threading.Event()
        one = threading.Thread(target=end.wait, daemon=True)
        try:
            one.start()
        except RuntimeError:
            return False
        self.ends.append(end)
        self.threads.append(one)
        return True

    def release(self, count: int) -> None:
        for _ in range(count):
            self.ends.pop().set()
            self.threads.pop().join()


def can_start(wanted: int) -> int:
    """Return how many threads can be started; one that has ended counts until the kernel has let it go, so look again for a while."""
    ends = time.monotonic() + 10.0
    while True:
        ballast = Ballast()
        count = len(ballast.threads)
        ballast.release(count)
        if count == wanted or time.monotonic() > ends:
            return count
        time.sleep(0.01)


def limit_to(few: int) -> Ballast:
    """Let exactly so many threads be started."""
    become_somebody_else()
    resource.setrlimit(resource.RLIMIT_NPROC, (max(1, 4 * few), max(1, 4 * few)))
    ballast = Ballast()
    ballast.release(few)
    return ballast


def limited(few: int, timeout_s: float, urls: Sequence[str]) -> None:
    """Abort where exactly so many threads can be started; end without what needs files or threads."""
    client = used_client(urls, timeout_s)
    ballast = limit_to(few)
    could_start = can_start(few)
    report = client.abort_request("limited")
    tell(could_start=could_start, can_start=can_start(few), ballast=len(ballast.threads), report=brief(report))
    os._exit(0)


def none(urls: Sequence[str]) -> None:
    limited(0, 20.0, urls)


def few(urls: Sequence[str]) -> None:
    limited(4, 20.0, urls)


def none_and_some_hang(urls: Sequence[str]) -> None:
    limited(0, 6.0, urls)


def few_and_more_hang(urls: Sequence[str]) -> None:
    limited(4, 6.0, urls)


if __name__ == "__main__":
    main(none, few, none_and_some_hang, few_and_more_hang)
