"""The doctor: looks at a set-up without aborting anything, and says of each finding what to do.

Routers and workers are asked through the client's own look-ups (the listing and the loads). The agent server has no
look-up, so for it the doctor opens and closes one TCP connection of its own, of at most 2 s. Under `--probe` it also
aborts and flushes a fresh id that nobody uses, which ends nothing (Source: SGLang 0.5.23, measured; the flush contract).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields, replace
from urllib.parse import urlsplit

from abort_sync import AbortClient, Keys, Load, Worker, new_rid
from abort_sync.cli import _findings
from abort_sync.cli._findings import Finding
from abort_sync.cli._looks import Looks
from abort_sync.cli._screen import Screen
from abort_sync.cli._settings import agent_server_url, has_workers, limit, make_client
from abort_sync.cli._status import NOT_WELL, WELL
from abort_sync.cli._words import as_options


def doctor(options: argparse.Namespace, screen: Screen) -> int:
    """Print all findings, then what to do; 1 if one of them is a problem."""
    client = make_client(options, workers=agent_server_url(options) is None)
    findings = [replace(finding, found=as_options(finding.found)) for finding in _look(client, options)]
    shown = [one for one in findings if one.level == "problem" or not screen.is_quiet]
    if screen.is_json:
        screen.print_json({"findings": [asdict(finding) for finding in findings]})
    elif shown:
        screen.table(("LEVEL", "ABOUT", "FOUND"), [(one.level, one.about, one.found) for one in shown])
        advice = dict.fromkeys(f"{one.about}: {one.advice}" for one in shown if one.advice)
        if advice:
            screen.print("\n" + "\n".join(advice))
    return NOT_WELL if any(finding.level == "problem" for finding in findings) else WELL


def _look(client: AbortClient, options: argparse.Namespace) -> Iterator[Finding]:
    keys: Keys = options.keys
    given = [field.name for field in fields(keys) if getattr(keys, field.name)]
    yield Finding("ok", "keys", f"given for: {', '.join(given)}" if given else "none is given")
    agent_url = agent_server_url(options)
    hosts = {urlsplit(agent_url or "").hostname}
    if has_workers(options):
        discovery = client.discover(**limit(options))
        urls = [*(router.url for router in discovery.routers), *(worker.url for worker in discovery.workers)]
        hosts |= {urlsplit(url).hostname for url in urls}
        yield from map(_findings.of_router, discovery.routers)
        for note in discovery.notes:
            yield Finding("note", "listing", note)
        yield from _look_at_workers(discovery.workers, options)
    else:
        yield Finding("note", "router", "none is given", "an abort needs one: --router-url URL, or ABORT_SYNC_ROUTER_URL")
    yield _findings.of_agent_server(agent_url, options.probe)
    if agent_url and options.probe:
        for outcome in client.flush([new_rid("doctor-")], **limit(options)).outcomes:
            yield _findings.of_probe(outcome, "agent server")
    yield from _findings.of_surroundings(host for host in hosts if host)


def _look_at_workers(workers: Iterable[Worker], options: argparse.Namespace) -> Iterator[Finding]:
    """Look at the workers that could be learned, also where a router could not be asked."""
    looks = Looks()
    loads: dict[str, Load | None] = {}
    urls = [worker.url for worker in workers if worker.connection == "http"]
    if urls:
        client = AbortClient(worker_urls=urls, keys=options.keys, on_event=looks)
        loads = client.loads(**limit(options))
    for worker in workers:
        yield from _findings.of_worker(worker, looks.get(worker.shown), loads.get(worker.shown) is not None)
    if urls and options.probe:
        for outcome in client.abort_request(new_rid("doctor-"), **limit(options)).outcomes:
            yield _findings.of_probe(outcome, f"worker {outcome.target}")
