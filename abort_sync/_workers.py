"""The workers as a user sees them: values, each learned in one of several ways. This room learns nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ._errors import RouterError, RouterRefusedError
from ._urls import mask


@dataclass(frozen=True)
class Worker:
    """One HTTP base URL that serves generation; the data-parallel ranks of one server are one worker.

    Attributes:
        url: The clean base URL; credentials in it, if any, are masked in the repr.
        via: How it was learned: ``"router"``, ``"direct"`` (the URL given as a router is a server itself), ``"given"``
            (``worker_urls``), ``"last_known"`` (its router cannot be reached now).
        kind: As listed: ``"regular"``, ``"prefill"``, ``"decode"``, ..., or None.
        is_healthy: As listed, or None. It is never used to leave a worker out: a draining one may be generating.
        connection: ``"http"``, or the scheme by which it is reached (``"grpc"``, ``"ipc"``): then it cannot be aborted
            over HTTP, unless the router names an HTTP ``control_url``, which is ``url`` then.
        gateway_url: Where its router might abort on it with a key that only the router knows (smg with ``--enable-rl``); asked
            only where the worker itself refused.
    """

    url: str
    via: str = "router"
    kind: Optional[str] = None
    is_healthy: Optional[bool] = None
    connection: str = "http"
    gateway_url: Optional[str] = None

    @property
    def shown(self) -> str:
        """The URL with credentials masked."""
        return mask(self.url)

    def __repr__(self) -> str:
        rest = f"kind={self.kind!r}, is_healthy={self.is_healthy!r}, connection={self.connection!r}"
        return f"Worker(url={self.shown!r}, via={self.via!r}, {rest})"


@dataclass(frozen=True)
class RouterView:
    """What one router URL turned out to be.

    Attributes:
        url: The URL, credentials masked.
        dialect: ``"/workers"``, ``"/list_workers"``, ``"server"`` (an SGLang server itself) or None when it could not be learned.
        workers: How many workers it listed.
        error: Why they could not be learned, or None.
        is_refused: Whether it answered 401 or 403.
    """

    url: str
    dialect: Optional[str] = None
    workers: int = 0
    error: Optional[str] = None
    is_refused: bool = False


@dataclass(frozen=True)
class Discovery:
    """All that is known about the workers.

    Attributes:
        workers: Each worker once, in the order of the routers and their listings; those of ``worker_urls`` last.
        routers: What each router URL turned out to be.
        notes: What was dropped or rewritten, and why.
    """

    workers: tuple[Worker, ...]
    routers: tuple[RouterView, ...]
    notes: tuple[str, ...] = ()

    def raise_if_unknown(self) -> Discovery:
        """Return it, unless a router's workers could not be learned.

        Raises:
            RouterRefusedError: A router answered 401 or 403.
            RouterError: A router's workers could not be learned for another reason.
        """
        errors = [one.error for one in self.routers if one.error is not None]
        if errors:
            kind = RouterRefusedError if any(one.is_refused for one in self.routers) else RouterError
            raise kind("; ".join(errors))
        return self
