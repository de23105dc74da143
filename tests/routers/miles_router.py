"""A stand-in for the miles router: what it lists, and that it passes everything else on to one worker.

Source: miles at commit 31f1ca961, whose answers are in `tests/data/routers/miles-31f1ca961.json`: `/list_workers` and
`/add_worker` are its own routes; any other path goes to the worker with the fewest requests in flight that is not known
to be dead, its answer comes back unchanged, and without such a worker it answers 500 in plain text. Dead workers stay
listed.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class MilesRouter:
    """The stand-in; it serves from the moment it is made until `stop`."""

    def __init__(self, worker_urls: Sequence[str]) -> None:
        self._in_flight: dict[str, int] = dict.fromkeys(worker_urls, 0)
        self._dead: set[str] = set()
        self._lock = threading.Lock()
        router = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                router._handle(self)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        """End the server; requests that it still passes on are left to their workers."""
        self._server.shutdown()
        self._server.socket.close()
        self._thread.join(10.0)

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        target = urlsplit(request.path)
        if target.path == "/list_workers":
            answer = json.dumps({"urls": list(self._in_flight)}, separators=(",", ":")).encode()
            _answer(request, 200, "application/json", answer)
        elif target.path == "/add_worker":
            (url,) = parse_qs(target.query)["url"]
            with self._lock:
                self._in_flight.setdefault(url, 0)
            _answer(request, 200, "application/json", b'{"status":"success"}')
        else:
            self._pass_on(request, body)

    def _pass_on(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        with self._lock:
            alive = [url for url in self._in_flight if url not in self._dead]
            if not alive:
                _answer(request, 500, "text/plain; charset=utf-8", b"Internal Server Error")
                return
            url = min(alive, key=self._in_flight.__getitem__)
            self._in_flight[url] += 1
        upstream = http.client.HTTPConnection(urlsplit(url).netloc)
        try:
            headers = {"content-type": request.headers.get("content-type", "")}
            upstream.request(request.command, request.path, body, headers)
            answer = upstream.getresponse()
            status, kind, content = answer.status, answer.getheader("content-type", "text/plain"), answer.read()
        except OSError:
            self._dead.add(url)  # its health check does that within seconds
            status, kind, content = 500, "text/plain; charset=utf-8", b"Internal Server Error"
        finally:
            upstream.close()
            with self._lock:
                self._in_flight[url] -= 1
        _answer(request, status, kind, content)


def _answer(request: BaseHTTPRequestHandler, status: int, kind: str, content: bytes) -> None:
    try:
        request.send_response(status)
        request.send_header("content-type", kind)
        request.send_header("content-length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
    except OSError:  # the client has left: the worker's generation ran on all the same
        pass
