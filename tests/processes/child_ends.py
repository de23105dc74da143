"""Cases about the end of the interpreter."""

from __future__ import annotations

import atexit
import builtins
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from child import brief, client_for, main, tell

from abort_sync import AbortClient, Limits, abort_sglang_request


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


class AbortsWithoutLibraries:
    """Lives on in a module of the standard library, so it goes when most of that is gone; it needs nothing of it to tell."""

    def __init__(self, client: AbortClient, kept_in: str) -> None:
        self.client, self.kept_in, self.write, self.hook = client, kept_in, os.write, abort_sglang_request

    def __del__(self) -> None:
        reports = (
            self.client.abort_request("last"),
            self.client.abort_all_until_idle(),
            self.client.flush(["last"], until_quiet=True),
            self.client.teardown(["last"], rids=["last"]),
            self.hook("http://127.0.0.1:1", "last"),
        )
        for report in reports:
            is_ok = "true" if report.ok else "false"
            line = f'{{"{self.kept_in} {report.operation}": {{"ok": {is_ok}, "error": "{report.error}"}}}}\n'
            self.write(1, line.encode())


def deleted_with_the_standard_library(urls: Sequence[str]) -> None:
    client = client_for(urls, timeout_s=8.0, agent_server_url=urls[0])
    client.abort_request("first")
    tell(used_at=time.monotonic())
    for module in (signal, time, threading, logging, json, os, builtins):
        module.kept = AbortsWithoutLibraries(client, module.__name__)  # type: ignore[attr-defined]  # made here


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
        at_exit, after_the_main_thread, deleted_as_a_global, deleted_in_a_cycle, deleted_with_the_standard_library,
        after_a_deadline, after_a_resolver_that_hangs,
    )  # fmt: skip
