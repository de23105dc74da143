"""The whole fleet on loopback: starts and ends the servers together."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._agent import LoopbackAgentServer
from ._http import LoopbackServer
from ._router import LoopbackRouter
from ._worker import LoopbackWorker

if TYPE_CHECKING:
    from abort_sync import AbortClient


class LocalFleet:
    """A router, workers and an agent server on real sockets at 127.0.0.1, to test scripts against.

    Use it as a context manager; leaving the block ends all servers within a second, hanging connections included::

        with LocalFleet(workers=3) as fleet:
            fleet.workers[0].start_generation("rid-1")
            fleet.workers[1].behave(Behaviour.hang())
            fleet.workers[2].kill()  # still listed, its port closed
            report = fleet.client(timeout_s=2.0).abort_request("rid-1")

    Args:
        workers: How many workers, 0 or more.
        agent_server: Whether there is an agent server.
        router_key: The router's `--api-key`.
        worker_key: The workers' `--api-key`.
        worker_admin_key: The workers' `--admin-api-key`: aborts then take only this one.
        agent_secret: The agent server's `HARBOR_ADMIN_SECRET`.
        dialect: How the router lists: `"workers"`, `"list_workers"` or `"both"`.
        token_s: Seconds a token of a generation.
        teardown_s: Seconds from a flush that cancels something to its answer.
        load_routes: Which of `/v1/loads` and `/get_load` the workers have.
        tls: A server-side context makes all servers speak HTTPS.
    """

    def __init__(
        self,
        workers: int = 3,
        *,
        agent_server: bool = True,
        router_key: str | None = None,
        worker_key: str | None = None,
        worker_admin_key: str | None = None,
        agent_secret: str | None = None,
        dialect: str = "workers",
        token_s: float = 0.01,
        teardown_s: float = 0.05,
        load_routes: Iterable[str] = ("/v1/loads",),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._keys = {"router": router_key, "worker": worker_key, "worker_admin": worker_admin_key, "agent": agent_secret}
        self._worker_options: dict[str, Any] = {
            "key": worker_key,
            "admin_key": worker_admin_key,
            "token_s": token_s,
            "load_routes": tuple(load_routes),
            "tls": tls,
        }
        self._pid = os.getpid()
        self._workers: list[LoopbackWorker] = []
        self._servers: list[LoopbackServer] = []
        try:
            self.router = LoopbackRouter(dialect=dialect, key=router_key, tls=tls)
            self._servers.append(self.router)
            self._agent: LoopbackAgentServer | None = None
            if agent_server:
                self._agent = LoopbackAgentServer(secret=agent_secret, teardown_s=teardown_s, tls=tls)
                self._servers.append(self._agent)
            for _ in range(workers):
                self.add_worker()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> LocalFleet:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def router_url(self) -> str:
        """The router's base URL."""
        return self.router.url

    @property
    def agent(self) -> LoopbackAgentServer:
        """The agent server; raises `LookupError` if the fleet was made without."""
        if self._agent is None:
            raise LookupError("this fleet has no agent server: LocalFleet(agent_server=True)")
        return self._agent

    @property
    def agent_url(self) -> str | None:
        """The agent server's base URL, or None if there is none."""
        return self._agent.url if self._agent else None

    @property
    def workers(self) -> tuple[LoopbackWorker, ...]:
        """All workers ever started, in order, listed or not, alive or not."""
        return tuple(self._workers)

    @property
    def worker_urls(self) -> tuple[str, ...]:
        """The URLs of `workers`; what the router lists is `router.worker_urls`."""
        return tuple(worker.url for worker in self._workers)

    def add_worker(self) -> LoopbackWorker:
        """Start one more worker and list it."""
        worker = LoopbackWorker(f"worker-{len(self._workers)}", **self._worker_options)
        self._servers.append(worker)
        self._workers.append(worker)
        self.router.worker_urls += (worker.url,)
        return worker

    def remove_worker(self, index: int) -> None:
        """Take `workers[index]` from the router's listing; the worker itself lives on."""
        gone = self._workers[index].url
        self.router.worker_urls = tuple(url for url in self.router.worker_urls if url != gone)

    def client(self, **overrides: Any) -> AbortClient:
        """Return an `abort_sync.AbortClient` that knows this fleet and its keys.

        Args:
            overrides: Arguments of `AbortClient` that go before what the fleet would give.
        """
        from abort_sync import AbortClient, Keys

        settings: dict[str, Any] = {
            "router_url": self.router_url,
            "agent_server_url": self.agent_url,
            "keys": Keys(**self._keys),
        }
        return AbortClient(**{**settings, **overrides})

    def close(self) -> None:
        """End all servers and their threads, within a second; in a forked child it does nothing."""
        if os.getpid() != self._pid:
            return  # the sockets are shared: shutting them down would end the parent's fleet
        deadline = time.monotonic() + 1.0
        for server in self._servers:
            server.kill()  # all first: a router may wait for a worker
        for server in self._servers:
            server.close(timeout_s=max(0.0, deadline - time.monotonic()))
