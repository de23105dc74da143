"""Learn the workers from a router, in each dialect that routers speak. This room sends nothing to a worker.

Sources, all measured on the real programs: ``GET /workers`` answers an object with ``workers`` (sglang-router 0.2.1 to 0.3.2,
smg 1.3 and 1.13, vllm-router 0.1.17); ``GET /list_workers`` one with ``urls`` (sglang-router 0.1.9 and 0.2.1, vllm-router,
the miles router, which passes ``/workers`` on to one of its workers); an SGLang server itself answers 404 to both.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Optional

from ._answer import Answer, NotJson, Order, read_json
from ._call import Call, Tries
from ._deadline import Deadline
from ._fanout import Step
from ._judge import explain
from ._report import Status
from ._urls import Url, clean_url, is_wildcard, mask
from ._workers import RouterView, Worker

MAX_LISTING_BYTES = 16 * 1024 * 1024
"""The longest listing that is read: some ten thousand workers with all their details."""
MAX_WORKERS = 10_000
"""The most entries of a listing that are used."""
_NO_ROUTE = (404, 405)
_NOTES_SHOWN = 20


@dataclass
class Listing:
    """What is learned about one router; filled in by ``learn``.

    Attributes:
        router: Its URL.
        is_reachable: False when the listing failed in a way that says nothing about the workers: no answer, or 5xx.
        repeats: How many entries named a server that another entry had named.
    """

    router: Url
    workers: tuple[Worker, ...] = ()
    dialect: Optional[str] = None
    notes: list[str] = field(default_factory=list)
    error: Optional[str] = "the deadline came before the router was asked"
    is_refused: bool = False
    is_reachable: bool = False
    repeats: int = 0

    def view(self, scrub: Callable[[str], str]) -> RouterView:
        """Return it as a user sees it."""
        error = scrub(self.error) if self.error else None
        return RouterView(mask(self.router.text), self.dialect, len(self.workers), error, self.is_refused)


def learn(call: Call, listing: Listing, deadline: Deadline) -> Generator[Step, None, None]:
    """Ask a router for its workers and fill the listing in.

    ``/workers`` first; where that is no route or fails with a 500, ``/list_workers``. Only when both say "no such route" is the
    URL taken for a server itself. A refusal is never a reason to go on.
    """
    tries = Tries("list", mask(listing.router.text), key_hint="keys.router (ABORT_SYNC_ROUTER_KEY)")
    for number in itertools.count(1):
        answer = call.exchange(_order(call, listing, "/workers"), tries, deadline)
        dialect = "/workers"
        first = answer
        if answer.is_whole and answer.status in (*_NO_ROUTE, 500):
            answer = call.exchange(_order(call, listing, "/list_workers"), tries, deadline)
            dialect = "/list_workers"
            if answer.is_whole and answer.status in _NO_ROUTE and first.status == 500:
                answer = first  # trouble, not a server itself
        _take(call, listing, answer, dialect, tries)
        pause = call.pause(answer, deadline, number)
        if listing.error is None or pause is None:
            return
        yield pause


def _order(call: Call, listing: Listing, path: str) -> Order:
    return Order("GET", listing.router.text + path, call.settings.keys.router, max_bytes=MAX_LISTING_BYTES)


def _take(call: Call, listing: Listing, answer: Answer, dialect: str, tries: Tries) -> None:
    """Take an answer to the listing. The error goes last: until then a report calls the workers unknown, not none."""
    shown = mask(listing.router.text)
    listing.is_refused, listing.is_reachable = False, True
    if answer.is_whole and answer.status in _NO_ROUTE:
        listing.dialect = "server"
        listing.workers = (Worker(listing.router.text, via="direct"),)
        listing.error = None
        return
    status = tries.judge(answer)
    if status is not Status.ACCEPTED:
        listing.is_refused = status is Status.REFUSED
        listing.is_reachable = status in (Status.REFUSED, Status.REJECTED) and (answer.status or 0) < 500
        why = explain(answer, status, tries.key_hint, call.scrub)
        listing.error = f"the workers of {shown} cannot be learned: {why}"
        return
    listing.error = f"the deadline came while the listing of {shown} was read"
    try:
        entries = _entries(read_json(answer.body))
    except NotJson as no:
        listing.error = f"the workers of {shown} cannot be learned: GET {dialect} is no listing ({no}); is this the router's URL?"
        return
    notes: list[str] = []
    workers: dict[str, Worker] = {}
    repeats = 0
    for entry in entries[:MAX_WORKERS]:
        try:
            worker = _placed(*_read_entry(entry), listing.router, call.settings.rewrite_local_urls, notes)
            worker = replace(worker, gateway_url=_gateway_url(entry, listing))
        except ValueError as no:
            notes.append(f"{shown} lists an entry that cannot be used: {no}")
            continue
        if workers.setdefault(worker.url, worker) is not worker:
            repeats += 1
    listing.repeats = repeats
    dropped = len(notes) - _NOTES_SHOWN
    if dropped > 0:
        notes[_NOTES_SHOWN:] = [f"and {dropped} more notes about the listing of {shown}"]
    listing.dialect, listing.notes, listing.workers = dialect, notes, tuple(workers.values())
    is_cut = len(entries) > MAX_WORKERS
    listing.error = f"{shown} lists {len(entries)} entries: only the first {MAX_WORKERS} are used" if is_cut else None


def _entries(content: Any) -> list[Any]:
    """Return the entries of a listing in any dialect.

    Raises:
        NotJson: It is no listing.
    """
    if isinstance(content, Mapping):
        found = next((content[name] for name in ("workers", "urls") if name in content), None)
        if isinstance(found, list):
            return found
    elif isinstance(content, list) and (not content or any(isinstance(one, (str, Mapping)) for one in content)):
        return content
    raise NotJson("it has no list of workers")


def _read_entry(entry: Any) -> tuple[Worker, Optional[Url]]:
    """Return the worker that an entry names, and its URL if that can be called.

    Raises:
        ValueError: It names none.
    """
    details: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {"url": entry}
    labels = details.get("labels")
    control = labels.get("rl.control_url") if isinstance(labels, Mapping) else None
    url = next((details[name] for name in ("dp_base_url", "base_url", "url") if details.get(name)), None)
    if not isinstance(url, str):
        raise ValueError(f"its url is {'missing' if url is None else 'no string'} ({type(entry).__name__})")
    scheme = url.strip().partition("://")[0].lower() if "://" in url else "http"
    kind = details.get("worker_type")
    plain = Worker(
        url, kind=kind if isinstance(kind, str) and kind.isprintable() and len(kind) <= 64 else None, is_healthy=_health(details)
    )
    if scheme in ("grpc", "grpcs", "ipc"):
        if not isinstance(control, str):
            return replace(plain, url=_safe(url), connection=scheme), None
        url = control
    clean = clean_url(url, "the worker URL")
    return replace(plain, url=clean.text), clean


def _gateway_url(entry: Any, listing: Listing) -> Optional[str]:
    name = entry.get("id") if isinstance(entry, Mapping) else None
    if not isinstance(name, str) or not re.fullmatch(r"[0-9A-Za-z-]{1,64}", name):
        return None
    return f"{listing.router.text}/v1/rl/workers/{name}/engine/abort_request"


def _safe(url: str) -> str:
    if not url.isprintable() or len(url) > 2048:
        raise ValueError(f"the worker URL {mask(url)[:80]!r} is not usable")
    return url.strip().rstrip("/")


def _health(details: Mapping[str, Any]) -> Optional[bool]:
    healthy = details.get("is_healthy")
    if isinstance(healthy, bool):
        return healthy
    status = details.get("status")
    return status.lower() in ("healthy", "ready") if isinstance(status, str) else None


def _placed(worker: Worker, url: Optional[Url], router: Url, may_rewrite: bool, notes: list[str]) -> Worker:
    if url is None or not may_rewrite or not url.is_local or (router.is_local and not is_wildcard(url.host)):
        return worker
    moved = url.on_host(router.host)
    if moved.text == url.text:
        return worker
    notes.append(f"{mask(url.text)} is on the router's host: it is called as {mask(moved.text)} (rewrite_local_urls)")
    return replace(worker, url=moved.text)
