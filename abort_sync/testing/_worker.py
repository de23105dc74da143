"""A worker on loopback: generates slowly, aborts by rid as SGLang does, and tells its load.

Source: the answers were taken from SGLang 0.5.23 (`/generate`, `/abort_request`, `/v1/loads`, keys).
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ._behaviour import Reply
from ._connection import Connection
from ._http import LoopbackServer
from ._received import Received

_OPEN_PATHS = ("/health", "/health_generate")
_INFO: dict[str, Any] = {
    "model_path": "",  # a real router looks any other name up at a model hub
    "served_model_name": "loopback",
    "tokenizer_path": "",
    "is_generation": True,
    "tp_size": 1,
    "dp_size": 1,
    "disaggregation_mode": "null",
    "version": "0.5.23",
}
_TRUE = (True, 1, "1", "true", "yes", "on", "y", "t")
_FALSE = (False, 0, "0", "false", "no", "off", "n", "f")


@dataclass(eq=False)
class _Generation:
    rid: str
    max_new_tokens: float
    token_s: float
    ignored_aborts: int = 0
    began_at: float = field(default_factory=time.monotonic)
    finish_reason: dict[str, Any] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def answer(self) -> dict[str, Any]:
        tokens = self.max_new_tokens
        if self.finish_reason["type"] == "abort":
            tokens = min(tokens, int((time.monotonic() - self.began_at) / self.token_s))
        meta = {"id": self.rid, "finish_reason": self.finish_reason, "prompt_tokens": 1, "completion_tokens": tokens}
        return {"text": " token" * int(tokens), "meta_info": meta}


class LoopbackWorker(LoopbackServer):
    """An SGLang server that generates slowly, until it is aborted or has generated all that was asked for.

    An abort matches by prefix once the exact rid is live, as in SGLang; an unknown rid gets 200 too. When a client
    leaves, its generation is aborted at the next look: every 4 s, as SGLang does for requests that do not stream.

    Args:
        name: For its threads.
        key: `--api-key`: generations and loads want it, and aborts when there is no admin key.
        admin_key: `--admin-api-key`: aborts take only this one.
        token_s: Seconds a token.
        load_routes: Which of `/v1/loads` and `/get_load` (older servers) exist.
        tls: A server-side context makes it speak HTTPS.
    """

    def __init__(
        self,
        name: str = "worker",
        *,
        key: str | None = None,
        admin_key: str | None = None,
        token_s: float = 0.01,
        load_routes: Iterable[str] = ("/v1/loads",),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._key = key
        self._admin_key = admin_key
        self._token_s = token_s
        self._load_routes = frozenset(load_routes)
        self._generations: dict[str, _Generation] = {}
        super().__init__(name, tls=tls)

    @property
    def running(self) -> frozenset[str]:
        """The rids that are generating now."""
        with self._changed:
            return frozenset(self._generations)

    def start_generation(self, rid: str | None = None, *, ignore_first_aborts: int = 0) -> str:
        """Keep the worker busy without a client, until an abort or `finish_generation`.

        Args:
            rid: None makes one up.
            ignore_first_aborts: How many aborts that match it have no effect (each is answered 200 all the same).

        Returns:
            The rid.

        Raises:
            ValueError: The rid is live already.
        """
        rid = rid or uuid.uuid4().hex
        self._begin([rid], float("inf"), ignore_first_aborts)
        return rid

    def finish_generation(self, rid: str) -> None:
        """End a generation as one that reached its length; raises `KeyError` if it is not running."""
        with self._changed:
            self._end(self._generations[rid], {"type": "length", "length": 0})

    def respond(self, request: Received, connection: Connection) -> Reply:
        """Answer as an SGLang server."""
        path = request.path
        if path not in _OPEN_PATHS and not self._is_allowed(request):
            return Reply.of_json({"error": "Unauthorized"}, 401)
        if path in ("/generate", "/abort_request"):
            if request.method != "POST":
                return Reply.of_json({"detail": "Method Not Allowed"}, 405)
            try:
                body = request.json
                return self._abort(body) if path == "/abort_request" else self._generate(body, connection)
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                return Reply.of_json({"error": {"message": str(error)}}, 400)
        if path in _OPEN_PATHS:
            return Reply()
        if path in self._load_routes:
            return self._loads(path)
        if path in ("/get_server_info", "/server_info", "/get_model_info", "/model_info"):
            return Reply.of_json(_INFO)
        if path == "/v1/models":
            return Reply.of_json({"object": "list", "data": [{"id": _INFO["served_model_name"], "object": "model"}]})
        return Reply.of_json({"detail": "Not Found"}, 404)

    def _is_allowed(self, request: Received) -> bool:
        wanted = self._key
        if request.path == "/abort_request":
            wanted = self._admin_key or self._key
        return wanted is None or request.headers.get("authorization") == f"Bearer {wanted}"

    def _loads(self, path: str) -> Reply:
        count = len(self.running)
        if path == "/get_load":
            return Reply.of_json([{"dp_rank": 0, "num_reqs": count, "num_waiting_reqs": 0, "num_tokens": count}])
        load = {"dp_rank": 0, "num_running_reqs": count, "num_waiting_reqs": 0, "num_used_tokens": count}
        return Reply.of_json({"version": _INFO["version"], "dp_rank_count": 1, "loads": [load]})

    def _abort(self, body: dict[str, Any]) -> Reply:
        rid, everything = body.get("rid"), body.get("abort_all", False)
        if rid is not None and not isinstance(rid, str):
            raise ValueError("rid: expected a string")
        if everything not in _TRUE + _FALSE:
            raise ValueError("abort_all: expected a truth value")
        with self._changed:
            if everything in _TRUE:
                hit = list(self._generations.values())
            elif rid in self._generations:
                hit = [one for one in self._generations.values() if one.rid.startswith(rid)]
            else:
                hit = []
            for one in hit:
                if one.ignored_aborts:
                    one.ignored_aborts -= 1
                else:
                    self._end(one, {"type": "abort", "message": "Aborted"})
        return Reply()

    def _generate(self, body: dict[str, Any], connection: Connection) -> Reply:
        prompt: Any = body.get("input_ids", body.get("text"))
        is_batch = isinstance(prompt, list) and (not prompt or not isinstance(prompt[0], int))
        rid = body.get("rid") or uuid.uuid4().hex
        if not isinstance(rid, str):
            raise ValueError("rid: expected a string")
        rids = [f"{rid}_{index}" for index in range(len(prompt))] if is_batch else [rid]
        sampling = body.get("sampling_params") or {}
        generations = self._begin(rids, int(sampling.get("max_new_tokens", 128)))
        for one in generations:
            self._finish(one, connection, look_s=0.02 if body.get("stream") else 4.0)
        answers = [one.answer() for one in generations]
        if body.get("stream"):
            events = "".join(f"data: {json.dumps(one)}\n\n" for one in answers) + "data: [DONE]\n\n"
            return Reply(200, events.encode(), (("content-type", "text/event-stream"),))
        return Reply.of_json(answers if is_batch else answers[0])

    def _finish(self, one: _Generation, connection: Connection, look_s: float) -> None:
        ends_at = one.began_at + one.max_new_tokens * one.token_s
        while not connection.pause(max(0.0, min(look_s, ends_at - time.monotonic())), one.ended):
            with self._changed:
                if time.monotonic() >= ends_at:
                    self._end(one, {"type": "length", "length": one.max_new_tokens})
                elif not connection.has_client():
                    self._end(one, {"type": "abort", "message": "Aborted"})

    def _begin(self, rids: list[str], max_new_tokens: float, ignored_aborts: int = 0) -> list[_Generation]:
        generations = [_Generation(rid, max_new_tokens, self._token_s, ignored_aborts) for rid in rids]
        with self._changed:
            for one in generations:
                if one.rid in self._generations:
                    raise ValueError(f"Duplicate request ID detected: {one.rid}")
            self._generations.update((one.rid, one) for one in generations)
            self._changed.notify_all()
        return generations

    def _end(self, one: _Generation, finish_reason: dict[str, Any]) -> None:
        """End `one`, with the lock held; the first to end it says why."""
        if self._generations.pop(one.rid, None) is one:
            one.finish_reason = finish_reason
            one.ended.set()
            self._changed.notify_all()

    def _lose_work(self) -> None:
        for one in list(self._generations.values()):
            self._end(one, {"type": "abort", "message": "Aborted"})
