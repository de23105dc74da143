"""An agent server on loopback: keeps runs by instance id and cancels them on a flush.

Source: the flush contract of the Harbor bridge (`POST /flush`, secret `HARBOR_ADMIN_SECRET`).
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Mapping

from ._behaviour import Reply
from ._connection import Connection
from ._http import LoopbackServer
from ._received import Received


class LoopbackAgentServer(LoopbackServer):
    """Runs trials in name only.

    A flush cancels the running trials of its instance id at once, answers `teardown_s` later, and only then do the
    trials that were waiting for a slot start: they are not counted, and only another flush cancels them.

    Args:
        secret: A flush without `Authorization: Bearer <secret>` gets 401; None lets everybody in.
        teardown_s: Seconds from a flush that cancels something to its answer.
        tls: A server-side context makes it speak HTTPS.
    """

    def __init__(self, *, secret: str | None = None, teardown_s: float = 0.05, tls: ssl.SSLContext | None = None) -> None:
        self._secret = secret
        self.teardown_s = teardown_s
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        super().__init__("agent", tls=tls)

    @property
    def running(self) -> Mapping[str, int]:
        """How many trials run by instance id; ids with none are left out."""
        with self._changed:
            return dict(+self._running)

    def start_runs(self, instance_id: str, count: int = 1) -> None:
        """Start `count` trials of `instance_id`; they run until a flush."""
        with self._changed:
            self._running[instance_id] += count
            self._changed.notify_all()

    def waiting(self, instance_id: str, count: int = 1) -> None:
        """Put `count` trials of `instance_id` in the queue: they start after the next flush of that id."""
        with self._changed:
            self._waiting[instance_id] += count

    def respond(self, request: Received, connection: Connection) -> Reply:
        """Answer as an agent server."""
        if request.path == "/health":
            return Reply.of_json({"status": "ok"})
        if request.path != "/flush":
            return Reply.of_json({"detail": "Not Found"}, 404)
        if request.method != "POST":
            return Reply.of_json({"detail": "Method Not Allowed"}, 405)
        if self._secret is not None and request.headers.get("authorization") != f"Bearer {self._secret}":
            return Reply.of_json({"detail": "Unauthorized"}, 401)
        try:
            instance_id = request.json["session_server_instance_id"]
        except (ValueError, TypeError, KeyError):
            instance_id = None
        if not isinstance(instance_id, str):
            return Reply.of_json({"detail": "session_server_instance_id: a string is wanted"}, 422)
        return Reply.of_json({"session_server_instance_id": instance_id, "cancelled": self._flush(instance_id, connection)})

    def _flush(self, instance_id: str, connection: Connection) -> int:
        with self._changed:
            cancelled = self._running.pop(instance_id, 0)
            self._changed.notify_all()
        if cancelled:
            connection.pause(self.teardown_s)
        with self._changed:
            self.start_runs(instance_id, self._waiting.pop(instance_id, 0))
        return cancelled

    def _lose_work(self) -> None:
        self._running.clear()
        self._waiting.clear()
