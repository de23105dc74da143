"""Cases about where in a process the client is called from."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from child import brief, client_for, main, tell

from abort_sync import Report


def worker_thread(urls: Sequence[str]) -> None:
    client = client_for(urls)
    reports: list[Report] = []
    for daemon in (False, True):
        one = threading.Thread(target=lambda: reports.append(client.abort_request("threaded")), daemon=daemon)
        one.start()
        one.join()
    tell(ok=[one.ok for one in reports])


def event_loop(urls: Sequence[str]) -> None:
    client = client_for(urls)

    async def abort() -> tuple[Report, Report]:
        inside = client.abort_request("inside")
        beside = await asyncio.get_running_loop().run_in_executor(None, client.abort_request, "beside")
        return inside, beside

    tell(ok=[one.ok for one in asyncio.run(abort())])


def shared(urls: Sequence[str]) -> None:
    client = client_for(urls)
    start = threading.Barrier(32)
    found: dict[str, dict[str, object]] = {}

    def abort(number: int) -> None:
        start.wait()
        for turn in range(5):
            rid = f"{number:02}-{turn}"
            report = client.abort_request(rid)
            found[rid] = {**brief(report), "rids": [one.rid for one in report.outcomes]}

    threads = [threading.Thread(target=abort, args=(number,)) for number in range(32)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    tell(found=found, left=[one.name for one in threading.enumerate() if one is not threading.main_thread()])


if __name__ == "__main__":
    main(worker_thread, event_loop, shared)
