"""A router on loopback: lists its workers in one dialect or another and passes generations on.

Source: the answers were taken from sglang-router 0.1.9, 0.2.1 and 0.3.2.
"""

from __future__ import annotations

import http.client
import itertools
import ssl
import uuid
from collections.abc import Iterable
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from ._behaviour import Reply
from ._connection import Connection
from ._http import LoopbackServer
from ._received import Received

_DIALECTS = {
    "workers": frozenset({"/workers"}),
    "list_workers": frozenset({"/list_workers"}),
    "both": frozenset({"/workers", "/list_workers"}),
}


class LoopbackRouter(LoopbackServer):
    """Knows its workers and has no abort route, as the SGLang routers.

    `POST /generate` goes to the workers in turn; where one is dead or answers 500 or 503, the same rid is sent to the
    next one, five times in all, as a real router does. When its client leaves, the generation runs on, as behind the miles
    router. Not over TLS.

    Args:
        worker_urls: What it lists at first; the attribute may be set later, to any text.
        dialect: `"workers"` (sglang-router 0.3.2), `"list_workers"` (0.1.9) or `"both"` (0.2.1).
        key: `--api-key`: the listing and the generations want it.
        tls: A server-side context makes it speak HTTPS.

    Raises:
        ValueError: An unknown dialect.
    """

    def __init__(
        self,
        worker_urls: Iterable[str] = (),
        *,
        dialect: str = "workers",
        key: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if dialect not in _DIALECTS:
            raise ValueError(f"dialect: one of {', '.join(_DIALECTS)} is wanted, not {dialect!r}")
        self.worker_urls = tuple(worker_urls)
        self._listings = _DIALECTS[dialect]
        self._key = key
        self._turn = itertools.count()
        super().__init__("router", tls=tls)

    def respond(self, request: Received, connection: Connection) -> Reply:
        """Answer as a router."""
        route = (request.method, request.path)
        if route == ("GET", "/health"):
            return Reply(body=b"OK")
        is_listing = request.method == "GET" and request.path in self._listings
        if not is_listing and route != ("POST", "/generate"):
            return Reply(404)
        if self._key is not None and request.headers.get("authorization") != f"Bearer {self._key}":
            return Reply(401)
        if not is_listing:
            return self._pass_on(request)
        if request.path == "/list_workers":
            return Reply.of_json({"urls": list(self.worker_urls)})
        stats = {"prefill_count": 0, "decode_count": 0, "regular_count": len(self.worker_urls)}
        entries = [_entry(url) for url in self.worker_urls]
        return Reply.of_json({"workers": entries, "total": len(entries), "stats": stats})

    def _pass_on(self, request: Received) -> Reply:
        urls = self.worker_urls
        for _ in range(5 if urls else 0):
            reply = _send(urls[next(self._turn) % len(urls)], request)
            if reply.status not in (500, 502, 503):
                return reply
        return Reply.of_json({"error": {"message": "No available workers"}}, 503)


def _send(url: str, request: Received) -> Reply:
    headers = {name: request.headers[name] for name in ("authorization", "content-type") if name in request.headers}
    with closing(http.client.HTTPConnection(urlsplit(url).netloc)) as upstream:
        try:
            upstream.request(request.method, request.path, request.body, headers)
            answer = upstream.getresponse()
            kind = answer.headers.get("content-type", "application/json")
            return Reply(answer.status, answer.read(), (("content-type", kind),))
        except (OSError, http.client.HTTPException):
            return Reply(502)


def _entry(url: str) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, url)),
        "url": url,
        "model_id": "loopback",
        "priority": 50,
        "cost": 1.0,
        "worker_type": "regular",
        "is_healthy": True,
        "load": 0,
        "connection_mode": "HTTP",
        "metadata": {"model_path": "", "served_model_name": "loopback", "tp_size": "1", "dp_size": "1"},
        "disable_health_check": False,
    }
