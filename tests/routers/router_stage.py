"""One router in one mode with its workers: what a test gets, and how it is started."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional
from urllib.parse import quote

import requests
from miles_router import MilesRouter
from router_process import OutsideRecorder, RouterProcess, free_port, interpreter, wait_until
from router_programs import ADMIN_KEY, ROUTER_KEY, Program

from abort_sync import AbortClient, Keys, Limits
from abort_sync.testing import Behaviour, LocalFleet, LoopbackWorker

# Longer than any test runs.
FOREVER = {"max_new_tokens": 1_000_000, "ignore_eos": True}
# More aborts than any test sends.
NEVER = 1_000_000
_WORKERS = {"data-parallel": 2, "none": 0, "IPv6": 1, "one killed": 4}


@dataclass(repr=False)
class Stage:
    """A running router and its workers.

    Attributes:
        program: Which router.
        mode: Which of `MODES`.
        url: The router's base URL.
        fleet: The workers; the fleet's own router and its URL play no part.
        by_url: The workers by the URL that the router was given.
    """

    program: Program
    mode: str
    url: str
    fleet: LocalFleet
    by_url: dict[str, LoopbackWorker]
    process: Optional[RouterProcess] = None
    keys: Keys = field(default_factory=Keys)

    def __repr__(self) -> str:
        return f"<{self.program.name}, {self.mode}, at {self.url}>"

    def client(self, **overrides: Any) -> AbortClient:
        """Return a client that knows this router and its keys, and has more patience than a busy machine needs."""
        patience = {"timeout_s": 60.0, "limits": Limits(connect_s=25.0, read_s=25.0)}
        return AbortClient(self.url, **{"keys": self.keys, **patience, **overrides})

    def send(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Send a request to the router without the product, with the key that it takes."""
        key = ADMIN_KEY if self.mode == "control keys" else ROUTER_KEY
        with requests.Session() as session:
            session.trust_env = False
            headers = {"Authorization": f"Bearer {key}"}
            return session.request(method, self.url + path, json=body, headers=headers, timeout=120)

    @property
    def alive(self) -> set[str]:
        """The URLs of the workers that live."""
        return {url for url, worker in self.by_url.items() if worker.is_alive}

    def listed(self) -> set[str]:
        """Ask the router itself, without the product: the URLs as it spells them."""
        return {entry if isinstance(entry, str) else entry["url"] for entry in self.listing() or ()}

    def listing(self) -> Optional[list[Any]]:
        """Ask the router itself, without the product: the entries of its listing, or None if it gives none."""
        for path in ("/workers", "/list_workers"):
            try:
                answer = self.send("GET", path)
            except requests.ConnectionError:
                return None
            if answer.status_code == 200:
                value = answer.json()
                return list(value["workers"] if "workers" in value else value["urls"])
        return None

    def add(self, url: str) -> None:
        """Tell the router of one more worker and wait until it is listed."""
        if self.program.has_workers_resource:
            answer = self.send("POST", "/workers", {"url": url})
        else:
            answer = self.send("POST", f"/add_worker?url={quote(url, safe='')}")
        assert answer.ok, answer.text
        wait_until(lambda: url in self.listed(), f"{url} listed by the router")

    def remove(self, url: str) -> None:
        """Tell the router to forget a worker and wait until it is not listed any more (smg: about 5 s)."""
        if self.program.has_workers_resource:
            (name,) = [entry["id"] for entry in self.listing() or () if entry["url"] == url]
            answer = self.send("DELETE", f"/workers/{quote(name, safe='')}")
        else:
            answer = self.send("POST", f"/remove_worker?url={quote(url, safe='')}")
        assert answer.ok, answer.text
        wait_until(lambda: url not in self.listed(), f"{url} gone from the router's listing")

    def generate(self, rid: str) -> Future[requests.Response]:
        """Start a generation through the router; the answer comes when it was aborted."""
        body = {"rid": rid, "text": "hello", "sampling_params": FOREVER}
        return in_thread(self.send, "POST", "/generate", body)

    def wait_running(self, rid: str) -> None:
        """Wait until some worker generates `rid`."""
        wait_until(lambda: self.running(rid) != set(), f"{rid} running on a worker")

    def running(self, rid: str) -> set[str]:
        """The URLs of the workers that generate `rid` now."""
        return {url for url, worker in self.by_url.items() if rid in worker.running}

    def aborts(self, url: str, rid: Optional[str] = None) -> list[dict[str, Any]]:
        """What a worker was asked to abort so far; with `rid`, only requests that name it."""
        bodies = [one.json for one in self.by_url[url].requests if one.path == "/abort_request"]
        return [body for body in bodies if rid is None or body["rid"] == rid]

    def end_all(self) -> None:
        """End what still generates, so that the next test finds idle workers."""
        for worker in self.by_url.values():
            for rid in worker.running:
                with contextlib.suppress(KeyError):
                    worker.finish_generation(rid)


def in_thread(call: Any, *args: Any, **kwargs: Any) -> Future[Any]:
    """Run `call` in a daemon thread: a test that fails does not wait for it."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@contextlib.contextmanager
def staged(program: Program, mode: str, logs: Path) -> Iterator[Stage]:
    """Start `program` in `mode` with its workers, and end them; nothing may have tried to leave the machine."""
    with contextlib.ExitStack() as stack:
        worker_key = ROUTER_KEY if mode in ("key", "gateway route") else None
        fleet = stack.enter_context(LocalFleet(_WORKERS.get(mode, 3), agent_server=False, worker_key=worker_key))
        urls: tuple[str, ...] = fleet.worker_urls
        if mode == "IPv6":
            urls = tuple(stack.enter_context(_ipv6_door(url)) for url in urls)
        stage = Stage(program, mode, "", fleet, dict(zip(urls, fleet.workers)))
        if mode == "key":
            stage.keys = Keys(router=ROUTER_KEY, worker=ROUTER_KEY)
        elif mode == "gateway route":
            stage.keys = Keys(router=ROUTER_KEY)
        elif mode == "control keys":
            stage.keys = Keys(router=ADMIN_KEY)
        elif mode == "data-parallel":
            for worker in fleet.workers:
                _has_two_ranks(worker)
        elif mode == "router first":
            fleet.workers[0].behave(Behaviour.answer(503))
            for worker in fleet.workers[1:]:
                worker.kill()
        given = urls[:2] if mode == "changing" else urls  # the third is added by a test
        if not program.launcher:
            miles = MilesRouter(given)
            stack.callback(miles.stop)
            stage.url = miles.url
        else:
            outside = OutsideRecorder()
            stack.callback(_check_outside, outside, mode)
            stack.callback(outside.close)
            stack.callback(lambda: stage.process and stage.process.stop())
            _start(stage, given, logs, outside)
        yield stage


def _start(stage: Stage, given: Sequence[str], logs: Path, outside: OutsideRecorder) -> None:
    """Start the router; when another program took its port in between, start it again with other ports."""
    program, mode = stage.program, stage.mode
    host = "::1" if mode == "IPv6" else "127.0.0.1"
    python = interpreter(program.requirement, program.in_extra)
    expected = 2 * len(given) if mode == "data-parallel" else len(given)
    for attempt in (1, 2, 3):
        port, metrics_port = free_port(host), free_port()
        stage.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        log = logs / f"{program.name} {mode.replace('/', '-')} {attempt}.log"
        process = RouterProcess(python, program.arguments(mode, port, metrics_port, given), log, outside)
        stage.process = process
        try:
            wait_until(lambda: _is_ready(stage, expected), f"{program.name} lists {expected} entries")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{process.tail()}") from None
        if process.exit_code is None:
            return
        assert "in use" in process.tail().lower() and attempt < 3, f"{program.name} ended by itself:\n{process.tail()}"


def _is_ready(stage: Stage, expected: int) -> bool:
    """Whether there is nothing to wait for: it lists all, it has begun to look for its workers, or it has ended."""
    if stage.process is None or stage.process.exit_code is not None:
        return True
    if stage.mode == "router first":
        return bool(stage.fleet.workers[0].requests)
    entries = stage.listing()
    return entries is not None and len(entries) == expected


def _check_outside(outside: OutsideRecorder, mode: str) -> None:
    # The gateway's own mistake: it takes `@rank` for a host. These requests end at the recorder, too.
    own = ("GET http://0.0.0.0/", "GET http://0.0.0.1/") if mode == "data-parallel" else ()
    strays = [line for line in outside.seen if not line.startswith(own)]
    assert not strays, f"the router tried to reach the outside: {strays}"


def _has_two_ranks(worker: LoopbackWorker) -> None:
    info = {"model_path": "", "served_model_name": "loopback", "tp_size": 2, "dp_size": 2, "version": "0.5.23"}
    behaviour = Behaviour.answer(200, json.dumps(info), {"content-type": "application/json"})
    for path in ("/get_server_info", "/server_info"):
        worker.behave(behaviour, path=path)


@contextlib.contextmanager
def _ipv6_door(url: str) -> Iterator[str]:
    """Open a port on [::1] that leads to the worker at `url`, since LocalFleet serves 127.0.0.1 only."""
    target = ("127.0.0.1", int(url.rpartition(":")[2]))
    listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    sockets: set[socket.socket] = {listener}

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection(target) as worker:
            sockets.update((client, worker))
            back = threading.Thread(target=copy, args=(worker, client), daemon=True)
            back.start()
            copy(client, worker)
            back.join()
        sockets.difference_update((client, worker))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"http://[::1]:{listener.getsockname()[1]}"
    finally:
        for one in tuple(sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        accepting.join(10.0)
        listener.close()
