"""What the doctor can find: one kind of look a function, each finding with what to do."""

from __future__ import annotations

import netrc
import os
import socket
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from abort_sync import Attempt, Outcome, RouterView, Worker
from abort_sync.cli._reports import what_to_do
from abort_sync.cli._screen import clean

_CONNECT_S = 2.0
_REACH = "is it running, is the address right, and can this host reach it?"
_LONGER = "give it longer with --timeout"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: `ok`, `note` (good to know) or `problem` (an abort or a flush would not do its work).
        about: What was looked at.
        found: How it is.
        advice: What to do, or an empty string.
    """

    level: str
    about: str
    found: str
    advice: str = ""


def of_router(view: RouterView) -> Finding:
    """Say whether a URL is a router, and which dialect it speaks."""
    about = f"router {view.url}"
    if view.is_refused:
        advice = "give its key: --router-key-file FILE, or ABORT_SYNC_ROUTER_KEY (a server itself: --worker-url)"
        return Finding("problem", about, view.error or "refused", advice)
    if view.error:
        return Finding("problem", about, view.error, _reach(view.error))
    if view.dialect == "server":
        advice = "nothing, if it is one; a router has another URL"
        return Finding("note", about, "has no listing: it is taken for an SGLang server itself", advice)
    found = f"speaks GET {view.dialect} and lists {view.workers} workers"
    if not view.workers:
        return Finding("problem", about, found, "have its workers registered yet? Registration takes a while; see its log")
    return Finding("ok", about, found)


def of_worker(worker: Worker, look: Attempt | None, is_load_known: bool) -> Iterator[Finding]:
    """Say whether a worker can be reached from here and takes the key.

    Args:
        worker: As listed or given.
        look: The last attempt to read its load, or None if there was none.
        is_load_known: Whether the load could be read.
    """
    about = f"worker {worker.shown}"
    if worker.is_healthy is False:
        yield Finding("note", about, "is listed as unhealthy; aborts go to it all the same, as it may still generate")
    if worker.connection != "http":
        advice = "give its HTTP address with --worker-url URL, if it has one"
        yield Finding("problem", about, f"is reached by {worker.connection}, where no abort can be sent", advice)
    elif look is None:
        yield Finding("problem", about, "was not asked in time", _LONGER)
    elif look.http_status is None:
        yield Finding("problem", about, f"does not answer from here: {look.error}", _reach(look.error or ""))
    elif look.http_status in (401, 403):
        advice = "give its key: --worker-key-file FILE, or ABORT_SYNC_WORKER_KEY"
        yield Finding("problem", about, f"wants another key for its load (HTTP {look.http_status})", advice)
    elif is_load_known:
        yield Finding("ok", about, "answers from here and tells its load")
    elif look.http_status == 404:
        found = "answers from here, but has no route that tells a load (HTTP 404): no SGLang server, or a very old one"
        yield Finding("problem", about, found, "is the URL a worker's own? --probe tells whether it takes an abort")
    else:
        found = f"answers from here (HTTP {look.http_status}), but its load cannot be read: until-idle will say UNKNOWN"
        yield Finding("note", about, found, "is it an SGLang server, 0.5.3 or later?")


def of_probe(outcome: Outcome, about: str) -> Finding:
    """Say what the abort or flush of an unused id proves."""
    if outcome.ok:
        what = "abort" if outcome.rid else "flush"
        return Finding("ok", about, f"took the {what} of an unused id: route and key are right")
    return Finding("problem", about, f"{outcome.status}: {outcome.error}", what_to_do(outcome))


def _reach(error: str) -> str:
    return f"{_LONGER}; or {_REACH}" if "deadline" in error or "timed out" in error else _REACH


def of_agent_server(url: str | None, is_probed: bool) -> Finding:
    """Say whether something listens at the agent server's address."""
    if url is None:
        advice = "a flush needs one: --agent-server-url URL, or AGENT_SERVER_URL"
        return Finding("note", "agent server", "none is given", advice)
    parts = urlsplit(url if "://" in url else f"http://{url}")
    about = f"agent server {clean(parts.hostname)}"
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        about = f"agent server {parts.hostname}:{port}"
        socket.create_connection((parts.hostname or "", port), _CONNECT_S).close()
    except (OSError, ValueError) as error:
        return Finding("problem", about, f"cannot be reached: {error}", _REACH)
    return Finding("ok", about, "listens" if is_probed else "listens; its route and secret were not tried (--probe does)")


def of_surroundings(hosts: Iterable[str]) -> Iterator[Finding]:
    """Say whether a proxy variable or a `.netrc` touches the calls to these hosts.

    This package uses neither, but a script beside it that sends its generations with `requests` does.
    """
    hosts = sorted({host for host in hosts if host})
    proxies = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.upper())]
    through = [host for host in hosts if not urllib.request.proxy_bypass(host)]
    if proxies and through:
        there = ", ".join(through)
        found = f"{', '.join(proxies)} is set; not used here, but requests in your script sends calls to {there} through it"
        yield Finding("note", "proxy", found, f"put them in NO_PROXY: NO_PROXY={','.join(through)}")
    else:
        yield Finding("ok", "proxy", "no proxy variable touches these hosts")
    yield _of_netrc(hosts)


def _of_netrc(hosts: list[str]) -> Finding:
    places = [os.environ["NETRC"]] if os.environ.get("NETRC") else ["~/.netrc", "~/_netrc"]
    for path in map(os.path.expanduser, places):
        if not os.path.exists(path):
            continue
        try:
            entries = netrc.netrc(path)
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
            return Finding("note", ".netrc", f"{path} cannot be read: {clean(error)}", "mend it, or remove it")
        touched = [host for host in hosts if entries.authenticators(host)]
        if touched:
            there = ", ".join(touched)
            found = f"{path} has a login for {there}; not used here, but your script sends it in place of the key"
            return Finding("note", ".netrc", found, "remove the entry, or set session.trust_env = False in your script")
    return Finding("ok", ".netrc", "no login for these hosts")
