"""Cases about the end of the interpreter."""

from __future__ import annotations

import atexit
import signal
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from child import brief, client_for, main, tell

from abort_sync import AbortClient, Limits


def at_exit(urls: Sequence[str]) -> None:
    client = client_for(urls)
    atexit.register(lambda: tell(report=brief(client.abort_request("last"))))


def after_the_main_thread(urls: Sequence[str]) -> None:
    client = client_for(urls)

    def abort() -> None:
        threading.main_thread().join()
        while not is_shutting_down():
            time.sleep(0.01)
        tell(report=brief(client.abort_request("last")))

    threading.Thread(target=abort).start()


def is_shutting_down() -> bool:
    """Whether the interpreter takes no new work; the only way to ask before 3.13 is to look."""
    from concurrent.futures import thread

    return bool(thread._shutdown)


kept: Any = None


class AbortsWhenDeleted:
    def __init__(self, client: AbortClient) -> None:
        self.client = client
        self.tell, self.brief = tell, brief

    def __del__(self) -> None:
        self.tell(report=self.brief(self.client.abort_request("last")))


def deleted_as_a_global(urls: Sequence[str]) -> None:
    global kept
    kept = AbortsWhenDeleted(client_for(urls, timeout_s=8.0))


def deleted_in_a_cycle(urls: Sequence[str]) -> None:
    global kept
    kept = AbortsWhenDeleted(client_for(urls, timeout_s=8.0))
    kept.client.abort_request("first")
    kept.itself = kept


def deleted_with_another_module(urls: Sequence[str]) -> None:
    one = AbortsWhenDeleted(client_for(urls, timeout_s=8.0))
    one.client.abort_request("first")
    tell(used_at=time.monotonic())
    signal.kept = one  # type: ignore[attr-defined]


def after_a_deadline(urls: Sequence[str]) -> None:
    report = client_for(urls, timeout_s=1.0).abort_request("late")
    tell(back_at=time.monotonic(), **brief(report))


def after_a_resolver_that_hangs(urls: Sequence[str]) -> None:
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *rest: Any, **options: Any) -> Any:
        if host == "hangs.invalid" and not options.get("flags", 0) & socket.AI_NUMERICHOST:
            time.sleep(60.0)
        return real(host, *rest, **options)

    socket.getaddrinfo = getaddrinfo
    client = client_for([*urls, "http://hangs.invalid:80"], timeout_s=1.0, limits=Limits(connect_s=30.0))
    report = client.abort_request("late")
    tell(back_at=time.monotonic(), **brief(report))


if __name__ == "__main__":
    main(
        at_exit, after_the_main_thread, deleted_as_a_global, deleted_in_a_cycle, deleted_with_another_module,
        after_a_deadline, after_a_resolver_that_hangs,
    )  # fmt: skip
