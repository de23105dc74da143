"""The same job done in each way that people do it: ask a router for its workers, abort one rid at each."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Callable

import aiohttp
import httpx
import requests
from requests_futures.sessions import FuturesSession

from abort_sync import AbortClient

RID = "benchmark-rid"
BODY = {"rid": RID, "abort_all": False}
THREADS = 256


async def _asyncio_original(router: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{router}/workers") as response:
            urls = [one["url"] for one in (await response.json())["workers"]]

        async def abort(url: str) -> None:
            async with session.post(f"{url}/abort_request", json=BODY) as response:
                response.raise_for_status()

        await asyncio.gather(*(abort(url) for url in urls))


def asyncio_original(router: str) -> None:
    """The code that this library replaces: aiohttp, a session a call."""
    asyncio.run(_asyncio_original(router))


def _workers(router: str) -> list[str]:
    return [one["url"] for one in requests.get(f"{router}/workers", timeout=5).json()["workers"]]


def _post(url: str) -> None:
    requests.post(f"{url}/abort_request", json=BODY, timeout=5).raise_for_status()


def naive_pool(router: str) -> None:
    """`requests.post` for each worker in a thread pool."""
    urls = _workers(router)
    with ThreadPoolExecutor(min(THREADS, len(urls))) as pool:
        list(pool.map(_post, urls))


def requests_futures(router: str) -> None:
    """The package `requests-futures`."""
    urls = _workers(router)
    with FuturesSession(max_workers=min(THREADS, len(urls))) as session:
        for future in [session.post(f"{url}/abort_request", json=BODY, timeout=5) for url in urls]:
            future.result().raise_for_status()


def httpx_threads(router: str) -> None:
    """One `httpx.Client` shared by a thread pool."""
    with httpx.Client(timeout=5, limits=httpx.Limits(max_connections=THREADS)) as client:
        urls = [one["url"] for one in client.get(f"{router}/workers").json()["workers"]]
        with ThreadPoolExecutor(min(THREADS, len(urls))) as pool:
            for response in pool.map(lambda url: client.post(f"{url}/abort_request", json=BODY), urls):
                response.raise_for_status()


def one_after_another(router: str) -> None:
    """`requests.post` in a loop."""
    for url in _workers(router):
        _post(url)


def epoll_floor(router: str) -> None:
    """Bare non-blocking sockets and no checks at all: the floor."""
    urls = _workers(router)
    body = json.dumps(BODY).encode()
    request = b"POST /abort_request HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    poll = select.epoll()
    left: dict[int, socket.socket] = {}
    for url in urls:
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", int(url.rpartition(":")[2])))
        left[sock.fileno()] = sock
        poll.register(sock, select.EPOLLOUT)
    while left:
        for fd, event in poll.poll():
            sock = left[fd]
            if event & select.EPOLLOUT:
                sock.send(request)
                poll.modify(fd, select.EPOLLIN)
            else:
                assert sock.recv(4096).startswith(b"HTTP/1.1 200")
                poll.unregister(fd)
                left.pop(fd).close()


def ours_one_shot(router: str) -> None:
    """This library, a client made for the one abort."""
    report = AbortClient(router, timeout_s=60).abort_request(RID)
    assert report.ok, report


def ours_reused(router: str) -> Callable[[str], None]:
    """This library, one client for many aborts."""
    client = AbortClient(router, timeout_s=60)

    def abort(_: str) -> None:
        report = client.abort_request(RID)
        assert report.ok, report

    return abort


WAYS: dict[str, Callable[[str], None]] = {
    "abort_sync, client made for it": ours_one_shot,
    "asyncio original (aiohttp)": asyncio_original,
    "requests in a thread pool": naive_pool,
    "requests-futures": requests_futures,
    "httpx in threads": httpx_threads,
    "one after another": one_after_another,
    "bare epoll (the floor)": epoll_floor,
}
