"""AbortClient: wires the rooms. It holds settings and the workers it last saw, and no socket, thread or executor."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Optional, Union

from ._args import kwargs_from_args, kwargs_from_env
from ._call import reports_to_the_end
from ._config import Keys, Limits, Settings, Urls, check_count, check_flag, check_logger, check_seconds, check_urls, check_verify
from ._errors import ConfigurationError
from ._events import OnEvent
from ._guard import AbortGuard
from ._loads import Load
from ._operations import Operations
from ._report import Report
from ._rids import check_rid, check_rids
from ._workers import Discovery, Worker


class AbortClient:
    """Stops work in flight on every server that holds it, and says truthfully what happened.

    A client is a value: settings, and the workers it last saw. No socket, thread or executor outlives a call, so one client may
    be shared by threads, forked and pickled (a pickle holds the keys). Every method blocks, also inside an event loop.

    One deadline bounds a whole call, whatever any server, resolver or thread does. Left unbounded: your own ``on_event``
    callback and log handlers, which run in the calling thread; and, only where no thread can be started at all, the look-up of a
    host *name*. A name's look-up may go on in a daemon thread after a call; it does not hold the exit.

    Trouble on the network is never raised by ``abort_*``, ``flush`` and ``teardown``: it stands in the report, and the targets that
    are not ok are logged as warnings by the logger ``abort_sync`` (the first 20 of many, and how many more). The router is trusted
    with the workers' keys, since it names the workers that get them: a second set of keys is a second client.

    Args:
        router_url: One URL or several: routers, or SGLang servers themselves.
        worker_urls: Workers known without a router.
        agent_server_url: The agent server that has ``POST /flush``.
        keys: The secrets, each sent only where it belongs.
        timeout_s: Seconds for a whole call, listing and aborts together; above 0, at most 7 days.
        flush_timeout_s: Seconds for a whole flush or teardown (an agent server answers after its teardown).
        limits: Bounds for one attempt, the number of attempts, and the threads.
        trust_env: Whether proxy variables, CA variables and ``.netrc`` are used.
        verify: True, False, or the path of a CA bundle.
        allow_empty: Whether an empty worker list is ok.
        exclusive: False: others use this fleet too. Then ``abort_all`` is refused, and a busy worker is not called BUSY with your rids.
        rewrite_local_urls: A worker that a remote router lists as 127.x, localhost, 0.0.0.0 or [::1] is on the router's host.
        on_event: Is called with each event, in the calling thread; what it raises is logged and never fails an abort.

    Raises:
        ConfigurationError: A value cannot be used, or no URL was given at all. Nothing has been sent.
    """

    def __init__(
        self,
        router_url: Urls = None,
        *,
        worker_urls: Urls = (),
        agent_server_url: Optional[str] = None,
        keys: Optional[Keys] = None,
        timeout_s: float = 10.0,
        flush_timeout_s: float = 120.0,
        limits: Optional[Limits] = None,
        trust_env: bool = False,
        verify: Union[bool, str] = True,
        allow_empty: bool = False,
        exclusive: bool = True,
        rewrite_local_urls: bool = True,
        on_event: Optional[OnEvent] = None,
    ) -> None:
        agents = check_urls("agent_server_url", agent_server_url)
        if len(agents) > 1:
            raise ConfigurationError("agent_server_url must be one URL: make a second client for a second agent server")
        if keys is not None and not isinstance(keys, Keys):
            raise ConfigurationError("keys must be a Keys(router=..., worker=..., worker_admin=..., agent=...)")
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigurationError("limits must be a Limits(connect_s=..., read_s=..., attempts=..., threads=...)")
        if on_event is not None and not callable(on_event):
            raise ConfigurationError("on_event must be a callable that takes one event, or None")
        self._settings = Settings(
            routers=check_urls("router_url", router_url),
            worker_urls=check_urls("worker_urls", worker_urls),
            agent_server=agents[0] if agents else None,
            keys=keys or Keys(),
            timeout_s=check_seconds("timeout_s", timeout_s),
            flush_timeout_s=check_seconds("flush_timeout_s", flush_timeout_s),
            limits=limits or Limits(),
            trust_env=check_flag("trust_env", trust_env),
            verify=check_verify(verify),
            allow_empty=check_flag("allow_empty", allow_empty),
            exclusive=check_flag("exclusive", exclusive),
            rewrite_local_urls=check_flag("rewrite_local_urls", rewrite_local_urls),
            on_event=on_event,
        )
        if not (self._settings.routers or self._settings.worker_urls or agents):
            raise ConfigurationError(
                "no URL was given: set router_url (or ABORT_SYNC_ROUTER_URL), worker_urls, or agent_server_url (or AGENT_SERVER_URL)"
            )
        self._operations = Operations(self._settings)

    @classmethod
    def from_env(cls, **overrides: Any) -> AbortClient:
        """Make a client from the environment, read now.

        ``ABORT_SYNC_ROUTER_URL`` (several separated by commas), ``ABORT_SYNC_ROUTER_KEY``, ``ABORT_SYNC_WORKER_KEY``,
        ``ABORT_SYNC_WORKER_ADMIN_KEY``; ``AGENT_SERVER_URL``, else ``SWE_AGENT_URL``; ``HARBOR_ADMIN_SECRET``.

        Args:
            overrides: Arguments of the constructor; they win.

        Raises:
            ConfigurationError: As the constructor.
        """
        return cls(**{**kwargs_from_env(), **overrides})

    @classmethod
    def from_args(cls, args: object, **overrides: Any) -> AbortClient:
        """Make a client from a driver's ``args``: its routers and engines; the rest as ``from_env``.

        Reads ``sglang_router_ip`` and ``sglang_router_port``, ``sglang_model_routers`` (``{name: (ip, port)}``) and
        ``rollout_external_engine_addrs`` from attributes or from a mapping.

        Args:
            args: The driver's arguments.
            overrides: Arguments of the constructor; they win.

        Raises:
            ConfigurationError: As the constructor, or ``args`` cannot be read.
        """
        return cls(**{**kwargs_from_env(), **kwargs_from_args(args), **overrides})

    def workers(self, *, timeout_s: Optional[float] = None) -> tuple[Worker, ...]:
        """Return the workers: each router's as listed now, then the given ones, each once.

        Args:
            timeout_s: Seconds for this call; None for the client's.

        Raises:
            RouterError: They cannot be learned; ``RouterRefusedError`` where a router wants another key.
            ConfigurationError: The client has no router and no worker URL.
        """
        return self.discover(timeout_s=timeout_s).raise_if_unknown().workers

    def discover(self, *, timeout_s: Optional[float] = None) -> Discovery:
        """Return the workers with what was dropped or rewritten and why, and what each router turned out to be.

        Args:
            timeout_s: Seconds for this call; None for the client's.

        Raises:
            ConfigurationError: The client has no router and no worker URL.
        """
        return self._operations.discover(self._seconds(timeout_s))

    def wait_for_workers(self, n: int, timeout_s: float = 60.0) -> tuple[Worker, ...]:
        """Return the workers as soon as there are at least ``n`` (registration at a router is asynchronous).

        Args:
            n: How many, from 1.
            timeout_s: Seconds.

        Raises:
            RouterError: There were fewer in time, or a router refused.
            ConfigurationError: ``n`` is no positive whole number, or the client has no router and no worker URL.
        """
        check_count("n", n, 1, 1_000_000)
        return self._operations.wait_for_workers(n, check_seconds("timeout_s", timeout_s))

    def loads(self, *, timeout_s: Optional[float] = None) -> dict[str, Optional[Load]]:
        """Return what each worker says it has, by its URL (credentials masked); None where that cannot be read.

        Args:
            timeout_s: Seconds for this call; None for the client's.

        Raises:
            RouterError: The workers cannot be learned.
            ConfigurationError: The client has no router and no worker URL.
        """
        return self._operations.loads(self._seconds(timeout_s))

    @reports_to_the_end
    def abort_request(self, rid: str, *, timeout_s: Optional[float] = None) -> Report:
        """Abort one request on every worker.

        ``ok`` means that every worker accepted; not that anything stopped, see ``abort_until_idle``. The engine matches by
        prefix: aborting a live ``run_1`` also ends ``run_10``; see ``new_rid``.

        Args:
            rid: The request's id; not blank.
            timeout_s: Seconds for this call; None for the client's.

        Raises:
            ConfigurationError: The rid is not usable, or the client has no router and no worker URL. Nothing has been sent.

        Source: SGLang 0.5.23, measured: 200 with an empty body for known and unknown rids alike.
        """
        return self._operations.abort("abort_request", [check_rid(rid)], self._seconds(timeout_s))

    @reports_to_the_end
    def abort_requests(self, rids: Iterable[str], *, timeout_s: Optional[float] = None) -> Report:
        """Abort several requests on every worker; one outcome per rid and worker, rid-major.

        A worker's rids are sent in order by one task; a worker that proves unreachable gets no more of them. An empty list is
        no misuse: the report's ``error`` says that there was nothing to do.

        Args:
            rids: The ids; each is sent once.
            timeout_s: Seconds for this call; None for the client's.

        Raises:
            ConfigurationError: A rid is not usable, or the client has no router and no worker URL. Nothing has been sent.
        """
        return self._operations.abort("abort_requests", check_rids(rids), self._seconds(timeout_s))

    @reports_to_the_end
    def abort_all(self, *, timeout_s: Optional[float] = None) -> Report:
        """Abort every request on every worker, whoever sent it.

        Args:
            timeout_s: Seconds for this call; None for the client's.

        Raises:
            ConfigurationError: The fleet is shared (``exclusive=False``), or the client has no router and no worker URL.
        """
        self._check_exclusive("abort_all")
        return self._operations.abort("abort_all", [None], self._seconds(timeout_s))

    @reports_to_the_end
    def abort_until_idle(self, rids: Iterable[str], *, timeout_s: float = 30.0, poll_s: float = 0.25, settle: int = 2) -> Report:
        """Abort requests, look, and abort again, until every worker reported no work ``settle`` times in a row.

        One outcome a worker: IDLE; BUSY with ``remaining``; UNKNOWN where the load cannot be read, or (``exclusive=False``) where
        others' requests may be what is left. The workers are listed again between rounds; a router that does not answer is asked
        again for some 5 s. A generate that a *paused* engine
        holds back before its scheduler shows in no load.

        Args:
            rids: The ids.
            timeout_s: Seconds for the whole call.
            poll_s: Seconds between two looks at one worker.
            settle: How many readings without work in a row make a worker idle, 1 to 100.

        Raises:
            ConfigurationError: An argument is not usable, or the client has no router and no worker URL.
        """
        return self._until_idle("abort_until_idle", check_rids(rids), timeout_s, poll_s, settle)

    @reports_to_the_end
    def abort_all_until_idle(self, *, timeout_s: float = 30.0, poll_s: float = 0.25, settle: int = 2) -> Report:
        """Abort everything on every worker until all are idle, or the deadline; else as ``abort_until_idle``.

        Args:
            timeout_s: Seconds for the whole call.
            poll_s: Seconds between two looks at one worker.
            settle: How many readings without work in a row make a worker idle, 1 to 100.

        Raises:
            ConfigurationError: The fleet is shared (``exclusive=False``), or as ``abort_until_idle``.
        """
        self._check_exclusive("abort_all_until_idle")
        return self._until_idle("abort_all_until_idle", [None], timeout_s, poll_s, settle)

    @reports_to_the_end
    def flush(self, instance_ids: object, *, until_quiet: bool = False, timeout_s: Optional[float] = None) -> Report:
        """Cancel the agent trials of each instance id, all at once; one outcome per id, ``cancelled`` as the server counted.

        The agent server answers after its teardown. A flush is repeated only if it surely did not arrive; else its outcome is
        UNKNOWN: delivered, still tearing down.

        Args:
            instance_ids: A mapping (its values), an iterable, or one string; objects with ``instance_id`` are read; None and
                ``""`` are left out; each id is flushed once.
            until_quiet: Flush again, spaced, until two flushes in a row found nothing: a trial that waits for a slot is not
                counted and starts after the flush.
            timeout_s: Seconds for this call; None for the client's ``flush_timeout_s``.

        Raises:
            ConfigurationError: An id is no string, or the client has no agent server URL. Nothing has been sent.
        """
        return self._operations.flush(instance_ids, check_flag("until_quiet", until_quiet), self._flush_seconds(timeout_s))

    @reports_to_the_end
    def teardown(
        self,
        instance_ids: object = (),
        *,
        rids: Iterable[str] = (),
        abort_all: bool = False,
        until_idle: bool = True,
        timeout_s: Optional[float] = None,
    ) -> Report:
        """Flush the agents and sweep the workers, in one report: first the instance ids, then the workers.

        With ``until_idle`` both go on at the same time, and no worker counts as idle before the agents are quiet, since they may
        send new requests until then. Without, the workers are aborted once, after the flush. Without ``rids`` and
        ``abort_all`` no worker is swept, and a note says so.

        Args:
            instance_ids: As ``flush``.
            rids: What to abort on the workers.
            abort_all: Abort everything on them instead.
            until_idle: Go on until the workers are idle and the agents quiet.
            timeout_s: Seconds for this call; None for the client's ``flush_timeout_s``.

        Raises:
            ConfigurationError: An argument is not usable, a URL that is needed is missing, or ``abort_all`` on a shared fleet.
        """
        if check_flag("abort_all", abort_all):
            self._check_exclusive("teardown(abort_all=True)")
        wanted: list[Optional[str]] = [None] if abort_all else [*check_rids(rids)]
        return self._operations.teardown(instance_ids, wanted, check_flag("until_idle", until_idle), self._flush_seconds(timeout_s))

    def abort_on_exit(self, *rids: str, logger: Optional[logging.Logger] = None) -> AbortGuard:
        """Return a context manager that aborts the rids if its block ends by any exception, which then goes on unchanged.

        An engine goes on decoding for a client that went away: up to 4 s for a request that does not stream (Source: SGLang
        0.5.23, measured). The abort is sent at once and again 0.2 s later, since one that arrives before its generate is forgotten.

        Args:
            rids: The ids; ``guard.add(rid)`` adds one inside the block.
            logger: Where a failed abort is logged; None for the logger ``abort_sync``.

        Raises:
            ConfigurationError: A rid or the logger is not usable, or the client has no router and no worker URL.
        """
        self._operations.check_has_workers()
        return AbortGuard(self.abort_requests, [check_rid(rid) for rid in rids], check_logger(logger))

    def close(self) -> None:
        """Do nothing: no socket or thread outlives a call. Here for code that closes what it opens."""

    def __enter__(self) -> AbortClient:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], why: Optional[BaseException], where: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"AbortClient({self._operations.shown()})"

    def _until_idle(self, operation: str, rids: list[Any], timeout_s: float, poll_s: float, settle: int) -> Report:
        return self._operations.until_idle(
            operation, rids, check_seconds("timeout_s", timeout_s), check_seconds("poll_s", poll_s), check_count("settle", settle, 1, 100)
        )

    def _check_exclusive(self, what: str) -> None:
        if not self._settings.exclusive:
            raise ConfigurationError(f"{what} is refused: exclusive=False says that others use this fleet too; abort your rids instead")

    def _seconds(self, timeout_s: Optional[float]) -> float:
        return self._settings.timeout_s if timeout_s is None else check_seconds("timeout_s", timeout_s)

    def _flush_seconds(self, timeout_s: Optional[float]) -> float:
        return self._settings.flush_timeout_s if timeout_s is None else check_seconds("timeout_s", timeout_s)
