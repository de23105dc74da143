"""Cases that start further processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from child import brief, client_for, main, tell, wait_for_go

from abort_sync import AbortClient, AbortIncompleteError, AttemptEvent, ConfigurationError, Limits, Report


def abort_and_tell(client: AbortClient) -> None:
    tell(child=brief(client.abort_request("child")))


def started(method: str, urls: Sequence[str]) -> None:
    client = client_for(urls)
    tell(before=brief(client.abort_request("before")))
    process = multiprocessing.get_context(method).Process(target=abort_and_tell, args=(client,))
    process.start()
    process.join()
    tell(code=process.exitcode, after=brief(client.abort_request("after")))


def fork(urls: Sequence[str]) -> None:
    started("fork", urls)


def spawn(urls: Sequence[str]) -> None:
    started("spawn", urls)


def forkserver(urls: Sequence[str]) -> None:
    started("forkserver", urls)


def in_a_fork(work: Any) -> int:
    """Do a piece of work in a forked child and return its exit code."""
    pid = os.fork()
    if not pid:
        work()
        sys.stdout.flush()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_in_the_middle(urls: Sequence[str]) -> None:
    client = client_for(urls, limits=Limits(read_s=4.0, attempts=1))
    reports: list[Report] = []
    other = threading.Thread(target=lambda: reports.append(client.abort_request("other")))
    other.start()
    wait_for_go()  # one worker hangs on "other" now
    code = in_a_fork(lambda: abort_and_tell(client))
    is_in_the_middle = not reports
    other.join()
    tell(code=code, is_in_the_middle=is_in_the_middle, other=brief(reports[0]))


def forks_among_fan_outs(urls: Sequence[str]) -> None:
    client = client_for(urls)
    is_over = threading.Event()
    reports: list[Report] = []

    def fan_out() -> None:
        while not is_over.is_set():
            reports.append(client.abort_request("other"))

    others = [threading.Thread(target=fan_out) for _ in range(3)]
    for one in others:
        one.start()
    codes = [in_a_fork(lambda: client.abort_request("child").raise_if_incomplete()) for _ in range(20)]
    is_over.set()
    for one in others:
        one.join()
    tell(codes=codes, ok=all(one.ok for one in reports))


def fork_inside_a_call(urls: Sequence[str]) -> None:
    pids: list[int] = []

    def on_event(event: object) -> None:
        if isinstance(event, AttemptEvent) and not pids:
            wait_for_go()  # the other worker has the abort too, and does not answer yet
            pids.append(os.fork())
            if not pids[0]:
                raise SystemExit

    client = client_for(urls, limits=Limits(read_s=3.0, attempts=1), on_event=on_event)
    try:
        report = client.abort_request("forking")
    except SystemExit:
        os._exit(7)
    tell(code=os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]), **brief(report))


def abort(client: AbortClient, rid: str) -> Report:
    return client.abort_request(rid)


def fail(client: AbortClient, rid: str) -> None:
    AbortClient(worker_urls=["http://127.0.0.1:1"], limits=Limits(attempts=1)).abort_request(rid).raise_if_incomplete()


def misuse(client: AbortClient, rid: str) -> None:
    client.abort_request("")


def tell_pool(call: Any, client: AbortClient) -> None:
    tell(report=brief(call(abort, client, "pool")))
    try:
        call(fail, client, "pool")
    except AbortIncompleteError as why:
        tell(incomplete=brief(why.report), text=str(why))
    try:
        call(misuse, client, "pool")
    except ConfigurationError as why:
        tell(misuse=str(why))


def in_executor(method: str, urls: Sequence[str]) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        tell_pool(lambda *work: pool.submit(*work).result(), client_for(urls))


def in_pool(method: str, urls: Sequence[str]) -> None:
    pool = multiprocessing.get_context(method).Pool(1)
    tell_pool(lambda work, *args: pool.apply(work, args), client_for(urls))
    pool.close()
    pool.join()


def executor_fork(urls: Sequence[str]) -> None:
    in_executor("fork", urls)


def executor_spawn(urls: Sequence[str]) -> None:
    in_executor("spawn", urls)


def pool_fork(urls: Sequence[str]) -> None:
    in_pool("fork", urls)


def pool_forkserver(urls: Sequence[str]) -> None:
    in_pool("forkserver", urls)


if __name__ == "__main__":
    main(
        fork, spawn, forkserver, fork_in_the_middle, forks_among_fan_outs, fork_inside_a_call,
        executor_fork, executor_spawn, pool_fork, pool_forkserver,
    )  # fmt: skip
